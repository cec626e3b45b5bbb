"""Behind an internal topic time is the least of what the tasks before it have told."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_provider.streaming import StatefulJob, Stream, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.operations.batch import KnownState
from airflow_provider.streaming.operations.operation import Batch
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, StreamTime
from airflow_provider.streaming.operations.upstream_time import UpstreamTime, upstream_column
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.terms.windows import SessionWindow, Window
from airflow_provider.testing import InputRecord, JobTester

_HOUR: Final = 3_600_000
_MINUTE: Final = 60_000
_PARTITIONS: Final = 3

RIDES: Final = stream("rides", schema="city STRING, km BIGINT, at BIGINT", event_time="at", watermark="10 minutes")


def ride(partition: int, at_ms: int, city: str = "graz", km: int = 1) -> InputRecord:
    return InputRecord({"city": city, "km": km, "at": at_ms}, topic="rides", partition=partition)


def hourly(rides: Stream = RIDES) -> StatefulJob:
    counted = rides.group_by("city", window("at", "1 hour")).aggregate(F.count().alias("rides"), emit="close")
    return StatefulJob("app", counted.sink("out"))


def closed(tester: JobTester) -> list[tuple[int, int]]:
    """The windows that came out, as hour and rides."""
    return [(int(record.key[-13:-11]), record.value["rides"]) for record in tester.read_output()]


def test_rows_of_a_partition_that_is_behind_are_not_late() -> None:
    with JobTester(hourly(), partitions=2) as tester:
        tester.pipe_inputs([ride(0, 1), ride(1, 1)])
        tester.pipe_input(ride(0, 10 * _HOUR))
        assert closed(tester) == []
        tester.pipe_input(ride(1, 2))
        tester.pipe_input(ride(1, 3 * _HOUR))
        assert closed(tester) == [(0, 3)]
        assert tester.counts.late == 0


@pytest.mark.parametrize("by", [window("at", "1 hour"), session_window("at", "1 hour")], ids=["window", "session"])
def test_what_comes_out_before_any_time_is_told_has_the_name_of_its_window(by: Window | SessionWindow) -> None:
    counted = RIDES.group_by("city", by).aggregate(F.count().alias("rides"))
    operation = StatefulJob("app", counted.sink("out")).stages[1].operation
    columns = {"__key": [b"graz"], "__offset": [0], EVENT_MS: [5], upstream_column(0): [NO_WATERMARK]}
    told = UpstreamTime(sides=(NO_WATERMARK,))
    nothing = KnownState({})
    batch = Batch(key_name="city", rows=pa.table(columns), before=StreamTime(), after=StreamTime(), upstream=told)

    placed = operation.place(batch, 0)
    changes = operation.close(placed, operation.merge(placed, nothing, tolerant=False), nothing)

    assert placed.after.watermark_ms is None
    assert len(changes.state) == 1
    (key, _) = changes.output[0]
    assert key.startswith(b"graz@1970-01-01T00:00:00.0")


def test_late_is_what_its_own_partition_has_passed() -> None:
    with JobTester(hourly(), partitions=2) as tester:
        tester.pipe_inputs([ride(0, 1), ride(1, 1), ride(0, 2 * _HOUR)])
        tester.pipe_inputs([ride(0, 2), ride(1, 2)])
        assert tester.counts.late == 1
        tester.pipe_input(ride(1, 2 * _HOUR))
        assert closed(tester) == [(0, 3)]


@pytest.mark.parametrize("other", [[1, 100 * _MINUTE], [100 * _MINUTE, 1]], ids=["behind", "ahead"])
def test_row_counts_in_those_hopping_windows_that_its_own_partition_has_not_closed(other: Sequence[int]) -> None:
    counted = RIDES.group_by("city", window("at", "1 hour", "20 minutes")).aggregate(F.count().alias("n"), emit="close")
    with JobTester(StatefulJob("app", counted.sink("out")), partitions=2) as tester:
        tester.pipe_inputs([ride(0, 1, "wien"), ride(1, other[0], "wien")])
        tester.pipe_input(ride(0, 85 * _MINUTE, "wien"))
        tester.pipe_input(ride(0, 50 * _MINUTE))
        tester.pipe_input(ride(1, other[1], "wien"))
        tester.pipe_inputs([ride(0, 10 * _HOUR, "wien"), ride(1, 10 * _HOUR, "wien")])
        found = [record.key for record in tester.read_output() if record.value["city"] == "graz"]
        assert found == ["graz@1970-01-01T00:20:00.000Z", "graz@1970-01-01T00:40:00.000Z"]


_HAPPENS: Final = (JobTester.promote_standby, JobTester.restart)


def _nothing(tester: JobTester) -> None:
    """Goes on as before."""


@pytest.mark.parametrize("happens", _HAPPENS, ids=["failover", "restart"])
def test_what_was_told_is_known_after(happens: Callable[[JobTester], None]) -> None:
    with JobTester(hourly(), partitions=2) as tester:
        tester.pipe_inputs([ride(0, 1), ride(1, 1)])
        tester.pipe_input(ride(0, 10 * _HOUR))
        happens(tester)
        assert closed(tester) == []
        tester.pipe_input(ride(1, 10 * _HOUR))
        assert closed(tester) == [(0, 2)]


def test_partition_that_never_had_a_record_is_not_waited_for() -> None:
    with JobTester(hourly(), partitions=_PARTITIONS) as tester:
        tester.pipe_inputs([ride(0, 1), ride(0, 2 * _HOUR)])
        assert closed(tester) == [(0, 1)]


def test_silent_partition_is_waited_for_a_minute() -> None:
    with JobTester(hourly(), partitions=2) as tester:
        tester.pipe_inputs([ride(0, 1), ride(1, 1)])
        tester.pipe_input(ride(0, 2 * _HOUR))
        tester.advance_wall_clock("59 seconds")
        assert closed(tester) == []
        tester.advance_wall_clock("2 minutes")
        assert closed(tester) == [(0, 2)]
        tester.pipe_input(ride(1, 2))
        assert tester.counts.late == 1


def test_partition_of_which_a_filter_leaves_nothing_is_waited_for_a_minute() -> None:
    with JobTester(hourly(RIDES.filter("km > 0", name="none")), partitions=2) as tester:
        tester.pipe_inputs([ride(0, 1), ride(1, 1)])
        tester.pipe_input(ride(0, 2 * _HOUR))
        for at in (2, 3, 4):
            tester.pipe_input(ride(1, at * _HOUR, km=0))
            tester.advance_wall_clock("25 seconds")
        assert closed(tester) == [(0, 2)]


def test_idle_timeout_moves_the_time_of_what_is_behind_a_topic() -> None:
    rides = stream(
        "rides", schema="city STRING, at BIGINT", event_time="at", watermark="0 seconds", idle_timeout="5 minutes"
    )
    with JobTester(hourly(rides), partitions=2) as tester:
        tester.pipe_inputs([ride(0, _HOUR - 1), ride(1, _HOUR - 1)])
        tester.advance_wall_clock("4 minutes")
        assert closed(tester) == []
        tester.advance_wall_clock("2 minutes")
        assert closed(tester) == [(0, 2)]


def test_time_flows_through_a_chain() -> None:
    per_hour = RIDES.group_by("city", window("at", "1 hour")).aggregate(
        F.count().alias("rides"), emit="close", name="hourly"
    )
    per_day = per_hour.group_by(window("window", "1 day"), "city").aggregate(
        F.sum("rides").alias("rides"), emit="close"
    )
    with JobTester(StatefulJob("app", per_day.sink("out")), partitions=2) as tester:
        tester.pipe_inputs([ride(0, 1), ride(1, 23 * _HOUR)])
        tester.pipe_input(ride(1, 30 * _HOUR))
        assert tester.read_output() == []
        tester.pipe_input(ride(0, 23 * _HOUR))
        tester.pipe_input(ride(0, 30 * _HOUR))
        assert [record.value["rides"] for record in tester.read_output()] == [3]


def test_grace_of_a_join_is_counted_by_the_least_of_the_streams_partitions() -> None:
    cities = table("cities", schema="city STRING, country STRING", key="city")
    joined = RIDES.join(cities, on="city", how="left", grace="1 minute", partitions=1)
    with JobTester(StatefulJob("app", joined.sink("out")), partitions=2) as tester:
        tester.pipe_inputs([ride(0, _HOUR), ride(1, _HOUR)])
        tester.pipe_input(ride(0, 3 * _HOUR))
        assert tester.read_output() == []
        # In time by its own time, though the stream is further.
        city = {"city": "graz", "country": "AT"}
        tester.pipe_input(InputRecord(city, topic="cities", timestamp_ms=_HOUR - 1))
        tester.pipe_input(ride(1, 3 * _HOUR))
        assert [record.value["country"] for record in tester.read_output()] == ["AT", "AT"]


def test_streams_that_are_joined_wait_for_each_others_partitions() -> None:
    ends = stream("ends", schema="city STRING, end BIGINT", event_time="end", watermark="0 seconds")
    rides = stream("rides", schema="city STRING, at BIGINT", event_time="at", watermark="0 seconds")
    joined = rides.join(ends, on="city", how="left", within="1 minute")
    with JobTester(StatefulJob("app", joined.sink("out")), partitions=2) as tester:

        def end(partition: int, at_ms: int) -> InputRecord:
            return InputRecord({"city": "graz", "end": at_ms}, topic="ends", partition=partition)

        tester.pipe_inputs([ride(0, 1), ride(1, 1, "wien"), end(0, 1), end(1, 1)])
        tester.pipe_inputs([ride(0, _HOUR, "linz"), ride(1, _HOUR, "linz"), end(0, 2 * _HOUR)])
        # The one of the first ride comes late behind another partition's.
        tester.pipe_input(end(1, _MINUTE))
        found = [(record.value["city"], record.value["end"]) for record in tester.read_output()]
        assert found == [("graz", 1), ("graz", 1), ("graz", _MINUTE)]
        # The other ride has none: its time is over once both partitions are past it, by rows that say no more.
        tester.pipe_input(end(1, _HOUR))
        assert [(r.value["city"], r.value["end"]) for r in tester.read_output()] == [("wien", None)]


def test_rows_of_two_streams_have_the_later_time() -> None:
    ends = stream("ends", schema="city STRING, end BIGINT", event_time="end", watermark="0 seconds")
    rides = stream("rides", schema="city STRING, at BIGINT", event_time="at", watermark="0 seconds")
    trips = rides.join(ends, on="city", within="2 hours", name="trips").with_column("all", "'all'")
    per_hour = trips.group_by("all", window("_event_time", "1 hour")).aggregate(F.count().alias("rides"))
    with JobTester(StatefulJob("app", per_hour.sink("out"))) as tester:
        tester.pipe_input(ride(0, 1))
        tester.pipe_input(InputRecord({"city": "graz", "end": _HOUR}, topic="ends"))
        assert [record.key for record in tester.read_output()] == ["all@1970-01-01T01:00:00.000Z"]


def _interleaved(chance: random.Random, by_partition: Sequence[Sequence[InputRecord]]) -> Iterator[list[InputRecord]]:
    """Micro-batches of any size in any order of the partitions, each of which may be far behind."""
    left = [list(records) for records in by_partition]
    yield [records.pop(0) for records in left]
    while any(left):
        held = chance.choice([None, *range(len(left))])
        at = chance.choice(
            [n for n, records in enumerate(left) if records and (n != held or sum(map(bool, left)) == 1)]
        )
        size = chance.randint(1, 5)
        batch, left[at] = left[at][:size], left[at][size:]
        yield batch


def _expected(by_partition: Sequence[Sequence[InputRecord]], delay_ms: int, slide_ms: int) -> tuple[Counter[int], int]:
    """By the start of a window of an hour the rides that count, and how many are late, partition by partition."""
    found, late = Counter[int](), 0
    for records in by_partition:
        mark = -(2**62)
        for record in records:
            at = record.value["at"]
            mark = max(mark, at - delay_ms)
            starts = range(at // slide_ms * slide_ms, at - _HOUR, -slide_ms)
            open_ = [start for start in starts if start + _HOUR > mark]
            late += not open_
            found.update(open_)
    return found, late


@pytest.mark.parametrize("slide", [60, 20], ids=["tumbling", "hopping"])
@pytest.mark.long
def test_result_does_not_depend_on_which_partition_was_behind(slide: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    by_partition = [
        [ride(n, max(0, minute * 7 + chance.randint(-60, 15)) * _MINUTE, chance.choice("ab")) for minute in range(40)]
        + [ride(n, 20 * _HOUR, city) for city in "ab"]
        for n in range(_PARTITIONS)
    ]
    expected, late = _expected(by_partition, 10 * _MINUTE, slide * _MINUTE)
    by = window("at", "1 hour", f"{slide} minutes")
    job = StatefulJob("app", RIDES.group_by("city", by).aggregate(F.count().alias("n"), emit="close").sink("out"))
    for _ in range(3):
        with JobTester(job, partitions=_PARTITIONS) as tester:
            for batch in _interleaved(chance, by_partition):
                tester.pipe_inputs(batch)
                happens: Callable[[JobTester], None] = chance.choice([_nothing, _nothing, *_HAPPENS])
                happens(tester)
            found = Counter[int]()
            for record in tester.read_output():
                start = dt.datetime.fromisoformat(record.value["window"]["start"])
                found[int(start.timestamp() * 1000)] += record.value["n"]
            assert found == Counter({start: n for start, n in expected.items() if start + _HOUR < 19 * _HOUR})
            assert tester.counts.late == late


@pytest.mark.parametrize("how", ["session", "window", pytest.param("duplicates", marks=pytest.mark.long)])
def test_rows_in_time_come_to_the_same_whoever_was_behind(how: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    made: dict[str, Callable[[], StatefulJob]] = {
        "session": lambda: StatefulJob(
            "app",
            RIDES.group_by("city", session_window("at", "9 minutes"))
            .aggregate(F.count().alias("n"), F.sum("km").alias("km"), emit="close")
            .sink("out"),
        ),
        "window": lambda: StatefulJob(
            "app",
            RIDES.group_by("city", window("at", "1 hour", "20 minutes"))
            .aggregate(F.count().alias("n"), F.sum("km").alias("km"), emit="close")
            .sink("out"),
        ),
        "duplicates": lambda: StatefulJob(
            "app", RIDES.select("city", "km", "at").drop_duplicates("city", "km", within="1 hour").sink("out")
        ),
    }
    # No row is behind the watermark, and no two of a key are duplicates that could come in either order.
    by_partition = [
        [ride(n, (minute * 12 + chance.randint(0, 9)) * _MINUTE, chance.choice("ab"), km=n) for minute in range(30)]
        + [ride(n, 20 * _HOUR, city, km=n) for city in "ab"]
        for n in range(_PARTITIONS)
    ]
    results = list[Any]()
    for _ in range(3):
        with JobTester(made[how](), partitions=_PARTITIONS) as tester:
            for batch in _interleaved(chance, by_partition):
                tester.pipe_inputs(batch)
            results.append(
                sorted((record.key, sorted(record.value.items(), key=str)) for record in tester.read_output())
            )
            assert tester.counts.late == 0
    assert results[0] == results[1] == results[2]
    assert len(results[0]) > 10
