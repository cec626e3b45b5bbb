"""Duplicates dropped within a time, through the tester, against a reference in plain Python."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError, RecordTooLargeError
from airflow_provider.streaming import StatefulJob, stream, window
from airflow_provider.streaming.aggregates.drop_duplicates import decode_times, encode_times
from airflow_provider.testing import InputRecord, JobTester, check_batching
from tests.builders import job_of_result

Row = dict[str, Any]

SCHEMA = "id STRING, n BIGINT, at BIGINT"
HOUR = 3_600_000


def job_of(within: str = "1 hour", delay: str = "0 seconds") -> StatefulJob:
    events = stream("events", schema=SCHEMA, key="id", event_time="at", watermark=delay)
    return job_of_result(events.drop_duplicates("id", within=within), "unique")


def event(at: int, id: str = "a", n: Any = 1) -> Row:
    return {"id": id, "n": n, "at": at}


@dataclass
class Reference:
    """One row after the other, compared with all that ever came out."""

    within: int
    delay: int
    out: list[Row] = field(default_factory=list)
    mark: int | None = None
    late: int = 0
    duplicates: int = 0

    def add(self, row: Row) -> None:
        at = row["at"]
        self.mark = at - self.delay if self.mark is None else max(self.mark, at - self.delay)
        if at < self.mark:
            self.late += 1
        elif any(row["id"] == other["id"] and abs(at - other["at"]) < self.within for other in self.out):
            self.duplicates += 1
        else:
            self.out.append(row)

    def remembered(self) -> list[int]:
        assert self.mark is not None
        return sorted(row["at"] for row in self.out if row["at"] + self.within > self.mark)


def random_events(randomness: random.Random, number: int) -> list[Row]:
    """Times that go on, jump, come late, and are negative at first."""
    now, rows = randomness.choice([-100_000, 0, 1_700_000_000_123]), []
    for n in range(number):
        now += randomness.choice([0, 0, 100, 1_000, 3_000, 3_000, 40_000])
        at = now - randomness.choice([0, 0, 0, 1, 999, 5_000, 12_000, 30_000])
        rows.append(event(at, randomness.choice("abcde"), n))
    return rows


@pytest.mark.parametrize(
    ("within_ms", "delay_ms"), [(1, 0), (5_000, 0), (5_000, 60_000), (1_000, 200_000), (90_000, 10_000)]
)
def test_what_comes_out_is_what_the_reference_says(within_ms: int, delay_ms: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    randomness = random.Random(seed)
    rows, expected = random_events(randomness, 150), Reference(within_ms, delay_ms)
    for row in rows:
        expected.add(row)
    with JobTester(job_of(f"{within_ms} milliseconds", f"{delay_ms} milliseconds")) as tester:
        begin = 0
        while begin < len(rows):
            size = randomness.randint(1, 20)
            tester.pipe_inputs(rows[begin : begin + size])
            begin += size
            match randomness.randrange(6):
                case 0:
                    tester.restart()
                case 1:
                    tester.restart(store="empty")
                case 2:
                    tester.promote_standby()
        output = tester.read_output()
        assert [o.value for o in output] == expected.out
        assert [o.key for o in output] == [row["id"] for row in expected.out]
        assert (tester.counts.late, tester.counts.filtered.get("duplicates", 0)) == (expected.late, expected.duplicates)
        assert tester.counts.processed == len(rows)
        found = [round(state["window"]["start"].timestamp() * 1000) for state in tester.states().values()]
        assert sorted(found) == expected.remembered()
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert f"{task.replica.scan().result():016x}" == task.digest


def test_it_does_not_depend_on_where_micro_batches_end() -> None:
    rows = random_events(random.Random(9), 40)
    check_batching(job_of("6 seconds", "20 seconds"), rows, cuts=5)


def test_two_that_come_out_are_at_least_the_time_apart() -> None:
    with JobTester(job_of("1 hour", "1 hour")) as tester:
        tester.pipe_inputs([event(HOUR, n=1), event(2 * HOUR - 1, n=2), event(2 * HOUR, n=3), event(1, n=4)])
        assert [o.value["n"] for o in tester.read_output()] == [1, 3]
        assert tester.counts.filtered == {"duplicates": 1}
        assert tester.counts.late == 1  # its hour before the greatest time is over
        tester.pipe_input(event(HOUR - 1, "b"))
        assert tester.counts.late == 2


def test_store_holds_nothing_that_is_over() -> None:
    with JobTester(job_of("10 seconds")) as tester:
        for at in range(0, 2_000_000, 20_000):
            tester.pipe_inputs([event(at + n, f"{at}-{n}") for n in range(8)])
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert len(list(task.replica.items())) <= 16
        log, changelog = tester._log, "unique-state-changelog"  # noqa: SLF001
        assert log.begin(changelog, 0) > log.end(changelog, 0) // 2
        states = tester.states()
        tester.restart(store="empty")
        assert tester.states() == states


def test_another_delay_finds_what_was_kept_before() -> None:
    # A store of another delay would have segments of another length.
    job = job_of("1 second", "1 second")
    patient = job_of("1 second", "1000 seconds")
    with JobTester(job) as tester:
        tester.pipe_input(event(7_500))
        tester.restart(job=patient)
        tester.pipe_inputs([event(7_501), event(7_000), event(9_000)])
        tester.restart(job=job)
        tester.pipe_input(event(9_001))
        assert tester.counts.filtered == {"duplicates": 3}


def test_another_time_would_misread_the_state() -> None:
    with JobTester(job_of("1 hour")) as tester:
        tester.pipe_input(event(0))
        with pytest.raises(ConfigurationError, match=r"within 1 hour\) became drop_duplicates\(at, within 2 hours\)"):
            tester.restart(job=job_of("2 hours"))


def test_record_that_is_too_large_is_as_if_it_had_not_come() -> None:
    schema = "id STRING, n STRING, at BIGINT"
    events = stream("events", schema=schema, key="id", event_time="at", watermark="0 seconds")
    job = StatefulJob("unique", events.drop_duplicates("id", within="1 hour").sink("out"))
    rows = [event(0, n="x" * 2**20), event(1, n="y"), event(2, n="z" * 2**20), event(2, "b", "b")]
    with JobTester(job) as tester, pytest.raises(RecordTooLargeError, match="its output is"):
        tester.pipe_inputs(rows)
    with JobTester(job.on_error("skip")) as tester:
        tester.pipe_inputs(rows)
        assert [o.value["n"] for o in tester.read_output()] == ["y", "b"]
        assert (tester.counts.failed, tester.counts.filtered) == (1, {"duplicates": 1})


def test_counts_of_filters_and_of_duplicates_stand_side_by_side() -> None:
    events = EVENTS.filter("n > 0", name="negative")
    job = StatefulJob("unique", events.drop_duplicates("id", within="1 hour").sink("out"))
    with JobTester(job) as tester:
        tester.pipe_inputs([event(0), event(1, n=-1), event(2)])
        assert tester.counts.filtered == {"negative": 1, "duplicates": 1}


EVENTS: Any = stream("events", schema=SCHEMA, key="id", event_time="at", watermark="0 seconds")


def test_first_row_of_each_key_comes_out() -> None:
    rows = [event(0), event(1), event(HOUR, n=2), event(5), event(HOUR, "b", 3)]
    with JobTester(StatefulJob("unique", EVENTS.drop_duplicates("id", within="1 hour").sink("out"))) as tester:
        tester.pipe_inputs(rows)
        assert [(o.key, o.value) for o in tester.read_output()] == [("a", rows[0]), ("a", rows[2]), ("b", rows[4])]
        assert (tester.counts.filtered, tester.counts.late) == ({"duplicates": 1}, 1)


@pytest.mark.parametrize("time", ["at", None], ids=["column", "of-the-record"])
def test_rows_of_any_partition_meet_behind_an_internal_topic(time: str | None) -> None:
    events = stream("events", schema=SCHEMA, event_time=time, watermark="10 minutes")
    job = StatefulJob("unique", events.drop_duplicates("id", "n", within="1 hour").sink("out"))
    given = [(0, "a", 1), (5, "b", 1), (9, "a", 1), (20, "a", 2), (HOUR, "a", 1)]
    records = [
        InputRecord(event(at, id, n), key=str(number), partition=number % 2, timestamp_ms=at)
        for number, (at, id, n) in enumerate(given)
    ]
    assert [stage.name for stage in job.stages] == ["out-repartition", "out"]
    with JobTester(job, partitions=2) as tester:
        for record in records:
            tester.pipe_input(record)
        found = {(o.key, o.value["at"]) for o in tester.read_output()}
        assert found == {('["a","1"]', 0), ('["b","1"]', 5), ('["a","2"]', 20), ('["a","1"]', HOUR)}
        assert tester.counts.filtered == {"duplicates": 1}
        tester.promote_standby()
        tester.pipe_input(InputRecord(event(HOUR + 1), key="x", timestamp_ms=HOUR + 1))
        assert tester.counts.filtered == {"duplicates": 2}


def test_record_of_several_rows_is_a_duplicate_when_none_of_them_comes_out() -> None:
    visits = stream("visits", schema="id STRING, ats ARRAY<BIGINT>", event_time="at", watermark="0 seconds", key="id")
    times = visits.select("id", "explode(ats) AS at")
    job = StatefulJob("unique", times.drop_duplicates("id", within="1 hour").sink("out"))
    with JobTester(job) as tester:
        for ats in ([0, 1], [2, 3], [4, HOUR], [5, HOUR + 1], [6, 7]):
            tester.pipe_input({"id": "a", "ats": ats})
        assert [o.value["at"] for o in tester.read_output()] == [0, HOUR]
        # The fourth has a row that is late and one that is a duplicate.
        assert (tester.counts.filtered, tester.counts.late) == ({"no_at": 0, "duplicates": 2}, 1)


def test_job_says_what_it_does() -> None:
    text = "drop_duplicates(at, within 1 hour) (counted as duplicates where dropped)"
    assert text in job_of().describe()


def test_times_come_back() -> None:
    assert decode_times(encode_times([5, -3, 2**62])) == [-3, 5, 2**62]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: job_of("soon"), r"drop_duplicates\(within=...\) got 'soon'"),
        (lambda: job_of("0 seconds"), "more than 0"),
        (lambda: EVENTS.drop_duplicates("di", within="1 hour"), r"drop_duplicates\(\) names the column 'di'.*'id'"),
        (lambda: EVENTS.drop_duplicates("id", window("at", "1 hour"), within="1 hour"), "give names of columns"),
        (lambda: stream("e", schema=SCHEMA).drop_duplicates("id", within="1 hour"), "an event time"),
        (
            lambda: StatefulJob("u", stream("e", watermark="1 hour").drop_duplicates("key", within="1 hour").sink("o")),
            "writes all columns",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        JobTester(make())
