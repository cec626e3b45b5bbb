from __future__ import annotations

import time
from pathlib import Path

import pytest

from airflow_provider.changelog import completeness
from airflow_provider.changelog.commit_record import COMMIT_KEY, SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.errors import AccessError, BrokerUnreachableError, StoreOutdatedError, TopicMissingError
from airflow_provider.streaming.worker.standby import changelog_follower
from airflow_provider.testing.in_memory_clients import InMemoryLog, Record
from tests.builders import commit_of
from tests.unit.streaming.worker.bench import CHANGELOG, Bench, active, commit_elsewhere, standby


def test_standby_follows_for_ever(bench: Bench, log: InMemoryLog) -> None:
    for value in (1, 2):
        commit_elsewhere(log, 0, 1, k=value)
        bench.hold(standby(0))
        assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"%d" % value]

    assert bench.registry.tasks[TaskId(0, 0)].status().warm
    assert bench.reader.assigned == {("app-state-changelog", 0)}


def test_active_is_followed_to_its_end_only(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)

    bench.hold(active(0, 2), standby(1))

    assert bench.state() is TaskState.RUNNING
    assert bench.reader.assigned == {("app-state-changelog", 1)}


def test_warm_standby_reads_its_last_commit_back_and_nothing_else_before_it_becomes_the_active(
    bench: Bench, log: InMemoryLog
) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))

    bench.hold(active(0, 2))

    assert bench.state() is TaskState.RUNNING
    assert bench.registry.tasks[TaskId(0, 0)].replica.meter.records == 0


def test_standby_that_lacks_a_commit_reads_it_before_it_becomes_the_active(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))
    commit_elsewhere(log, 0, 1, k=2)
    bench.reader.paused = True

    bench.hold(active(0, 2))
    assert bench.state() is TaskState.RESTORING
    bench.reader.paused = False
    bench.follower.follow(0.0)

    assert bench.state() is TaskState.RUNNING
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"2"]


def test_follower_returns_as_soon_as_all_is_applied(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0), follow=False)

    begun = time.monotonic()
    bench.follower.follow(begun + 60.0)

    assert time.monotonic() - begun < 30.0
    assert bench.caught_up == 1


def test_nothing_to_follow_is_no_end_that_was_reached(bench: Bench) -> None:
    bench.hold(active(0))
    caught_up = bench.caught_up

    bench.follower.follow(time.monotonic() + 60.0)

    assert bench.caught_up == caught_up


def test_error_of_one_changelog_holds_up_no_other(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    commit_elsewhere(log, 1, 1, k=1)
    bench.reader.batch_errors[0] = TopicMissingError("gone")

    bench.hold(standby(0), standby(1))

    assert bench.registry.status(standby(0)).error == "gone"
    assert bench.registry.tasks[TaskId(0, 1)].replica.get_many([b"k"]) == [b"1"]


def test_position_that_the_log_has_lost_moves_the_store_aside(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.reader.batch_errors[0] = StoreOutdatedError("not in the log any more")

    bench.hold(standby(0))
    assert list(bench.registry.tasks) == []
    bench.hold(standby(0))

    assert bench.registry.tasks[TaskId(0, 0)].status().warm
    assert len(list(Path(bench.settings.state_dir).glob("app/quarantine/*"))) == 1


def test_bounds_that_are_not_known_are_asked_for_again(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(active(0, 2))
    bench.reader.bounds_error = BrokerUnreachableError("no answer")

    bench.hold(standby(0, 3))
    assert bench.registry.status(standby(0, 3)).error == "no answer"
    assert bench.reader.assigned == set()
    bench.reader.bounds_error = None
    commit_elsewhere(log, 0, 3, k=2)
    bench.hold(standby(0, 3))

    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"2"]


def test_restoring_task_whose_end_is_not_known_is_fenced_again(bench: Bench) -> None:
    bench.hold(standby(0))
    bench.reader.bounds_error = BrokerUnreachableError("no answer")
    bench.hold(active(0, 2))
    assert bench.state() is TaskState.OWNING

    bench.reader.bounds_error = None
    bench.hold(active(0, 2))

    assert bench.state() is TaskState.RUNNING


def test_changelog_of_another_application_is_read_no_further(bench: Bench, log: InMemoryLog) -> None:
    theirs = commit_of(application_id="another", instance="i9", sources={"orders": SourcePosition(5)})
    log.append(CHANGELOG, 0, Record(key=COMMIT_KEY, value=theirs.to_bytes(), timestamp_ms=1))

    bench.hold(standby(0))

    assert bench.state() is TaskState.FAILED
    assert bench.reader.assigned == set()


@pytest.mark.parametrize(
    ("more", "touched"), [pytest.param(False, True, id="nothing-more"), pytest.param(True, False, id="more-came")]
)
def test_idle_store_is_touched_while_its_changelog_holds_nothing_more(
    more: bool, touched: bool, bench: Bench, log: InMemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))
    task = bench.registry.tasks[TaskId(0, 0)]
    before = task.replica.position
    assert before is not None
    # An idle hour goes by.
    later = before.complete_at_ms + 3_600_000
    monkeypatch.setattr(completeness, "now_ms", lambda: later)
    if more:
        commit_elsewhere(log, 0, 1, k=2)
        bench.reader.paused = True

    bench.hold(standby(0))

    after = task.replica.position
    assert after is not None
    assert (after.complete_at_ms == later) is touched
    assert after.offset == before.offset


def test_look_at_a_task_that_has_failed_does_not_put_its_next_try_off(
    bench: Bench, log: InMemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(standby(0))
    bench.reader.batch_errors[0] = bench.reader.bounds_error = AccessError("not authorized")
    commit_elsewhere(log, 0, 1, k=2)
    bench.hold(standby(0))
    failed = bench.state()
    before = bench.registry.tasks[TaskId(0, 0)].replica.position
    assert before is not None
    monkeypatch.setattr(completeness, "now_ms", lambda: before.complete_at_ms + 3_600_000)

    for _ in range(5):
        bench.hold(standby(0))
    bench.reader.bounds_error = None
    bench.now = 5.0
    bench.hold(standby(0))

    assert (failed, bench.state()) == (TaskState.FAILED, TaskState.FOLLOWING)


def test_owner_waits_for_the_end_of_a_transaction_that_hides_the_end_of_its_changelog(
    bench: Bench, log: InMemoryLog
) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.reader.hidden = (2, 7)

    bench.hold(active(0, 2))
    waiting = (bench.state(), bench.registry.status(active(0, 2)).error)
    bench.reader.hidden = None
    bench.hold(active(0, 2))

    assert waiting == (TaskState.RESTORING, None)
    assert bench.state() is TaskState.RUNNING


def test_owner_says_which_transaction_hides_the_end_of_its_changelog(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog_follower, "_OPEN_TRANSACTION_S", -1.0)
    bench.reader.hidden = (2, 7)

    bench.hold(active(0, 2))

    error = bench.registry.status(active(0, 2)).error
    assert error is not None
    assert "app-state-changelog[0] holds a transaction that has no end" in error
    assert "offsets 2 to 6" in error
    assert "kafka-transactions.sh abort --topic app-state-changelog --partition 0 --start-offset 2" in error
    assert bench.state() is TaskState.OWNING
    bench.reader.hidden = None
    bench.hold(active(0, 2))
    assert bench.state() is TaskState.RUNNING


def test_owner_goes_on_where_nothing_but_its_own_commit_is_hidden(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.hold(active(0, 2))
    end = bench.registry.tasks[TaskId(0, 0)].replica.position
    assert end is not None
    bench.reader.hidden = (0, end.offset)

    bench.hold(active(0, 3))

    assert bench.state() is TaskState.RUNNING


def test_owner_reads_to_the_end_that_is_left_where_a_new_leader_lacks_the_rest(
    bench: Bench, log: InMemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    end = log.end("app-state-changelog", 0)
    bench.reader.hidden = (end + 3, end + 3)
    bench.hold(active(0, 2))
    bench.follower.follow(0.0)
    assert bench.state() is TaskState.RESTORING, "the end was there when it was asked for"

    bench.reader.hidden = None
    bench.follower.follow(0.0)
    assert bench.state() is TaskState.RESTORING, "records may be on their way"
    monkeypatch.setattr(changelog_follower, "_SILENCE_S", 0.0)
    bench.follower.follow(0.0)
    assert bench.state() is TaskState.RUNNING
    assert bench.registry.tasks[TaskId(0, 0)].replica.get_many([b"k"]) == [b"1"]


def test_standby_follows_what_it_can_read_before_an_open_transaction(bench: Bench, log: InMemoryLog) -> None:
    commit_elsewhere(log, 0, 1, k=1)
    bench.reader.hidden = (2, 7)

    bench.hold(standby(0))

    assert bench.registry.tasks[TaskId(0, 0)].status().warm
