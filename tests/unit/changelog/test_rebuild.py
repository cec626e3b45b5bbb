"""What a store must be for a changelog to be rebuilt from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.changelog.rebuild import look
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import StateError, StoreDivergedError, TopicMismatchError
from airflow_provider.state.digest import digest_of
from airflow_provider.state.position import Position
from airflow_provider.state.store import Store
from tests.builders import commit_of

STATE = {b"a": b"1", b"b": b"2"}
DIGEST = f"{digest_of(STATE.keys(), STATE.values()):016x}"


def commit(application_id: str = "orders", **digests: str) -> bytes:
    return commit_of(
        application_id=application_id, task=TaskId(0, 3), sequence=12, generation=7, digests=digests
    ).to_bytes()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state", ["state"])
    yield store
    store.close()


def fill(store: Store, record: bytes | None) -> None:
    store.write({"state": list(STATE.items())}, Position(commit=record))


def test_store_that_holds_what_its_commit_says_is_taken(store: Store) -> None:
    fill(store, commit(state=DIGEST))

    copy = look(store, "state", "orders", TaskId(0, 3), "orders-state-changelog")

    assert (copy.keys, copy.commit.sequence, f"{copy.digest:016x}") == (2, 12, DIGEST)


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        pytest.param(None, StateError, "holds no commit", id="no-commit"),
        pytest.param(commit(), StateError, "no digest of 'state'", id="digest-not-known"),
        pytest.param(commit(state="0" * 16), StoreDivergedError, "between two commits", id="another-digest"),
        pytest.param(commit("payments", state=DIGEST), TopicMismatchError, "'payments'", id="of-another-application"),
    ],
)
def test_store_that_may_not_hold_it_is_not_taken(
    record: bytes | None, error: type[Exception], message: str, store: Store
) -> None:
    fill(store, record)

    with pytest.raises(error, match=message):
        look(store, "state", "orders", TaskId(0, 3), "orders-state-changelog")
