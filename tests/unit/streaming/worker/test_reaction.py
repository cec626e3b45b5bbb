from __future__ import annotations

import pytest

from airflow_provider.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    FencedError,
    ProcessError,
    StateError,
    StoreCorruptedError,
    StoreDivergedError,
    StoreLockedError,
    StoreOutdatedError,
    TopicDamagedError,
    TopicMissingError,
    WorkerError,
)
from airflow_provider.streaming.worker.task_registry import Reaction, reaction_to_batch_error, reaction_to_error


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        pytest.param(StoreCorruptedError("bad"), Reaction.REPLACE_STORE, id="corrupted"),
        pytest.param(StoreOutdatedError("old"), Reaction.REPLACE_STORE, id="outdated"),
        pytest.param(StoreDivergedError("other"), Reaction.REPLACE_STORE, id="diverged"),
        pytest.param(StateError("no space left"), Reaction.CLOSE_STORE, id="state-folder"),
        pytest.param(StoreLockedError("held"), Reaction.CLOSE_STORE, id="locked"),
        pytest.param(TopicDamagedError("flipped"), Reaction.CLOSE_STORE, id="damaged-changelog"),
        pytest.param(BrokerUnreachableError("no answer"), Reaction.RETRY, id="broker"),
        pytest.param(TopicMissingError("gone"), Reaction.RETRY, id="topic"),
        pytest.param(FencedError("while it fenced"), Reaction.RETRY, id="fenced"),
        pytest.param(ConfigurationError("not authorized"), Reaction.FAIL, id="authorization"),
    ],
)
def test_reaction_to_an_error_without_rows(error: Exception, reaction: Reaction) -> None:
    assert reaction_to_error(error) is reaction


@pytest.mark.parametrize(
    ("error", "first", "last"),
    [
        pytest.param(FencedError("newer"), Reaction.WAIT, Reaction.WAIT, id="fenced"),
        pytest.param(StateError("disk"), Reaction.CLOSE_STORE, Reaction.CLOSE_STORE, id="store"),
        pytest.param(StoreCorruptedError("bad"), Reaction.REPLACE_STORE, Reaction.REPLACE_STORE, id="bad-store"),
        pytest.param(BrokerUnreachableError("no answer"), Reaction.RAISE, Reaction.RAISE, id="broker"),
        pytest.param(ProcessError("t", 0, 1, "k", "poison"), Reaction.RAISE, Reaction.FAIL, id="record"),
        pytest.param(OSError("of the job's function"), Reaction.RAISE, Reaction.FAIL, id="function"),
        pytest.param(WorkerError("deadly"), Reaction.FAIL, Reaction.FAIL, id="deadly-batch"),
        pytest.param(ConfigurationError("not authorized"), Reaction.FAIL, Reaction.FAIL, id="authorization"),
        pytest.param(TypeError("of our own"), Reaction.FAIL, Reaction.FAIL, id="programming-error"),
        pytest.param(TopicMissingError("gone"), Reaction.RAISE, Reaction.RAISE, id="topic"),
    ],
)
def test_reaction_to_an_error_with_rows(error: Exception, first: Reaction, last: Reaction) -> None:
    assert reaction_to_batch_error(error, attempts_left=True) is first
    assert reaction_to_batch_error(error, attempts_left=False) is last
