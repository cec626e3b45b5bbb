"""Stores and timers of `process()`, through the tester."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_provider.common.timer_count import TimerCount
from airflow_provider.errors import ConfigurationError, ProcessError, RecordTooLargeError
from airflow_provider.streaming import (
    KeyState,
    StatefulJob,
    Stream,
    list_state,
    map_state,
    stream,
    value_state,
)
from airflow_provider.streaming.operations.process_state import KeptStore
from airflow_provider.streaming.operations.stateful_process import StatefulProcess
from airflow_provider.testing import InputRecord, JobTester, check_batching
from airflow_provider.testing.tested_instance import CLOCK_BEGINS_MS
from tests.builders import job_of_result
from tests.unit.streaming.operations.merging import merged

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
SCHEMA: Final = "id STRING, at BIGINT, page STRING"
Rows = list[dict[str, Any]]


def source(watermark: str | None = "0 seconds", idle_timeout: str | None = None) -> Stream:
    time = None if watermark is None else "at"
    return stream("visits", schema=SCHEMA, key="id", event_time=time, watermark=watermark, idle_timeout=idle_timeout)


def job_of(function: Any, visits: Stream | None = None, **given: Any) -> StatefulJob:
    visits = source() if visits is None else visits
    return job_of_result(visits.group_by("id").process(function, ["at", "page"], name="visits", **given), "visits")


def visit(at: int, id: str = "a", page: str | None = None) -> dict[str, Any]:
    return {"id": id, "at": at, "page": page}


def values(tester: JobTester) -> list[dict[str, Any]]:
    return [record.value for record in tester.read_output()]


# -- stores ---------------------------------------------------------------------------------------------------------


def keeps_all(key: str, rows: Rows, state: Any) -> Iterable[dict[str, Any]]:
    for row in rows:
        state.last.update(row["page"])
        state.pages.update_value(row["page"], (state.pages.get_value(row["page"]) or 0) + 1)
        state.order.append_value(row["page"])
        state.update((state.get() or 0) + 1)
    return [{"n": state.get(), "pages": dict(state.pages.iterator())}]


ALL: Final = (value_state("last"), map_state("pages"), list_state("order"))


def test_a_key_has_several_stores_beside_its_value() -> None:
    with JobTester(job_of(keeps_all, stores=ALL)) as tester:
        tester.pipe_inputs([visit(1, page="x"), visit(2, "b", "y"), visit(3, page="z"), visit(4, page="x")])

        assert tester.state("a") == {"value": 3, "last": "x", "pages": {"x": 2, "z": 1}, "order": ["x", "z", "x"]}
        assert tester.state("b") == {"value": 1, "last": "y", "pages": {"y": 1}, "order": ["y"]}
        assert values(tester)[-1] == {"id": "a", "n": 3, "pages": {"x": 2, "z": 1}}


@pytest.mark.parametrize("way", ["restart", "empty", "standby"])
def test_stores_and_timers_outlive_their_instance(way: str) -> None:
    def sets(key: str, rows: Rows, state: KeyState) -> None:
        keeps_all(key, rows, state)
        state.timers.at(rows[0]["at"] + HOUR)

    with JobTester(job_of(sets, stores=ALL, on_timer=rings)) as tester:
        tester.pipe_input(visit(1, page="x"))
        before = tester.state("a")
        if way == "standby":
            tester.promote_standby()
        else:
            tester.restart(store="empty" if way == "empty" else "kept")

        assert tester.state("a") == before
        tester.pipe_input(visit(2 * HOUR, "b", "y"))
        assert {"id": "a", "rang": HOUR + 1} in values(tester)


@pytest.mark.parametrize("way", ["restart", "empty", "standby"])
def test_timers_are_counted_with_each_commit_and_known_to_whoever_comes_next(way: str) -> None:
    def sets(key: str, rows: Rows, state: KeyState) -> None:
        state.timers.at(rows[0]["at"] + HOUR)
        if rows[0]["page"] == "late":
            state.timers.delete(MINUTE + HOUR)
            state.clock.at(CLOCK_BEGINS_MS + MINUTE)

    with JobTester(job_of(sets, on_timer=rings, on_clock=rings)) as tester:
        assert counted(tester) == {}
        tester.pipe_inputs([visit(0), visit(MINUTE), visit(MINUTE, "b"), visit(MINUTE)])
        assert counted(tester) == {"timers": TimerCount(3, HOUR), "clock": TimerCount()}
        tester.pipe_input(visit(2 * MINUTE, page="late"))
        set_ = {"timers": TimerCount(3, HOUR), "clock": TimerCount(1, CLOCK_BEGINS_MS + MINUTE)}
        assert counted(tester) == set_
        if way == "standby":
            tester.promote_standby()
        else:
            tester.restart(store="empty" if way == "empty" else "kept")

        assert counted(tester) == set_
        # Set in the same micro-batch in which it fires.
        tester.pipe_inputs([visit(HOUR, "b"), visit(HOUR + MINUTE, "c")])
        assert counted(tester)["timers"] == TimerCount(3, HOUR + 2 * MINUTE)
        tester.advance_wall_clock("2 minutes")
        assert counted(tester)["clock"] == TimerCount()
        tester.pipe_input(visit(10 * HOUR))
        assert counted(tester)["timers"] == TimerCount(1, 11 * HOUR)


def test_timers_of_a_function_that_is_taken_out_are_counted_when_it_comes_again() -> None:
    def sets(key: str, rows: Rows, state: KeyState) -> None:
        if rows[0]["page"] == "set":
            state.timers.at(HOUR)

    with_timers, without = job_of(sets, on_timer=rings), job_of(sets, stores=[value_state("last")])
    with JobTester(with_timers) as tester:
        tester.pipe_inputs([visit(1, page="set"), visit(2, "b", page="set")])
        tester.restart(job=without)
        tester.pipe_input(visit(3))
        assert counted(tester) == {}
        tester.restart(job=with_timers)
        tester.pipe_input(visit(4))
        assert counted(tester) == {"timers": TimerCount(2, HOUR)}


def counted(tester: JobTester) -> Any:
    """As the status of the only task says it."""
    (task,) = tester._active.tasks.values()  # noqa: SLF001
    return task.status().timers


def test_stores_may_be_cleared_and_leave_nothing() -> None:
    def clears(key: str, rows: Rows, state: Any) -> None:
        if rows[0]["page"] != "gone":
            keeps_all(key, rows, state)
            return
        for store in (state, state.last, state.pages, state.order):
            assert store.exists()
            store.clear()
            assert not store.exists()

    with JobTester(job_of(clears, stores=ALL)) as tester:
        tester.pipe_inputs([visit(1, page="x"), visit(2, page="y"), visit(3, page="gone")])

        assert tester.state("a") is None
        assert stored(tester) == []


def stored(tester: JobTester) -> list[tuple[bytes, bytes]]:
    (task,) = tester._active.tasks.values()  # noqa: SLF001
    assert task.commit_record is None or f"{task.replica.scan().result():016x}" == task.digest
    return list(task.replica.items())


def test_words_of_a_list_and_a_map_are_those_of_pyspark() -> None:
    def uses(key: str, rows: Rows, state: Any) -> Iterable[dict[str, Any]]:
        state.order.put([1, 2])
        state.order.append_list([3])
        state.pages.update_value(("x", 1), "one")
        state.pages.update_value("y", "two")
        state.pages.remove_key("y")
        yield {
            "order": state.order.get(),
            "there": [state.pages.contains_key("y"), state.pages.contains_key(("x", 1))],
            "keys": list(state.pages.keys()),
            "values": list(state.pages.values()),
            "none": state.pages.get_value("y"),
        }

    with JobTester(job_of(uses, stores=ALL)) as tester:
        tester.pipe_input(visit(1))

        assert values(tester) == [
            {
                "id": "a",
                "order": [1, 2, 3],
                "there": [False, True],
                "keys": [["x", 1]],
                "values": ["one"],
                "none": None,
            }
        ]


def test_row_whose_call_raises_changes_nothing() -> None:
    def raises(key: str, rows: Rows, state: Any) -> Iterable[dict[str, Any]]:
        yield from keeps_all(key, rows, state)
        if rows[0]["page"] == "bad":
            state.timers.at(10 * HOUR)
            raise ValueError("bad page")

    job = job_of(raises, stores=ALL, on_timer=rings).on_error("skip")
    with JobTester(job) as tester:
        tester.pipe_inputs([visit(1, page="x"), visit(2 * HOUR, page="bad"), visit(3, page="y")])

        assert tester.counts.failed == 1
        assert tester.state("a") == {"value": 2, "last": "y", "pages": {"x": 1, "y": 1}, "order": ["x", "y"]}


def test_error_names_the_record_whose_call_raised() -> None:
    def raises(key: str, rows: Rows, state: Any) -> None:
        if rows[0]["page"] == "bad":
            state.last.update(object())

    with JobTester(job_of(raises, stores=ALL)) as tester, pytest.raises(ProcessError, match=r"offset 1.*object"):
        tester.pipe_inputs([visit(1, page="x"), visit(2, page="bad")])


def test_record_whose_state_is_too_large_is_left_out_alone() -> None:
    def grows(key: str, rows: Rows, state: Any) -> None:
        state.order.append_value("x" * (900_000 if rows[0]["page"] == "large" else 100_000))

    job = job_of(grows, stores=ALL)
    rows = [visit(at, page=page) for at, page in enumerate(["small", "large", "large", "small"])]
    with JobTester(job) as tester, pytest.raises(RecordTooLargeError, match="offset 2"):
        tester.pipe_inputs(rows)
    with JobTester(job.on_error("skip")) as tester:
        tester.pipe_inputs([rows[0], rows[0], rows[1], rows[3]])
        assert tester.counts.failed == 1
        assert [len(text) for text in tester.state("a")["order"]] == [100_000] * 3


def test_a_job_gets_stores_and_timers_over_the_value_that_it_kept() -> None:
    def counts(key: str, rows: Rows, state: Any) -> None:
        state.update((state.get() or 0) + len(rows))

    with JobTester(job_of(counts)) as tester:
        tester.pipe_inputs([visit(1), visit(2)])
        before = stored(tester)
        tester.restart(job=job_of(keeps_all, stores=ALL, on_timer=rings))
        assert stored(tester) == before
        tester.pipe_input(visit(3, page="x"))
        assert tester.state("a") == {"value": 3, "last": "x", "pages": {"x": 1}, "order": ["x"]}
        tester.restart(job=job_of(counts))
        tester.pipe_input(visit(4))
        assert tester.state("a") == 4


def test_value_of_another_operation_is_no_fault_of_a_record() -> None:
    given = pa.table({"__key": [b"a"], "__offset": [1], "at": [1]})
    operation = StatefulProcess(keeps_all, ("at",), stores=ALL)

    with pytest.raises(ConfigurationError, match=r"'a' is not one of process"):
        merged(operation, given, {b"a": b"\x01\x01"}, tolerant=True)


# -- what is over ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "write", "read"),
    [
        pytest.param(value_state("kept", ttl="1 hour"), "update", "get", id="value"),
        pytest.param(list_state("kept", ttl="1 hour"), "append_value", "get", id="list"),
        pytest.param(map_state("kept", ttl="1 hour"), "update_value", "keys", id="map"),
    ],
)
def test_what_was_written_is_gone_when_the_watermark_is_its_ttl_later(store: KeptStore, write: str, read: str) -> None:
    def keeps(key: str, rows: Rows, state: Any) -> Iterable[dict[str, Any]]:
        for row in rows:
            if row["page"] is not None:
                getattr(state.kept, write)(*[row["page"]] * (2 if store.kind == "map" else 1))
            found = getattr(state.kept, read)()
            yield {"found": found if store.kind == "value" else list(found)}

    with JobTester(job_of(keeps, source("10 minutes"), stores=[store])) as tester:
        tester.pipe_inputs([visit(0, page="x"), visit(HOUR + 10 * MINUTE - 1)])
        assert [row["found"] for row in values(tester)] == (["x", "x"] if store.kind == "value" else [["x"], ["x"]])
        tester.pipe_input(visit(HOUR + 10 * MINUTE))
        assert [row["found"] for row in values(tester)] == [None if store.kind == "value" else []]
        assert tester.state("a") is None


def test_elements_and_entries_are_over_one_by_one_and_those_written_again_live_on() -> None:
    def keeps(key: str, rows: Rows, state: Any) -> None:
        for row in rows:
            state.order.append_value(row["page"])
            state.pages.update_value(row["page"], row["at"])

    stores = [list_state("order", ttl="1 hour"), map_state("pages", ttl="1 hour")]
    with JobTester(job_of(keeps, stores=stores)) as tester:
        for at, page in [(0, "x"), (30, "y"), (50, "x"), (70, "z"), (95, "u")]:
            tester.pipe_input(visit(at * MINUTE, page=page))
        pages = {"x": 50 * MINUTE, "z": 70 * MINUTE, "u": 95 * MINUTE}
        assert tester.state("a") == {"order": ["x", "z", "u"], "pages": pages}


def test_what_is_over_is_dropped_of_keys_that_never_come_again() -> None:
    def keeps(key: str, rows: Rows, state: Any) -> None:
        if key != "last":
            state.seen.update_value(rows[0]["page"], 1)

    with JobTester(job_of(keeps, stores=[map_state("seen", ttl="1 hour")])) as tester:
        tester.pipe_inputs([visit(n, f"k{n}", f"p{n % 3}") for n in range(50)])
        assert len(stored(tester)) == 100
        tester.pipe_input(visit(2 * HOUR, "last"))
        assert stored(tester) == []


@pytest.mark.parametrize("ttl", ["3 hours", "30 minutes"])
def test_ttl_may_change_and_what_is_over_by_it_is_dropped(ttl: str) -> None:
    def keeps(key: str, rows: Rows, state: Any) -> None:
        if rows[0]["page"] is not None:
            state.kept.update(rows[0]["page"])

    with JobTester(job_of(keeps, stores=[value_state("kept", ttl="1 hour")])) as tester:
        tester.pipe_input(visit(0, page="x"))
        tester.restart(job=job_of(keeps, stores=[value_state("kept", ttl=ttl)]))
        tester.pipe_input(visit(2 * HOUR, "b"))
        assert tester.state("a") == ({"kept": "x"} if ttl == "3 hours" else None)
        tester.pipe_input(visit(4 * HOUR, "b"))
        assert stored(tester) == []


# -- timers of event time -------------------------------------------------------------------------------------------


def rings(key: str, time_ms: int, state: KeyState) -> Iterable[dict[str, Any]]:
    return [{"rang": time_ms}]


def sets_in_an_hour(key: str, rows: Rows, state: KeyState) -> Iterator[dict[str, Any]]:
    for row in rows:
        state.timers.at(row["at"] + HOUR)
        yield {"came": row["at"]}


def test_timer_fires_when_the_watermark_reaches_it_and_then_no_more() -> None:
    with JobTester(job_of(sets_in_an_hour, source("10 minutes"), on_timer=rings)) as tester:
        tester.pipe_input(visit(0))
        tester.pipe_input(visit(70 * MINUTE - 1, "b"))
        assert values(tester) == [{"id": "a", "came": 0}, {"id": "b", "came": 70 * MINUTE - 1}]
        tester.pipe_input(visit(70 * MINUTE, "b"))
        assert values(tester) == [{"id": "a", "rang": HOUR}, {"id": "b", "came": 70 * MINUTE}]
        assert tester.state("a") is None
        tester.pipe_input(visit(70 * MINUTE, "b"))
        assert [row for row in values(tester) if row["id"] == "a"] == []


def test_timers_fire_between_the_rows_of_a_batch_in_the_order_of_time_and_key() -> None:
    with JobTester(job_of(sets_in_an_hour, on_timer=rings)) as tester:
        tester.pipe_inputs([visit(2, "b"), visit(1, "a"), visit(2, "a"), visit(HOUR + 2, "c"), visit(3 * HOUR, "c")])

        assert [(row["id"], row.get("rang")) for row in values(tester)] == [
            ("b", None),
            ("a", None),
            ("a", None),
            ("a", HOUR + 1),
            ("a", HOUR + 2),
            ("b", HOUR + 2),
            ("c", None),
            ("c", 2 * HOUR + 2),
            ("c", None),
        ]


def test_timer_for_one_time_is_one_and_can_be_taken_back() -> None:
    def sets(key: str, rows: Rows, state: KeyState) -> None:
        state.timers.at(HOUR)
        state.timers.at(dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC))
        state.timers.at(2 * HOUR)
        if rows[0]["page"] == "no":
            state.timers.delete(HOUR)
            state.timers.delete(5 * HOUR)

    with JobTester(job_of(sets, on_timer=rings)) as tester:
        tester.pipe_inputs([visit(1), visit(1, "b"), visit(2, "b", "no")])
        assert tester.state("a") == {"timers": [HOUR, 2 * HOUR]}
        assert tester.state("b") == {"timers": [2 * HOUR]}
        tester.pipe_input(visit(HOUR, "c", "no"))
        assert values(tester) == [{"id": "a", "rang": HOUR}]


def test_timer_for_a_time_that_is_over_fires_right_after_the_call() -> None:
    def sets(key: str, rows: Rows, state: KeyState) -> Iterable[dict[str, Any]]:
        state.timers.at(rows[0]["at"] - HOUR)
        return [{"came": rows[0]["at"]}]

    with JobTester(job_of(sets, on_timer=rings)) as tester:
        tester.pipe_inputs([visit(1), visit(2, "b")])

        assert values(tester) == [
            {"id": "a", "came": 1},
            {"id": "a", "rang": 1 - HOUR},
            {"id": "b", "came": 2},
            {"id": "b", "rang": 2 - HOUR},
        ]


def every_hour(key: str, time_ms: int, state: KeyState) -> Iterable[dict[str, Any]]:
    assert state.timers.now_ms == time_ms
    state.timers.at(time_ms + HOUR)
    state.update((state.get() or 0) + 1)
    return [{"rang": time_ms, "n": state.get()}]


def test_timer_that_fires_may_change_state_and_set_further_ones_which_are_made_up_for_one_by_one() -> None:
    with JobTester(job_of(sets_in_an_hour, on_timer=every_hour)) as tester:
        tester.pipe_inputs([visit(0), visit(3 * HOUR + 1, "b")])

        rang = [(row["rang"], row["n"]) for row in values(tester) if row["id"] == "a" and "rang" in row]
        assert rang == [(HOUR, 1), (2 * HOUR, 2), (3 * HOUR, 3)]
        assert tester.state("a") == {"value": 3, "timers": [4 * HOUR]}


def test_timer_that_would_fire_for_ever_is_refused() -> None:
    def again(key: str, time_ms: int, state: KeyState) -> None:
        state.timers.at(time_ms)

    with (
        JobTester(job_of(sets_in_an_hour, on_timer=again).on_error("skip")) as tester,
        pytest.raises(ConfigurationError, match=r"on_timer\(\).*'a'.*3600000.*set a later one"),
    ):
        tester.pipe_inputs([visit(0), visit(HOUR, "b")])


def test_timer_whose_call_raises_stops_the_task_and_is_called_again_by_a_function_that_is_corrected() -> None:
    def raises(key: str, time_ms: int, state: KeyState) -> None:
        raise ZeroDivisionError("by zero")

    with JobTester(job_of(sets_in_an_hour, on_timer=raises).on_error("skip")) as tester:
        tester.pipe_input(visit(0))
        with pytest.raises(ConfigurationError, match=r"ZeroDivisionError: by zero.*deploy again"):
            tester.pipe_input(visit(HOUR, "b"))
        tester.restart(job=job_of(sets_in_an_hour, on_timer=rings).on_error("skip"))
        assert values(tester) == [
            {"id": "a", "came": 0},
            {"id": "a", "rang": HOUR},
            {"id": "b", "came": HOUR},
        ]
        assert tester.counts.failed == 0


def test_time_that_goes_on_without_records_fires_timers_in_a_transaction_of_its_own() -> None:
    with JobTester(job_of(sets_in_an_hour, source(idle_timeout="5 minutes"), on_timer=every_hour)) as tester:
        tester.pipe_input(visit(0))
        tester.advance_wall_clock("2 hours 5 minutes")
        assert [row.get("rang") for row in values(tester)] == [None, HOUR, 2 * HOUR]
        tester.restart(store="empty")
        assert tester.state("a") == {"value": 2, "timers": [3 * HOUR]}
        assert values(tester) == []


def test_timers_behind_an_internal_topic_fire_by_what_the_tasks_before_it_tell() -> None:
    grouped = source().group_by("page")
    job = job_of_result(grouped.process(sets_in_an_hour, ["at"], name="pages", on_timer=rings), "visits")
    with JobTester(job, partitions=2) as tester:
        for partition in range(2):
            tester.pipe_input(InputRecord(visit(0, f"k{partition}", "x"), partition=partition))
        tester.pipe_input(InputRecord(visit(5 * HOUR, "k0", "y"), partition=0))
        assert [row for row in values(tester) if "rang" in row] == []
        tester.pipe_input(InputRecord(visit(HOUR, "k1", "y"), partition=1))
        assert [row for row in values(tester) if "rang" in row] == [{"page": "x", "rang": HOUR}]


# -- timers of the clock --------------------------------------------------------------------------------------------


def sets_by_the_clock(key: str, rows: Rows, state: KeyState) -> None:
    assert state.clock.now_ms is not None
    state.clock.at(state.clock.now_ms + HOUR)
    state.update(len(rows))


def rings_by_the_clock(key: str, time_ms: int, state: KeyState) -> Iterable[dict[str, Any]]:
    assert state.clock.now_ms is not None
    return [{"rang": time_ms - CLOCK_BEGINS_MS, "now": state.clock.now_ms - CLOCK_BEGINS_MS}]


def test_timer_of_the_clock_fires_without_input_once() -> None:
    with JobTester(job_of(sets_by_the_clock, source(watermark=None), on_clock=rings_by_the_clock)) as tester:
        tester.pipe_inputs([visit(0), visit(0, "b")])
        tester.advance_wall_clock("59 minutes")
        assert values(tester) == []
        tester.promote_standby()
        tester.advance_wall_clock("2 minutes")
        late = {"rang": HOUR, "now": HOUR + MINUTE}
        assert values(tester) == [{"id": "a", **late}, {"id": "b", **late}]
        assert tester.state("a") == {"value": 1}
        tester.restart(store="empty")
        tester.advance_wall_clock("1 day")
        assert values(tester) == []
        assert tester.states() == {"a": {"value": 1}, "b": {"value": 1}}


def test_timer_of_the_clock_may_set_one_of_event_time() -> None:
    def sets(key: str, time_ms: int, state: KeyState) -> None:
        state.timers.at(HOUR)
        state.timers.at(0)

    with JobTester(job_of(sets_by_the_clock, on_timer=rings, on_clock=sets)) as tester:
        tester.pipe_input(visit(1))
        tester.advance_wall_clock("1 hour")
        assert values(tester) == [{"id": "a", "rang": 0}]
        tester.pipe_input(visit(HOUR, "b"))
        assert values(tester) == [{"id": "a", "rang": HOUR}]


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"on_timer": "rings"}, "on_timer='rings': give the function itself", id="text"),
        pytest.param({"on_clock": lambda key: None}, r"on_clock=.*key, time_ms, state", id="arguments"),
        pytest.param({"stores": "seen"}, r"stores='seen': give a list of stores", id="stores"),
        pytest.param({"stores": [value_state("x"), map_state("x")]}, "'x', 'x': give each a name", id="one-name"),
    ],
)
def test_what_is_no_store_or_no_function_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        job_of(keeps_all, **given)


@pytest.mark.parametrize("name", ["get", "timers", "value", "two words", "_x", "", 7])
def test_name_that_cannot_be_an_attribute_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"map_state\(\) got .*behind 'state.'"):
        map_state(name)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        pytest.param({"on_timer": rings}, "on_timer=", id="timers"),
        pytest.param({"stores": [value_state("x", ttl="1 day")]}, "a ttl=", id="ttl"),
    ],
)
def test_time_is_needed(given: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{what}.*no event time.*watermark='10 minutes'"):
        job_of(keeps_all, source(watermark=None), **given)


def test_timer_without_a_function_is_a_record_error() -> None:
    def sets(key: str, rows: Rows, state: KeyState) -> None:
        state.clock.at(0)

    with JobTester(job_of(sets, on_timer=rings)) as tester, pytest.raises(ProcessError, match=r"on_clock="):
        tester.pipe_input(visit(0))


# -- where micro-batches end ----------------------------------------------------------------------------------------


STEP: Final = 10 * MINUTE
PAGES: Final = ("p", "q", "r", "bad")


def browses(key: str, rows: Rows, state: Any) -> Iterator[dict[str, Any]]:
    """Everything at once: what it does follows from page and time."""
    for row in rows:
        at, page = row["at"], row["page"]
        if page == "bad":
            raise ValueError("bad")
        state.pages.update_value(page, (state.pages.get_value(page) or 0) + 1)
        state.order.append_value(at)
        state.last.update(page)
        state.timers.at(at + {"p": 4 * STEP, "q": 0, "r": -STEP}[page])
        if page == "r":
            state.timers.delete(at // STEP * STEP + 3 * STEP)
        yield {
            "page": page,
            "pages": sorted(state.pages.iterator()),
            "order": state.order.get(),
            "now": state.timers.now_ms,
        }


def looks(key: str, time_ms: int, state: Any) -> Iterator[dict[str, Any]]:
    last = state.last.get()
    if last == "p":
        state.timers.at(time_ms + STEP)
        state.last.clear()
    state.update(time_ms)
    yield {"rang": time_ms, "last": last, "order": state.order.get(), "pages": sorted(state.pages.keys())}


def browsing() -> StatefulJob:
    stores = [map_state("pages", ttl="45 minutes"), list_state("order", ttl="30 minutes"), value_state("last")]
    result = (
        source("15 minutes")
        .group_by("id")
        .process(browses, ["at", "page"], name="visits", stores=stores, on_timer=looks)
    )
    return job_of_result(result, "visits").on_error("dead_letter", topic="bad")


def visits(seed: int, number: int) -> list[InputRecord]:
    chance = random.Random(seed)
    drawn = []
    for n in range(number):
        at = n * 4 * MINUTE + chance.choice([0, 0, STEP, -STEP, 5 * STEP]) * (chance.random() < 0.6)
        page = chance.choices(PAGES, [6, 3, 3, 1])[0]
        drawn.append(InputRecord(visit(at, chance.choice("abc"), page), timestamp_ms=n))
    return drawn


def test_where_micro_batches_end_makes_no_difference() -> None:
    seed = random.SystemRandom().randrange(2**32)
    check_batching(browsing(), visits(seed, 40), seed=seed, cuts=6)


def test_output_is_the_same_row_for_row_wherever_micro_batches_end() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    records, chance = visits(seed, 60), random.Random(seed)
    outputs = []
    for most in (1, 60, 7):
        with JobTester(browsing()) as tester:
            left = list(records)
            while left:
                size = chance.randint(1, most) if most < 60 else 60
                tester.pipe_inputs(left[:size])
                del left[:size]
            outputs.append(([(r.key, r.value) for r in tester.read_output()], stored(tester), tester.counts))
    assert outputs[0] == outputs[1] == outputs[2]


# -- against plain Python -------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Plain:
    """What a key holds, by the rules of docs/semantics.md, in plain Python."""

    pages: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    order: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    last: str | None = None


def expected(records: list[InputRecord], delay_ms: int) -> list[tuple[str, dict[str, Any]]]:
    keys: dict[str, Plain] = {}
    timers: set[tuple[int, str]] = set()
    seen, found = -(2**40), list[tuple[str, dict[str, Any]]]()

    def order(plain: Plain, now: int) -> list[int]:
        return [at for written, at in plain.order if written + 3 * STEP > now]

    def pages(plain: Plain, now: int) -> list[tuple[str, int]]:
        return sorted((p, n) for p, (written, n) in plain.pages.items() if written + 45 * MINUTE > now)

    def fire(mark: int, now: int) -> int:
        while timers and min(timers)[0] <= mark:
            time, key = min(timers)
            timers.remove((time, key))
            now, plain = max(now, time), keys[key]
            if (last := plain.last) == "p":
                timers.add((time + STEP, key))
                plain.last = None
            row = {"rang": time, "last": last, "order": order(plain, now), "pages": [p for p, _ in pages(plain, now)]}
            found.append((key, row))
        return max(now, mark)

    now = -(2**40)
    for record in records:
        key, at, page = record.value["id"], record.value["at"], record.value["page"]
        if page == "bad":
            continue
        seen = max(seen, at)
        now = fire(seen - delay_ms, now)
        plain, written = keys.setdefault(key, Plain()), max(now, at)
        plain.pages[page] = written, dict(pages(plain, now)).get(page, 0) + 1
        plain.order.append((written, at))
        plain.last = page
        timers.add((at + {"p": 4 * STEP, "q": 0, "r": -STEP}[page], key))
        if page == "r":
            timers.discard((at // STEP * STEP + 3 * STEP, key))
        row = {"page": page, "pages": pages(plain, now), "order": order(plain, now), "now": now}
        found.append((key, row))
        now = fire(now, now)
    return found


def test_what_comes_out_is_what_plain_python_says() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    records = visits(seed, 150)
    with JobTester(browsing()) as tester:
        for begin in range(0, len(records), 11):
            tester.pipe_inputs(records[begin : begin + 11])
        found = [(record.key, {k: v for k, v in record.value.items() if k != "id"}) for record in tester.read_output()]
    plain = [
        (
            key,
            {
                k: [list(x) if isinstance(x, tuple) else x for x in v] if isinstance(v, list) else v
                for k, v in row.items()
            },
        )
        for key, row in expected(records, 15 * MINUTE)
    ]
    assert found == plain
