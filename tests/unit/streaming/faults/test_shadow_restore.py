"""A replay beside the living store, on a changelog in memory and real stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.changelog.commit_record import SourcePosition
from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.names import transactional_id
from airflow_provider.state.digest import digest_of
from airflow_provider.streaming.faults.shadow_restore import ShadowRestore, ShadowResult, restore_shadow
from airflow_provider.testing.in_memory_clients import InMemoryGroup, InMemoryLog, InMemoryReader, InMemoryWriter
from tests.builders import commit_of
from tests.unit.streaming.worker.bench import APPLICATION, CHANGELOG, FailingReader, job_spec

TASK = TaskId(0, 0)
STATE = {b"a": b"1", b"b": b"2"}
DIGEST = f"{digest_of(STATE.keys(), STATE.values()):016x}"


def committed(log: InMemoryLog, digests: dict[str, str], **state: bytes) -> None:
    record = commit_of(task=TASK, sources={"orders": SourcePosition(2)}, digests=digests)
    writer = InMemoryWriter(log, transactional_id(APPLICATION, TASK))
    writer.fence()
    writer.commit({CHANGELOG: [(key.encode(), value) for key, value in state.items()]}, {}, record, InMemoryGroup())


@pytest.fixture
def asked(tmp_path: Path) -> ShadowRestore:
    return ShadowRestore.of(job_spec(), "i1", TASK, tmp_path / "0_0" / "state.shadow")


def test_changelog_that_restores_to_what_was_committed_is_measured_and_thrown_away(asked: ShadowRestore) -> None:
    log = InMemoryLog()
    committed(log, {"state": DIGEST}, a=b"1", b=b"2")

    result = restore_shadow(asked, InMemoryReader(log))

    assert (result.failure, result.unmeasured) == (None, None)
    (restore,) = result.restores
    assert (restore.task, restore.instance, restore.records) == (TASK, "i1", 3)
    assert restore.bytes > 0
    assert not Path(asked.folder).exists()


def test_changelog_that_does_not_restore_to_what_was_committed_is_found(asked: ShadowRestore) -> None:
    log = InMemoryLog()
    committed(log, {"state": DIGEST}, a=b"1")  # what was written of b is lost

    result = restore_shadow(asked, InMemoryReader(log))

    assert result.failure is not None
    assert result.failure.kind == "StoreDivergedError"
    assert f"{CHANGELOG}[0] does not restore to what was committed" in result.failure.message
    # Of the scratch folder nothing is left to be looked at, and there is no other copy of a changelog.
    assert asked.folder not in result.failure.message
    assert "Take another copy" not in result.failure.message
    assert "Changelog missing or mismatched" in result.failure.message
    assert not Path(asked.folder).exists()


def test_commit_without_a_digest_leaves_nothing_to_compare(asked: ShadowRestore) -> None:
    log = InMemoryLog()
    committed(log, {}, a=b"1")

    result = restore_shadow(asked, InMemoryReader(log))

    assert result.failure is None
    assert result.unmeasured == f"the last commit in {CHANGELOG}[0] has no digest of 'state'"


def test_empty_changelog_measures_nothing(asked: ShadowRestore) -> None:
    assert restore_shadow(asked, InMemoryReader(InMemoryLog())) == ShadowResult(
        unmeasured="the changelog holds nothing"
    )


def test_brokers_that_do_not_answer_are_a_failure_and_leave_no_scratch(asked: ShadowRestore) -> None:
    reader = FailingReader(InMemoryLog())
    reader.bounds_error = BrokerUnreachableError("no answer")

    result = restore_shadow(asked, reader)

    assert result.failure is not None
    assert (result.failure.kind, result.failure.message) == ("BrokerUnreachableError", "no answer")
    assert not Path(asked.folder).exists()


def test_what_is_asked_and_what_came_of_it_travel_as_json(asked: ShadowRestore) -> None:
    log = InMemoryLog()
    committed(log, {"state": DIGEST}, a=b"1", b=b"2")
    result = restore_shadow(asked, InMemoryReader(log))

    assert from_json(to_json(asked), ShadowRestore) == asked
    assert from_json(to_json(result), ShadowResult) == result
