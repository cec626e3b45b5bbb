from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from airflow_provider.control.records.status import RestorePhase, TaskState, TaskStatus
from airflow_provider.streaming.driver.watches import progress_watch
from airflow_provider.streaming.driver.watches.progress_watch import ProgressWatch, StallClock
from airflow_provider.streaming.driver.watches.source_ends import SourceEnd
from tests.builders import active, standby
from tests.waiting import wait_until


@pytest.fixture
def clock() -> StallClock:
    """That saw a task of generation 1 at offset 40 at the time 0."""
    clock = StallClock()
    assert clock.stalled_s(task(), True, 0.0) == 0.0
    return clock


def task(**more: Any) -> TaskStatus:
    return active(0, **{"source_offset": 40, **more})


def test_task_that_commits_nothing_although_it_has_work_stands_still(clock: StallClock) -> None:
    assert clock.stalled_s(task(), True, 30.0) == 30.0
    assert clock.stalled_s(task(), True, 70.0) == 70.0


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"source_offset": 41}, id="a-commit"),
        pytest.param({"generation": 2}, id="got-it-again"),
        pytest.param({"state": TaskState.RESTORING, "restored_records": 5}, id="a-restore-goes-on"),
        pytest.param({"state": TaskState.RESTORING, "restore_phase": RestorePhase.SNAPSHOT}, id="snapshot"),
    ],
)
def test_what_gets_on_begins_again(clock: StallClock, more: dict[str, Any]) -> None:
    assert clock.stalled_s(task(**more), True, 30.0) == 0.0


def test_task_without_work_does_not_stand_still(clock: StallClock) -> None:
    assert clock.stalled_s(task(), False, 500.0) == 0.0
    assert clock.stalled_s(task(), True, 510.0) == 10.0


def test_task_that_is_owned_and_restored_again_and_again_stands_still(clock: StallClock) -> None:
    clock.stalled_s(task(state=TaskState.RESTORING, restored_records=9), True, 10.0)
    for again in range(1, 6):
        clock.stalled_s(task(state=TaskState.OWNING), True, 10.0 + 20 * again)
        clock.stalled_s(task(state=TaskState.RESTORING, restored_records=9), True, 11.0 + 20 * again)

    assert clock.stalled_s(task(), True, 140.0) == 130.0


def test_call_that_may_still_take_its_time_does_not_count(clock: StallClock) -> None:
    assert clock.stalled_s(task(), True, 400.0, until=3.0) == 3.0
    assert clock.stalled_s(task(), True, 401.0) == 401.0


def test_task_that_left_and_comes_back_begins_again(clock: StallClock) -> None:
    clock.forget(task().task)

    assert clock.stalled_s(task(), True, 500.0) == 0.0


def test_task_whose_query_cannot_run_yet_does_not_stand_still(clock: StallClock) -> None:
    """On a host with more to do than it can, Spark takes longer to get ready than a task may stand still."""
    assert clock.stalled_s(task(), True, 300.0, ready_within_s=600.0) == 0.0
    assert clock.stalled_s(task(), True, 310.0, ready_at=305.0, ready_within_s=600.0) == 5.0
    assert clock.stalled_s(task(), True, 425.0, ready_at=305.0, ready_within_s=600.0) == 120.0


def test_query_that_never_gets_ready_is_found(clock: StallClock) -> None:
    assert clock.stalled_s(task(), True, 600.0, ready_within_s=600.0) == 0.0
    assert clock.stalled_s(task(), True, 601.0, ready_within_s=600.0) == 601.0


class FakeEnds:
    """One partition; keeps what was asked."""

    def __init__(self) -> None:
        self.end = SourceEnd(50, 0, 0)
        self.asked: list[Mapping[int, int | None]] = []
        self.closed = threading.Event()
        self.error: Exception | None = None

    def look(self, offsets: Mapping[int, int | None]) -> Mapping[int, SourceEnd]:
        self.asked.append(dict(offsets))
        if self.error is not None:
            raise self.error
        return dict.fromkeys(offsets, self.end)

    def close(self) -> None:
        self.closed.set()


class Watched:
    """A watch of slot 0, which may be in a call."""

    def __init__(self) -> None:
        self.ends, self.batch_since, self.answers = FakeEnds(), None, threading.Event()
        self.answers.set()
        self.first_call: float | None = 0.0
        self.silent_s = 0.0
        self.watch = ProgressWatch(
            {0: self.ends},
            self.answers.wait,
            lambda _: self.batch_since,
            lambda *_: self.first_call,
            lambda _: self.silent_s,
            600.0,
        )
        self.watch.start()

    batch_since: float | None

    def stalled_s(self, paused: bool = False, error: str | None = None) -> float:
        return self.watch.status(0, active(0, source_offset=40, error=error), paused).stalled_s


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(progress_watch, "_EVERY_S", 0.01)
    monkeypatch.setattr(progress_watch, "_ENGINE_SILENT_S", 1.0)
    watched = Watched()
    yield watched
    watched.watch.stop()
    watched.answers.set()
    wait_until(watched.ends.closed.is_set, 10, "the watch to end")


def lag_is(watched: Watched, lag: int | None) -> Callable[[], bool]:
    return lambda: watched.watch.status(0, active(0, source_offset=40), False).lag_records == lag


def test_lag_is_that_of_the_newest_offset(watched: Watched) -> None:
    wait_until(lag_is(watched, 10), 10, "the lag to be known")

    assert watched.watch.status(0, active(0, source_offset=47), False).lag_records == 3
    assert watched.watch.status(0, active(0, source_offset=None), False).lag_records == 50  # before its first commit


def test_lag_of_a_task_that_is_taken_over_is_not_known_before_its_place_is(watched: Watched) -> None:
    wait_until(lag_is(watched, 10), 10, "the lag to be known")

    assert watched.watch.status(0, active(0, TaskState.OWNING, source_offset=None), False).lag_records is None
    assert watched.watch.status(0, active(0, TaskState.OWNING, source_offset=47), False).lag_records == 3


def test_standby_has_no_lag_and_is_not_asked_about(watched: Watched) -> None:
    wait_until(lag_is(watched, 10), 10, "the lag to be known")

    assert watched.watch.status(0, standby(0), False).lag_records is None
    wait_until(lambda: watched.ends.asked[-1] == {}, 10, "a look at no partition")


def test_task_with_records_to_read_stands_still_unless_it_is_paused(watched: Watched) -> None:
    wait_until(lambda: watched.stalled_s() > 0.3, 10, "the task to stand still")

    assert watched.stalled_s(paused=True) == 0.0


def test_look_that_fails_is_followed_by_another_whatever_it_met(watched: Watched) -> None:
    wait_until(lag_is(watched, 10), 10, "the lag to be known")

    watched.ends.error = RuntimeError("what nobody foresaw")
    wait_until(lag_is(watched, None), 10, "the lag to be unknown")
    watched.ends.error = None

    wait_until(lag_is(watched, 10), 10, "the lag to be known again")


def test_task_behind_an_open_transaction_stands_still(watched: Watched) -> None:
    watched.ends.end = SourceEnd(40, 0, 7)

    wait_until(lambda: watched.stalled_s() > 0.3, 10, "the task to stand still")


def test_call_under_way_excuses_it_as_long_as_the_jvm_answers(watched: Watched) -> None:
    wait_until(lag_is(watched, 10), 10, "the lag to be known")
    watched.batch_since = time.monotonic()
    before = watched.stalled_s()
    time.sleep(0.5)
    assert watched.stalled_s() == before

    watched.answers.clear()

    wait_until(lambda: watched.stalled_s() > before + 1.0, 10, "the task to stand still with its JVM")


def test_task_whose_query_has_not_called_yet_does_not_stand_still_while_the_jvm_answers(watched: Watched) -> None:
    watched.first_call = None
    wait_until(lag_is(watched, 10), 10, "the lag to be known")
    watched.stalled_s()
    time.sleep(0.5)
    assert watched.stalled_s() == 0.0
    assert watched.stalled_s(error="the store is held") >= 0.5  # it waits for something else

    watched.answers.clear()

    wait_until(lambda: watched.stalled_s() > 1.0, 10, "the task to stand still with its JVM")


def test_task_gets_ready_until_its_query_has_called_if_it_has_something_to_do(watched: Watched) -> None:
    def gets_ready(paused: bool = False, source_offset: int = 40) -> bool:
        return watched.watch.status(0, active(0, source_offset=source_offset), paused).gets_ready

    watched.first_call = None
    wait_until(lag_is(watched, 10), 10, "the lag to be known")
    assert gets_ready()
    assert not gets_ready(paused=True)
    assert not gets_ready(source_offset=50)

    watched.first_call = time.monotonic()

    assert not gets_ready()


def test_standby_whose_worker_does_not_come_back_is_no_copy_to_count_on(watched: Watched) -> None:
    warm = standby(0, lag_records=0, lag_s=0.0)
    assert watched.watch.seen(0, warm, False).ready

    watched.silent_s = 31.0

    seen = watched.watch.seen(0, warm, False)
    assert (seen.lag_records, seen.lag_s, seen.warm, seen.ready) == (None, None, False, False)
    assert "has not come back from a call for 31 s" in str(seen.error)
    watched.silent_s = 0.0
    assert watched.watch.seen(0, warm, False).ready


def test_task_whose_worker_hangs_before_its_first_rows_stands_still(watched: Watched) -> None:
    watched.first_call, watched.silent_s = None, 29.0
    wait_until(lag_is(watched, 10), 10, "the lag to be known")
    time.sleep(0.5)
    assert watched.stalled_s() == 0.0

    watched.silent_s = 31.0

    assert watched.stalled_s() >= 0.5
    assert not watched.watch.seen(0, active(0, source_offset=40), False).source.gets_ready


def test_rows_of_other_tasks_may_take_their_time_while_a_task_gets_ready(watched: Watched) -> None:
    watched.first_call, watched.silent_s, watched.batch_since = None, 400.0, time.monotonic()
    wait_until(lag_is(watched, 10), 10, "the lag to be known")
    time.sleep(0.5)

    assert watched.stalled_s() == 0.0


@pytest.mark.parametrize(
    ("end", "idle"),
    [
        (SourceEnd(40, 0, 0), True),
        (SourceEnd(45, 45, 0), True),  # markers of transactions, and what was aborted
        (SourceEnd(41, 0, 0), False),
        (SourceEnd(40, 0, 1), False),
        (SourceEnd(39, 0, 0), False),  # its log was cut
    ],
    ids=str,
)
def test_task_is_idle_whose_source_has_nothing_new_committed_or_not(end: SourceEnd, idle: bool) -> None:
    assert end.holds_nothing_from(40) is idle
    assert not end.holds_nothing_from(None)


def test_source_that_ends_before_what_was_processed_has_fallen_back(watched: Watched) -> None:
    watched.ends.end = SourceEnd(40, 0, 0)
    wait_until(lag_is(watched, 0), 10, "the lag to be known")
    wait_until(lambda: watched.watch.idle == {active(0).task}, 10, "the task to be idle")
    assert watched.watch.fell_back[1] == frozenset()

    watched.ends.end = SourceEnd(39, 0, 0)
    wait_until(lambda: watched.watch.fell_back[1] == {active(0).task}, 10, "the cut to be seen")


def test_idle_tasks_are_those_of_the_last_look(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.ends.end = SourceEnd(40, 0, 0)
    wait_until(lag_is(watched, 0), 10, "the lag to be known")
    wait_until(lambda: watched.watch.idle == {active(0).task}, 10, "the task to be idle")

    watched.ends.error = RuntimeError("no broker answers")
    wait_until(lambda: not watched.watch.idle, 10, "nothing to be known")
    watched.ends.error = None
    wait_until(lambda: bool(watched.watch.idle), 10, "the task to be idle again")

    monkeypatch.setattr(progress_watch, "_IDLE_FOR_S", -1.0)  # as after a process stood still
    assert watched.watch.idle == frozenset()
