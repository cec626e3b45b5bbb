"""The life of one task, on a real store and a changelog in memory."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY, SourcePosition
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import RestorePhase, Role, TaskState
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, FencedError
from airflow_provider.streaming.operations.batch import Changes
from airflow_provider.streaming.operations.stream_time import Lateness
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.worker.tasks.task import Task
from airflow_provider.streaming.worker.tasks.task_committer import BatchResult
from airflow_provider.streaming.worker.tasks.task_memory import RecentLateness
from airflow_provider.testing.in_memory_clients import InMemoryLog, Record
from tests.builders import commit_of
from tests.unit.streaming.worker.bench import (
    CHANGELOG,
    GROUP,
    Bench,
    active,
    commit_elsewhere,
    job_spec,
    records_of,
    standby,
)


def result(value: bytes, source_offset: int, digest_change: int = 0) -> BatchResult:
    changes = Changes([(b"k", value)], [])
    return BatchResult(changes=changes, source_offset=source_offset, records=1, digest_change={0: digest_change})


def held(bench: Bench) -> Task:
    return bench.registry.tasks[TaskId(0, 0)]


def test_active_task_is_fenced_restored_and_goes_on_from_the_last_commit(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=7)

    bench.execution.apply_plan([active(0, 2)])
    assert held(bench).state is TaskState.RESTORING
    bench.follower.follow(0.0)

    task = held(bench)
    assert (task.state, task.source_offset) == (TaskState.RUNNING, 100)
    assert task.replica.get_many([b"k"]) == [b"7"]
    assert bench.reader.assigned == set()


def test_write_commits_to_the_changelog_then_to_the_store(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(active(0))

    held(bench).write(result(b"1", 5), GROUP)
    held(bench).write(result(b"2", 6), GROUP)

    assert [value for key, value in records_of(log, 0) if key == b"k"] == [b"1", b"2"]
    assert held(bench).replica.get_many([b"k"]) == [b"2"]
    record = held(bench).commit_record
    assert record is not None
    assert (record.sources, record.processed, record.generation) == ({"orders": SourcePosition(6)}, 2, 1)
    assert (record.task, record.sequence) == (TaskId(0, 0), 2)
    status = held(bench).status()
    assert (status.position, status.lag_records, status.processed_records) == (log.end(CHANGELOG, 0) - 1, 0, 2), (
        "the marker of its transaction lies behind it"
    )
    assert status.first_commit_at_ms is not None


@pytest.mark.parametrize("state", [TaskState.OWNING, TaskState.RESTORING, TaskState.FOLLOWING, TaskState.FAILED])
def test_only_a_running_task_writes(state: TaskState, bench: Bench, log: InMemoryLog) -> None:
    bench.hold(standby(0) if state is TaskState.FOLLOWING else active(0), follow=False)
    if state is TaskState.OWNING:
        held(bench).drop_producer()
    if state is TaskState.FAILED:
        held(bench).fail(ValueError("poison"))

    with pytest.raises(RuntimeError, match=f"Task 0_0 is {state.name} and must not write: only a RUNNING task may"):
        held(bench).write(result(b"1", 5), GROUP)

    assert records_of(log, 0) == []


def test_promotion_of_a_standby(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))
    assert held(bench).status().warm
    commit_elsewhere(log, 0, 1, k=2)  # not applied yet when it is promoted

    held(bench).promote(active(0, 2))
    assert (held(bench).state, bench.writers) == (TaskState.OWNING, [])
    held(bench).fence()
    assert (held(bench).state, held(bench).restored) == (TaskState.RESTORING, False)
    bench.reader.remove(held(bench).changelog_partition)
    bench.follower.follow(0.0)

    assert held(bench).state is TaskState.RUNNING
    assert held(bench).replica.get_many([b"k"]) == [b"2"]
    status = held(bench).status()
    assert (status.role, status.generation, status.restore.records) == (Role.ACTIVE, 2, 2)
    assert status.owned_at_ms is not None


@pytest.mark.parametrize("generation", [5, 2], ids=["later", "the-same-of-a-lost-topic"])
def test_promotion_finds_that_another_has_committed_since_and_writes_nothing(
    bench: Bench, log: InMemoryLog, generation: int
) -> None:
    commit_elsewhere(log, 0, generation, k=1)

    bench.hold(active(0, 2))

    status = held(bench).status()
    assert (status.state, status.error_kind) == (TaskState.CLOSED, "OvertakenError")
    assert f"'other' has committed in generation {generation}" in str(status.error)
    assert status.committed_generation == generation
    assert bench.writers[0].closed
    assert held(bench).fenced_for_s == 0.0, "it waits for a newer assignment, however long that takes"


def test_demotion_of_an_active_follows_from_its_position(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(active(0))
    held(bench).write(result(b"1", 5), GROUP)

    held(bench).demote(standby(0, 2))
    commit_elsewhere(log, 0, 2, k=9)
    bench.follower.follow(0.0)

    task = held(bench)
    assert (task.state, task.status().owned_at_ms) == (TaskState.FOLLOWING, None)
    assert bench.writers[0].closed
    assert task.replica.get_many([b"k"]) == [b"9"]


def test_fenced_task_waits_and_fences_again(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(active(0, 2))
    commit_elsewhere(log, 0, 1, k=3)
    with pytest.raises(FencedError) as fenced:
        held(bench).write(result(b"1", 5), GROUP)

    held(bench).on_fenced(fenced.value)
    assert (held(bench).state, held(bench).status().error_kind) == (TaskState.CLOSED, "FencedError")
    assert held(bench).fenced_for_s > 0.0

    held(bench).promote(held(bench).plan)
    assert (held(bench).state, held(bench).fenced_for_s, held(bench).status().error) == (TaskState.OWNING, 0.0, None)
    held(bench).fence()
    bench.follower.follow(0.0)
    assert held(bench).state is TaskState.RUNNING
    assert held(bench).replica.get_many([b"k"]) == [b"3"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(TaskState.RUNNING, TaskState.OWNING, id="running"),
        pytest.param(TaskState.RESTORING, TaskState.OWNING, id="restoring"),
        pytest.param(TaskState.OWNING, TaskState.OWNING, id="owning"),
        pytest.param(TaskState.FOLLOWING, TaskState.FOLLOWING, id="standby-has-none"),
        pytest.param(TaskState.FAILED, TaskState.FAILED, id="failed-stays"),
        pytest.param(TaskState.CLOSED, TaskState.CLOSED, id="fenced-waits-on"),
    ],
)
def test_dropped_producer_leads_back_to_fencing(before: TaskState, after: TaskState, bench: Bench) -> None:
    bench.hold(standby(0) if before is TaskState.FOLLOWING else active(0), follow=before is not TaskState.RESTORING)
    if before is TaskState.OWNING:
        held(bench).promote(active(0, 2))
    if before is TaskState.FAILED:
        held(bench).fail(ValueError("poison"))
    if before is TaskState.CLOSED:
        held(bench).on_fenced(FencedError("a newer owner exists"))
    assert held(bench).state is before

    held(bench).drop_producer()

    assert held(bench).state is after
    assert all(writer.closed for writer in bench.writers)


def test_producer_fences_once_so_that_a_newer_generation_gets_another(bench: Bench) -> None:
    bench.hold(active(0))

    held(bench).promote(active(0, 2))
    held(bench).fence()

    assert [writer.closed for writer in bench.writers] == [True, False]
    assert held(bench).state is TaskState.RESTORING


def test_error_while_fencing_leaves_the_earlier_owner_and_the_next_call_fences_it(
    bench: Bench, log: InMemoryLog
) -> None:
    earlier = log.fence("app-0_0")
    bench.fence_errors.append(BrokerUnreachableError("no answer"))

    bench.hold(active(0))
    assert held(bench).state is TaskState.OWNING
    log.commit("app-0_0", earlier, [])
    bench.hold(active(0))

    assert held(bench).state is TaskState.RUNNING
    with pytest.raises(FencedError):
        log.commit("app-0_0", earlier, [])


def test_failed_task_keeps_its_store_and_is_promoted_by_a_newer_generation(bench: Bench) -> None:
    bench.hold(active(0))
    held(bench).write(result(b"1", 5), GROUP)

    held(bench).fail(ValueError("poison"))
    status = held(bench).status()
    assert (status.state, status.error, status.error_kind) == (TaskState.FAILED, "poison", "ValueError")
    bench.hold(active(0))
    assert held(bench).state is TaskState.FAILED, "the same generation changes nothing"
    bench.hold(active(0, 2))

    assert (held(bench).state, held(bench).status().error) == (TaskState.RUNNING, None)
    assert held(bench).replica.get_many([b"k"]) == [b"1"]


def test_changelog_of_another_application_fails_the_task(bench: Bench) -> None:
    bench.hold(standby(0))
    theirs = commit_of(application_id="another", instance="i9", sources={"orders": SourcePosition(5)})

    held(bench).apply(ChangelogBatch(commit=theirs.to_bytes(), records=1, next_offset=1, at_end=True))

    status = held(bench).status()
    assert (status.state, status.error_kind) == (TaskState.FAILED, "TopicMismatchError")
    assert "another" in str(status.error)


def test_digest_is_known_from_the_first_commit_on(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(active(0))
    assert (held(bench).commit_record, held(bench).digest) == (None, None)
    held(bench).write(result(b"1", 5, digest_change=42), GROUP)
    assert held(bench).digest == f"{42:016x}"

    commit_elsewhere(log, 0, 2, k=9)  # by an owner that did not know it
    bench.hold(standby(0, 2))

    assert held(bench).digest is None


def test_digest_goes_on_from_the_last_commit_unless_it_is_to_be_renewed(bench: Bench) -> None:
    bench.hold(active(0))
    held(bench).write(
        BatchResult(changes=Changes([(b"k", b"1")], []), source_offset=5, records=1, digest_change={0: 42}), GROUP
    )
    record = held(bench).commit_record
    assert record is not None
    assert record.digests == {"state": f"{42:016x}"}

    held(bench).promote(active(0, 2), renew_digest=True)
    held(bench).fence()
    bench.follower.follow(0.0)
    held(bench).write(result(b"1", 6), GROUP)

    renewed = held(bench).commit_record
    assert renewed is not None
    assert renewed.digests.get("state") != f"{42:016x}", (
        "it is that of the store, or not known before the store was read"
    )


def test_closed_task_gives_its_lock_back(bench: Bench, tmp_path: Path, log: InMemoryLog) -> None:
    bench.hold(active(0))
    task = held(bench)

    bench.close()

    assert task.state is TaskState.CLOSED
    assert bench.writers[0].closed
    again = Bench(tmp_path, log)
    again.hold(active(0, 2))
    assert again.registry.tasks[TaskId(0, 0)].state is TaskState.RUNNING
    again.close()


def test_restoring_task_says_how_far_it_is(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, a=1, b=2)

    bench.hold(active(0, 2), follow=False)

    status = held(bench).status()
    assert (status.state, status.position, status.end, status.lag_records) == (TaskState.RESTORING, None, 4, 4)
    assert (status.restore.phase, status.restore.records, status.restore.remaining_s) == (
        RestorePhase.CHANGELOG,
        0,
        None,
    )


def test_commit_says_which_topics_it_is_of(tmp_path: Path, log: InMemoryLog) -> None:
    with closing(Bench(tmp_path, log, {"orders": "source-1", CHANGELOG: "log-1"})) as bench:
        bench.hold(active(0))

        held(bench).write(result(b"1", 5), GROUP)

        record, position = held(bench).commit_record, held(bench).replica.position
    assert record is not None
    assert position is not None
    assert (record.sources, position.topic_id) == ({"orders": SourcePosition(5, "source-1")}, "log-1")


def test_commit_counts_all_that_the_task_wrote_into_sink_and_dead_letter_topic(
    tmp_path: Path, log: InMemoryLog
) -> None:
    job = dataclasses.replace(job_spec(), sink_topic="totals", error_policy=ErrorPolicy(OnError.DEAD_LETTER, "dead"))
    letter = DeadLetter(
        key=b"k",
        value=b"{",
        topic="orders",
        partition=0,
        offset=5,
        timestamp_ms=0,
        task=TaskId(0, 0),
        error="",
        message="",
    )
    counted: list[object] = []
    with closing(Bench(tmp_path, log, job=job)) as bench:
        bench.hold(active(0))
        for outputs, letters in ((3, 0), (0, 1), (2, 1)):
            changes = Changes([(b"k", b"1")], [(b"k", b"{}")] * outputs)
            offset = 5 + len(counted)
            written = BatchResult(changes=changes, source_offset=offset, records=1, dead_letters=[letter] * letters)
            held(bench).write(written, GROUP)
            record = held(bench).commit_record
            assert record is not None
            counted.append(record.outputs)

    assert counted == [{"totals": 3, "dead": 0}, {"totals": 3, "dead": 1}, {"totals": 5, "dead": 2}]


def test_commit_record_that_is_too_large_is_named_and_nothing_is_written(tmp_path: Path, log: InMemoryLog) -> None:
    job = dataclasses.replace(job_spec(), max_message_bytes={CHANGELOG: 400})
    with closing(Bench(tmp_path, log, job=job)) as bench:
        bench.hold(active(0))

        with pytest.raises(ConfigurationError, match=f"commit record of task 0_0 is .*'{CHANGELOG}' takes 300 at"):
            held(bench).write(result(b"1", 5), GROUP)

        assert (records_of(log, 0), held(bench).commit_record) == ([], None)


def test_commit_of_a_job_that_writes_nowhere_counts_nothing(bench: Bench) -> None:
    bench.hold(active(0))

    held(bench).write(result(b"1", 5), GROUP)

    record = held(bench).commit_record
    assert record is not None
    assert record.outputs == {}


def test_source_that_was_created_again_fails_the_task_before_it_processes_anything(
    tmp_path: Path, log: InMemoryLog
) -> None:
    with closing(Bench(tmp_path, log, {"orders": "source-1"})) as bench:
        bench.hold(active(0))
        held(bench).write(result(b"1", 5), GROUP)

    with closing(Bench(tmp_path, log, {"orders": "source-2"})) as bench:
        bench.hold(active(0, 2))

        assert held(bench).state is TaskState.FAILED
        assert "with the id source-1 up to offset 5" in str(held(bench).error)


def test_store_of_a_changelog_that_was_created_again_is_kept_and_nothing_is_processed(
    tmp_path: Path, log: InMemoryLog
) -> None:
    with closing(Bench(tmp_path, log, {CHANGELOG: "log-1"})) as bench:
        bench.hold(active(0))
        held(bench).write(result(b"1", 5), GROUP)
    another = InMemoryLog()
    commit_elsewhere(another, 0, 1, k=7, other=8, third=9)

    with closing(Bench(tmp_path, another, {CHANGELOG: "log-2"})) as bench:
        for plan in (standby(0, 2), active(0, 3)):
            bench.hold(plan)
            assert "deleted and created again" in str(bench.registry.status(plan).error)
        assert list(Path(bench.settings.state_dir).glob("app/quarantine/*")) == []
        bench.hold(active(0, 3, replay="accept"))

        assert held(bench).state is TaskState.RUNNING
        assert held(bench).replica.get_many([b"k"]) == [b"7"]


def test_store_with_a_commit_that_cannot_be_read_holds_up_no_report(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(standby(0))
    log.append(CHANGELOG, 0, Record(key=COMMIT_KEY, value=b"\xff no commit record", timestamp_ms=0))
    bench.hold(standby(0))
    assert held(bench).state is TaskState.FAILED
    bench.hold()
    bench.reader.paused = True

    bench.hold(standby(0))

    assert bench.registry.status(standby(0)).source_offset is None
    bench.reader.paused = False
    bench.hold(standby(0))
    assert bench.registry.status(standby(0)).error_kind == "TopicMismatchError"


def test_commit_behind_another_programs_records_fails_the_task(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(active(0))
    held(bench).write(result(b"1", 5), GROUP)
    for value in (b"1", b"2"):
        log.append(CHANGELOG, 0, Record(key=b"theirs", value=value, timestamp_ms=0))

    with bench.registry.isolating_batch(TaskId(0, 0), attempts_left=True):
        held(bench).write(result(b"2", 6), GROUP)

    assert held(bench).state is TaskState.FAILED
    assert "another program writes into this changelog" in str(held(bench).error)
    assert held(bench).replica.get_many([b"k"]) == [b"1"]
    assert log.end(CHANGELOG, 0) == 5, "nothing was committed behind them"


def test_end_of_a_commit_that_the_brokers_marked_twice_is_no_other_programs_record(
    bench: Bench, log: InMemoryLog
) -> None:
    bench.hold(active(0))
    held(bench).write(result(b"1", 5), GROUP)
    log.mark(CHANGELOG, 0)

    for value, offset in ((b"2", 6), (b"3", 7)):
        with bench.registry.isolating_batch(TaskId(0, 0), attempts_left=True):
            held(bench).write(result(value, offset), GROUP)

    assert (held(bench).state, held(bench).error) == (TaskState.RUNNING, None)
    assert held(bench).replica.get_many([b"k"]) == [b"3"]


def test_owner_says_from_which_source_offset_it_went_on(bench: Bench, log: InMemoryLog) -> None:
    bench.hold(active(0))
    assert held(bench).status().resumed_offset is None, "nothing was committed before"
    held(bench).write(result(b"1", 5), GROUP)
    bench.close()

    bench.hold(active(0, 2))
    held(bench).write(result(b"2", 9), GROUP)

    status = held(bench).status()
    assert (status.resumed_offset, status.source_offset) == (5, 9)
    held(bench).demote(standby(0))
    assert held(bench).status().resumed_offset is None


def test_lateness_is_that_of_the_last_five_seconds_weighed_by_rows() -> None:
    now = 0.0
    recent = RecentLateness(lambda: now)

    def told(at: float) -> tuple[float | None, int | None]:
        nonlocal now
        now = at
        return recent.avg_and_max_ms

    assert told(0.0) == (None, None)
    recent.add(Lateness(1, 90.0, 90))
    now = 4.0
    recent.add(Lateness(9, 10.0, 6))
    assert told(4.0) == (10.0, 90)
    assert told(5.1) == (1.1, 6)
    assert told(9.1) == (None, None)


def test_next_owner_counts_no_lateness_of_the_one_before(bench: Bench) -> None:
    bench.hold(active(0))
    held(bench).write(dataclasses.replace(result(b"1", 5), lateness=Lateness(2, 8.0, 7)), GROUP)
    work = held(bench).status().work
    assert (work.lateness_avg_ms, work.lateness_max_ms) == (4.0, 7)

    held(bench).promote(active(0, 2))

    assert held(bench).status().work.lateness_max_ms is None
