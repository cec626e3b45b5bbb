"""Time that goes on without records, through the tester."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider.errors import BrokerUnreachableError, ConfigurationError
from airflow_provider.state.store import Store
from airflow_provider.streaming import StatefulJob, Stream, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, JobTester
from airflow_provider.testing.in_memory_clients import InMemoryWriter
from tests.builders import job_of_result

MINUTE = 60_000
HOUR = 60 * MINUTE
SCHEMA = "id STRING, at BIGINT"
HOURLY = window("at", "1 hour")


def source(watermark: str = "10 minutes", idle_timeout: str | None = "5 minutes") -> Stream:
    return stream("events", schema=SCHEMA, key="id", event_time="at", watermark=watermark, idle_timeout=idle_timeout)


def counted(events: Stream, by: Any = HOURLY, emit: Any = "close") -> StatefulJob:
    return job_of_result(events.group_by("id", by).aggregate(F.count().alias("n"), emit=emit), "idle")


def event(at: int, id: str = "a") -> dict[str, Any]:
    return {"id": id, "at": at}


def closed(tester: JobTester) -> list[tuple[str, int]]:
    return [(record.key, record.value["n"]) for record in tester.read_output()]


def commits(tester: JobTester) -> int:
    (task,) = tester._active.tasks.values()  # noqa: SLF001
    assert task.commit_record is not None
    assert f"{task.replica.scan().result():016x}" == task.digest
    return task.commit_record.sequence


def test_window_of_an_idle_partition_closes_when_the_time_without_records_is_over() -> None:
    with JobTester(counted(source())) as tester:
        tester.pipe_input(event(0))
        tester.advance_wall_clock("75 minutes")  # one hour, ten minutes that are waited for, five without records
        assert closed(tester) == [("a@1970-01-01T00:00:00.000Z", 1)]
        tester.advance_wall_clock("1 day")
        assert closed(tester) == []


def test_window_stays_open_before_that() -> None:
    with JobTester(counted(source())) as tester:
        tester.pipe_input(event(0))
        tester.advance_wall_clock("74 minutes 59 seconds 999 milliseconds")
        assert closed(tester) == []
        assert commits(tester) == 1
        tester.pipe_input(event(1))
        assert tester.counts.late == 0


def test_time_moves_by_records_alone_where_the_job_does_not_say_otherwise() -> None:
    with JobTester(counted(source(idle_timeout=None))) as tester:
        tester.pipe_input(event(0))
        tester.advance_wall_clock("52 weeks")
        assert closed(tester) == []


def test_record_begins_the_wait_anew() -> None:
    with JobTester(counted(source())) as tester:
        for at in range(3):
            tester.pipe_input(event(at))
            tester.advance_wall_clock("74 minutes")
        assert closed(tester) == []


@pytest.mark.parametrize("happens", ["restart", "empty", "promotion"])
def test_what_is_closed_stays_closed_whoever_goes_on(happens: str) -> None:
    with JobTester(counted(source())) as tester:
        tester.pipe_inputs([event(0), event(0, "b")])
        tester.advance_wall_clock("80 minutes")
        assert len(closed(tester)) == 2
        match happens:
            case "restart":
                tester.restart()
            case "empty":
                tester.restart(store="empty")
            case "promotion":
                tester.promote_standby()
        tester.pipe_inputs([event(1), event(HOUR)])
        tester.advance_wall_clock("1 day")
        assert closed(tester) == [("a@1970-01-01T01:00:00.000Z", 1)]
        assert (tester.counts.late, tester.counts.processed) == (1, 4)


def test_time_that_closed_nothing_is_forgotten_with_the_worker() -> None:
    with JobTester(counted(source())) as tester:
        tester.pipe_input(event(0))
        tester.advance_wall_clock("74 minutes")
        tester.restart()
        tester.advance_wall_clock("74 minutes")
        assert closed(tester) == []
        tester.advance_wall_clock("1 minute")
        assert len(closed(tester)) == 1


def test_nothing_is_committed_once_nothing_is_kept() -> None:
    with JobTester(counted(source(), emit="update")) as tester:
        tester.pipe_inputs([event(0), event(1, "b")])
        tester.advance_wall_clock("3 hours")
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert list(task.replica.items()) == []
        before = commits(tester)
        for _ in range(5):
            tester.advance_wall_clock("1 day")
        assert commits(tester) == before
        # So a source that is filled again with what is old is not late for nothing.
        tester.pipe_input(event(2 * HOUR))
        assert tester.counts.late == 0


def test_sessions_close_and_duplicates_are_forgotten() -> None:
    with JobTester(counted(source(), session_window("at", "1 minute"))) as tester:
        tester.pipe_inputs([event(0), event(30_000)])
        tester.advance_wall_clock("17 minutes")
        assert closed(tester) == [("a@1970-01-01T00:00:00.000Z", 2)]
    with JobTester(job_of_result(source("0 seconds").drop_duplicates("id", within="1 minute"))) as tester:
        tester.pipe_inputs([event(0), event(1)])
        tester.advance_wall_clock("10 minutes")
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert list(task.replica.items()) == []
        tester.pipe_inputs([event(2), event(10 * MINUTE)])
        assert (tester.counts.late, len(tester.read_output())) == (1, 2)


@pytest.mark.parametrize("dies", ["before the transaction", "before the store is written"])
def test_window_that_closes_in_a_commit_that_fails_closes_once(dies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object, **__: object) -> None:
        raise BrokerUnreachableError("nobody answers")

    with JobTester(counted(source())) as tester:
        tester.pipe_input(event(0))
        with monkeypatch.context() as patched:
            if dies == "before the transaction":
                patched.setattr(InMemoryWriter, "commit", die)
            else:
                patched.setattr(Store, "write", die)
            with pytest.raises(BrokerUnreachableError):
                tester.advance_wall_clock("2 hours")
        found = closed(tester)
        tester.advance_wall_clock("2 hours")  # restores first
        tester.advance_wall_clock("2 hours")
        assert [*found, *closed(tester)] == [("a@1970-01-01T00:00:00.000Z", 1)]
        assert commits(tester) == 2


def test_each_partition_waits_for_itself() -> None:
    job = source().group_by("id", HOURLY, trust_partitioning=True).aggregate(F.count().alias("n"), emit="close")
    with JobTester(job_of_result(job), partitions=2) as tester:
        tester.pipe_inputs([InputRecord(event(0, id), partition=at) for at, id in enumerate("ab")])
        tester.advance_wall_clock("70 minutes")
        tester.pipe_input(event(1, "b"), partition=1)
        tester.advance_wall_clock("5 minutes")
        assert closed(tester) == [("a@1970-01-01T00:00:00.000Z", 1)]


def counted_of(key: str) -> Any:
    events = stream("e", SCHEMA, event_time="at", watermark="0 seconds", idle_timeout="1 minute", key="id")
    return events.group_by(key, window("at", "1 minute")).aggregate(F.count().alias("n"), emit="close")


def test_stream_has_an_idle_timeout_where_its_records_are_taken_as_they_lie() -> None:
    with JobTester(StatefulJob("idle", counted_of("id").sink("out"))) as tester:
        tester.pipe_input(event(0))
        tester.advance_wall_clock("2 minutes")
        assert closed(tester) == [("a@1970-01-01T00:00:00.000Z", 1)]


@dataclass
class Reference:
    """One row or one wait after the other, as the page on semantics says it; a wait is long enough to end all."""

    size: int
    delay: int
    idle: int
    windows: dict[tuple[int, str], int] = field(default_factory=dict)
    stream_time: int | None = None
    late: int = 0

    def add(self, at: int, id: str) -> None:
        self.stream_time = at if self.stream_time is None else max(self.stream_time, at)
        start = at // self.size * self.size
        if start + self.size <= self.stream_time - self.delay:
            self.late += 1
        else:
            self.windows[start, id] = self.windows.get((start, id), 0) + 1

    def wait(self, ms: int) -> None:
        if self.stream_time is not None and any(s + self.size > self.stream_time - self.delay for s, _ in self.windows):
            self.stream_time += max(0, ms - self.idle)


def test_result_does_not_depend_on_where_micro_batches_end_between_two_waits() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    randomness = random.Random(seed)
    steps: list[list[tuple[int, str]]] = []
    now = 0
    for _ in range(8):
        now += randomness.choice([0, 5_000, 100_000])
        steps.append([(now + randomness.randint(-20_000, 20_000), randomness.choice("abc")) for _ in range(12)])
    reference = Reference(10_000, 15_000, 60_000)
    with JobTester(counted(source("15 seconds", "1 minute"), window("at", "10 seconds"))) as tester:
        for records in steps:
            for at, id in records:
                reference.add(at, id)
            rest = [event(at, id) for at, id in records]
            while rest:
                size = randomness.randint(1, 6)
                tester.pipe_inputs(rest[:size])
                rest = rest[size:]
                match randomness.randrange(5):
                    case 0:
                        tester.restart(store="empty")
                    case 1:
                        tester.promote_standby()
            reference.wait(100_000)
            tester.advance_wall_clock("100 seconds")
            (task,) = tester._active.tasks.values()  # noqa: SLF001
            assert task.commit_record is not None
            assert task.commit_record.stream_time_ms == reference.stream_time
        found = dict(closed(tester))
        assert sorted(found.values()) == sorted(reference.windows.values())
        assert tester.counts.late == reference.late


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: stream("e", idle_timeout="5 minutes"), "'5 minutes' without watermark="),
        (lambda: source(idle_timeout="soon"), r"stream\(idle_timeout=...\) got 'soon'"),
        (lambda: source(idle_timeout="0 seconds"), "more than 0"),
    ],
)
def test_timeout_that_is_none_is_refused(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()
