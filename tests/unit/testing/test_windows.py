"""Windows through the tester, against a reference in plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError, ProcessError, RecordError
from airflow_provider.streaming import StatefulJob, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.terms.windows import SessionWindow, Window
from airflow_provider.testing import JobTester, check_batching
from tests.builders import job_of_result

Row = dict[str, Any]

SCHEMA = "customer STRING, amount BIGINT, at BIGINT"
RESULTS = (F.count().alias("n"), F.sum("amount").alias("spent"), F.max("amount").alias("most"))
FIRST_AND_LAST = (F.first("amount").alias("first"), F.last("amount").alias("last"))

CASES = {
    "tumbling": window("at", "10 seconds"),
    "tumbling, from 3 s on": window("at", "10 seconds", "10 seconds", "3 seconds"),
    "hopping": window("at", "10 seconds", "5 seconds"),
    "hopping, no multiple": window("at", "10 seconds", "3 seconds", "1 second"),
    "hopping, far apart": window("at", "60 seconds", "7 seconds"),
}


def job_of(windows: Window | SessionWindow, delay: str, emit: Any = "update", results: Any = None) -> StatefulJob:
    return StatefulJob(
        "windows",
        stream("orders", schema=SCHEMA, key="customer", event_time="at", watermark=delay)
        .group_by("customer", windows)
        .aggregate(*(results or (*RESULTS, *FIRST_AND_LAST)), emit=emit)
        .sink("out"),
    )


def iso(ms: int) -> str:
    text = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{ms % 1000:03d}Z"


@dataclass
class Reference:
    """One row after the other, as the page on semantics says it."""

    starts: Callable[[int], list[int]]
    size: int
    delay: int
    rows: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    mark: int | None = None
    late: int = 0

    def add(self, row: Row) -> None:
        at = row["at"]
        self.mark = at - self.delay if self.mark is None else max(self.mark, at - self.delay)
        starts = [start for start in self.starts(at) if start + self.size > self.mark]
        self.late += not starts
        for start in starts:
            self.rows.setdefault((start, row["customer"]), []).append(row["amount"])

    def value(self, start: int, customer: str) -> Row:
        amounts = self.rows[start, customer]
        return {
            "customer": customer,
            "window": {"start": iso(start), "end": iso(start + self.size)},
            "n": len(amounts),
            "spent": sum(amounts),
            "most": max(amounts),
            "first": amounts[0],
            "last": amounts[-1],
        }

    def values(self, *, closed: bool | None = None) -> dict[str, Row]:
        assert self.mark is not None
        return {
            f"{customer}@{iso(start)}": self.value(start, customer)
            for start, customer in self.rows
            if closed is None or (start + self.size <= self.mark) is closed
        }


def reference_of(windows: Window, delay_ms: int) -> Reference:
    def starts(at: int) -> list[int]:
        low = at - windows.size_ms - windows.slide_ms
        first = low + (windows.offset_ms - low) % windows.slide_ms
        return [s for s in range(first, at + 1, windows.slide_ms) if s <= at < s + windows.size_ms]

    return Reference(starts, windows.size_ms, delay_ms)


def random_rows(randomness: random.Random, number: int) -> list[Row]:
    """Times that go on, jump, come late, and are negative at first."""
    now, rows = randomness.choice([-100_000, 0, 1_700_000_000_123]), []
    for _ in range(number):
        now += randomness.choice([0, 0, 100, 1_000, 3_000, 3_000, 40_000] if randomness.random() < 0.9 else [-20_000])
        at = now - randomness.choice([0, 0, 0, 1, 999, 5_000, 12_000, 30_000])
        rows.append({"customer": randomness.choice("abc"), "amount": randomness.randrange(-9, 100), "at": at})
    return rows


def run(job: StatefulJob, rows: list[Row], randomness: random.Random) -> tuple[dict[str, Any], list[Any], JobTester]:
    """The last output by key, all outputs, and the tester, after micro-batches of random sizes and faults."""
    tester = JobTester(job)
    begin = 0
    while begin < len(rows):
        size = randomness.randint(1, 12)
        tester.pipe_inputs(rows[begin : begin + size])
        begin += size
        match randomness.randrange(8):
            case 0:
                tester.restart()
            case 1:
                tester.restart(store="empty")
            case 2:
                tester.promote_standby()
    (task,) = tester._active.tasks.values()  # noqa: SLF001
    assert f"{task.replica.scan().result():016x}" == task.digest
    outputs = tester.read_output()
    return {o.key: o.value for o in outputs}, [o.value for o in outputs], tester


@pytest.mark.parametrize("delay_ms", [0, 45_000])
@pytest.mark.parametrize("windows", CASES.values(), ids=CASES)
def test_windows_are_those_of_the_reference(windows: Window, delay_ms: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    randomness = random.Random(seed)
    rows = random_rows(randomness, 80)
    expected = reference_of(windows, delay_ms)
    for row in rows:
        expected.add(row)
    for emit in ("update", "close"):
        last, outputs, tester = run(job_of(windows, f"{delay_ms} milliseconds", emit), rows, randomness)
        with tester:
            closed = None if emit == "update" else True
            assert last == expected.values(closed=closed)
            if emit == "close":
                assert len(outputs) == len(last)  # each once
            assert tester.counts.late == expected.late
            assert tester.counts.processed == len(rows)
            assert tester.states().keys() == expected.values(closed=False).keys()
            for name, state in tester.states().items():
                value = expected.values(closed=False)[name]
                assert {**state, "window": None, "customer": None} == {**value, "window": None, "customer": None}


@pytest.mark.parametrize("emit", ["update", "close"])
@pytest.mark.parametrize("windows", [CASES["tumbling"], CASES["hopping, no multiple"]], ids=["tumbling", "hopping"])
def test_windows_do_not_depend_on_where_micro_batches_end(windows: Window, emit: Any) -> None:
    rows = random_rows(random.Random(7), 25)
    check_batching(job_of(windows, "8 seconds", emit), rows, cuts=3)


@dataclass
class Session:
    start: int
    end: int
    amounts: list[int]


@dataclass
class SessionReference:
    """One row after the other, as the page on semantics says it."""

    gap: int
    delay: int
    sessions: dict[str, list[Session]] = field(default_factory=dict)
    mark: int | None = None
    late: int = 0

    def add(self, row: Row) -> None:
        at = row["at"]
        self.mark = at - self.delay if self.mark is None else max(self.mark, at - self.delay)
        if at + self.gap <= self.mark:
            self.late += 1
            return
        mine, others = Session(at, at + self.gap, [row["amount"]]), []
        for session in self.sessions.get(row["customer"], []):
            if session.end > self.mark and session.start <= at + self.gap and session.end >= at:
                amounts = session.amounts + mine.amounts
                mine = Session(min(mine.start, session.start), max(mine.end, session.end), amounts)
            else:
                others.append(session)
        self.sessions[row["customer"]] = [*others, mine]

    def values(self, *, closed: bool | None = None) -> dict[str, Row]:
        assert self.mark is not None
        return {
            f"{customer}@{iso(s.start)}": {
                "customer": customer,
                "window": {"start": iso(s.start), "end": iso(s.end)},
                "n": len(s.amounts),
                "spent": sum(s.amounts),
                "most": max(s.amounts),
            }
            for customer, sessions in self.sessions.items()
            for s in sessions
            if closed is None or (s.end <= self.mark) is closed
        }


@pytest.mark.parametrize(("gap_ms", "delay_ms"), [(4_000, 0), (4_000, 9_000), (15_000, 3_000), (1_000, 60_000)])
def test_sessions_are_those_of_the_reference(gap_ms: int, delay_ms: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    randomness = random.Random(seed)
    rows = random_rows(randomness, 100)
    expected = SessionReference(gap_ms, delay_ms)
    for row in rows:
        expected.add(row)
    sessions = session_window("at", f"{gap_ms} milliseconds")
    for emit in ("update", "close"):
        last, outputs, tester = run(job_of(sessions, f"{delay_ms} milliseconds", emit, RESULTS), rows, randomness)
        with tester:
            found = {key: value for key, value in last.items() if value is not None}
            assert found == expected.values(closed=None if emit == "update" else True)
            if emit == "close":
                assert len(outputs) == len(last)  # each once
            assert tester.counts.late == expected.late
            open_ = expected.values(closed=False)
            assert tester.states().keys() == open_.keys()
            for name, state in tester.states().items():
                assert {**state, "window": None, "customer": None} == {**open_[name], "window": None, "customer": None}


@pytest.mark.parametrize("emit", ["update", "close"])
def test_sessions_do_not_depend_on_where_micro_batches_end(emit: Any) -> None:
    rows = random_rows(random.Random(8), 25)
    check_batching(job_of(session_window("at", "4 seconds"), "8 seconds", emit, RESULTS), rows, cuts=3)


def test_two_sessions_that_touch_become_one_and_the_later_ones_record_is_deleted() -> None:
    with JobTester(job_of(session_window("at", "10 seconds"), "1 minute", "update", RESULTS)) as tester:
        tester.pipe_inputs([{"customer": "a", "amount": 1, "at": at} for at in (0, 20_000)])
        assert [o.key for o in tester.read_output()] == ["a@1970-01-01T00:00:00.000Z", "a@1970-01-01T00:00:20.000Z"]
        tester.pipe_input({"customer": "a", "amount": 1, "at": 10_000})
        gone, merged = tester.read_output()
        assert (gone.key, gone.value) == ("a@1970-01-01T00:00:20.000Z", None)
        assert merged.value["window"] == {"start": "1970-01-01T00:00:00.000Z", "end": "1970-01-01T00:00:30.000Z"}
        assert merged.value["n"] == 3


def test_a_store_holds_no_window_that_is_over() -> None:
    with JobTester(job_of(CASES["tumbling"], "0 seconds")) as tester:
        for at in range(0, 400_000, 1_000):
            if at % 50_000 == 0:
                tester.pipe_inputs([{"customer": c, "amount": 1, "at": at + n} for n in range(20) for c in "abcdefgh"])
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert len(list(task.replica.items())) == 8
        states = tester.states()
        tester.promote_standby()
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert len(list(task.replica.items())) == 8
        # Nor does the changelog, but for what the last expiry brought.
        log = tester._log  # noqa: SLF001
        begin, end = log.begin("windows-out-changelog", 0), log.end("windows-state-changelog", 0)
        assert begin > end // 2
        tester.restart(store="empty")
        assert tester.states() == states


@pytest.mark.parametrize("store", ["kept", "empty"])
def test_changelog_is_cut_though_the_owner_changes_with_each_expiry(store: Any) -> None:
    with JobTester(job_of(CASES["tumbling"], "0 seconds")) as tester:
        log, changelog = tester._log, "windows-out-changelog"  # noqa: SLF001
        for begin in range(0, 100_000, 10_000):
            tester.pipe_inputs([{"customer": c, "amount": 1, "at": begin} for c in "abcdefgh"])
            states = tester.states()
            tester.restart(store=store)
            assert tester.states() == states
        assert log.begin(changelog, 0) > log.end(changelog, 0) // 2
        tester.restart(store="empty")
        assert tester.states() == states


@pytest.mark.parametrize(
    "ended_by",
    [
        pytest.param(lambda tester: tester.pipe_input({"k": "b", "at": 90_000, "t": "x"}), id="record"),
        pytest.param(lambda tester: tester.advance_wall_clock("2 minutes"), id="clock"),
    ],
)
@pytest.mark.parametrize("by", [CASES["tumbling"], session_window("at", "10 seconds")], ids=str)
def test_closed_result_that_its_topic_does_not_take_is_named_and_comes_out_once_it_does(
    by: Any, ended_by: Callable[[JobTester], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = "airflow_provider.streaming.planner.stage_spec.MAX_MESSAGE_BYTES"
    schema = "k STRING, at BIGINT, t STRING"
    source = stream("in", schema=schema, key="k", event_time="at", watermark="0 seconds", idle_timeout="1 minute")
    job = job_of_result(source.group_by("k", by).aggregate(F.max("t").alias("t"), emit="close")).on_error("skip")
    named = r"^The result 'a@1970-01-01T00:00:00.000Z' is 1\d,\d+ bytes, and 'out' takes 9,900 at the most"
    with JobTester(job) as tester:
        monkeypatch.setattr(limit, 10_000)
        # Each of these is six characters of JSON, and one byte of the state.
        tester.pipe_input({"k": "a", "at": 0, "t": "\x01" * 2_000})
        with pytest.raises(ConfigurationError, match=named):
            ended_by(tester)
        assert tester.read_output() == []
        monkeypatch.undo()
        tester.restart()
        tester.pipe_input({"k": "c", "at": 90_000, "t": "x"})
        assert [(record.key, len(record.value["t"])) for record in tester.read_output()] == [
            ("a@1970-01-01T00:00:00.000Z", 2_000)
        ]
        assert tester.counts.failed == 0


HOUR = 3_600_000
HOURLY = stream("orders", schema=SCHEMA, key="customer", event_time="at", watermark="0 seconds")


def counted(watermark: str) -> StatefulJob:
    orders = stream("orders", schema=SCHEMA, key="customer", event_time="at", watermark=watermark)
    grouped = orders.group_by("customer", window("at", "1 hour"))
    return job_of_result(grouped.aggregate(F.count().alias("n"), F.sum("amount").alias("s")))


COUNTED = counted("0 seconds")


def order(at: int, customer: str = "a", amount: int | None = 1) -> Row:
    return {"customer": customer, "amount": amount, "at": at}


def test_longer_watermark_reopens_no_window() -> None:
    patient = counted("10 hours")
    with JobTester(COUNTED) as tester:
        tester.pipe_inputs([order(0), order(HOUR)])
        tester.restart(job=patient)
        tester.pipe_inputs([order(1), order(HOUR + 1)])
        assert tester.counts.late == 1
        assert [state["n"] for state in tester.state("a")] == [2]


def test_other_windows_would_misread_the_state() -> None:
    daily = job_of_result(
        HOURLY.group_by("customer", window("at", "1 day")).aggregate(F.count().alias("n"), F.sum("amount").alias("s"))
    )
    with JobTester(COUNTED) as tester:
        tester.pipe_input(order(0))
        with pytest.raises(ConfigurationError, match=r"window\(at, 1 hour\) became window\(at, 1 day\)"):
            tester.restart(job=daily)


@pytest.mark.parametrize(("at", "found"), [(None, "is null"), (10**15, f"is {10**15} ms since 1970")])
def test_record_without_an_event_time_is_a_record_error(at: int | None, found: str) -> None:
    with JobTester(COUNTED) as tester, pytest.raises(RecordError, match=f"the event time {found}"):
        tester.pipe_input({"customer": "a", "amount": 1, "at": at})


def test_record_error_moves_no_time() -> None:
    with JobTester(COUNTED.on_error("skip")) as tester:
        tester.pipe_inputs([order(0), {"customer": None, "amount": 1, "at": 9 * HOUR}, order(1)])
        assert (tester.counts.failed, tester.counts.late) == (1, 0)


@pytest.mark.parametrize(
    "windows", [window("at", "1 hour"), window("at", "1 hour", "30 minutes"), session_window("at", "1 hour")], ids=str
)
def test_value_without_room_in_a_windows_sum_is_an_error_of_its_record(windows: Any) -> None:
    summed = job_of_result(HOURLY.group_by("customer", windows).aggregate(F.sum("amount").alias("s")))
    rows = [order(0, amount=2**62), order(1, amount=2**62), order(2, amount=5)]
    with JobTester(summed) as tester, pytest.raises(ProcessError, match="no room") as caught:
        tester.pipe_inputs(rows)
    assert (caught.value.offset, caught.value.key) == (1, "a")
    with JobTester(summed.on_error("skip")) as tester:
        tester.pipe_inputs(rows)
        assert tester.counts.failed == 1
        assert {state["s"] for state in tester.state("a")} == {2**62 + 5}


def test_time_of_the_record_is_taken_where_no_column_is_named() -> None:
    by_record = StatefulJob(
        "by-record",
        stream("orders", schema="customer STRING", key="customer", watermark="0 seconds")
        .group_by("customer", window("_source.timestamp", "1 hour"))
        .aggregate(F.count().alias("n"), emit="close")
        .sink("out"),
    )
    with JobTester(by_record) as tester:
        tester.pipe_input({"customer": "a"}, timestamp_ms=HOUR - 1)
        assert tester.read_output() == []
        tester.pipe_input({"customer": "b"}, timestamp_ms=HOUR)
        (closed,) = tester.read_output()
        assert (closed.key, closed.value["n"]) == ("a@1970-01-01T00:00:00.000Z", 1)


@pytest.mark.parametrize(
    ("windows", "at"),
    [
        (window("at", "1 hour", "30 minutes"), -62_135_596_800_000),
        (window("at", "1 hour"), 253_402_300_799_999),
        (session_window("at", "1 hour"), 253_402_300_799_999),
    ],
    ids=["begins before year 1", "ends after year 9999", "session"],
)
def test_bound_outside_of_the_years_that_python_has_is_the_text_of_the_output(windows: Any, at: int) -> None:
    job = job_of_result(HOURLY.group_by("customer", windows).aggregate(F.count().alias("n")))
    with JobTester(job) as tester:
        tester.pipe_input(order(at))

        written = {record.key: record.value["window"] for record in tester.read_output()}
        states = tester.states()
        assert tester.state("a") == list(states.values())
        found = {name: state["window"] for name, state in states.items()}
        texts = [bound for bounds in found.values() for bound in bounds.values() if isinstance(bound, str)]
        assert len(texts) == 1
        assert texts[0].startswith(("0000-", "+10000-"))
        assert {
            name: {which: _text(bound) for which, bound in bounds.items()} for name, bounds in found.items()
        } == written


def _text(bound: datetime | str) -> str:
    return bound if isinstance(bound, str) else bound.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sums_in_sessions(watermark: str) -> StatefulJob:
    """It leaves out what it has no room for."""
    return StatefulJob(
        "app",
        stream("in", schema="k STRING, at BIGINT, v BIGINT", key="k", event_time="at", watermark=watermark)
        .group_by("k", session_window("at", "1 hour"))
        .aggregate(F.sum("v").alias("v"))
        .sink("out"),
    ).on_error("skip")


def test_record_that_fails_changes_nothing_for_those_beside_it() -> None:
    """A session, in which what is left out moves no time, and so decides what is late."""
    minute, most = 60_000, 2**63 - 1
    job = sums_in_sessions("0 seconds")
    rows = [
        {"k": "k", "at": 0, "v": most - 1},
        {"k": "k", "at": 22 * minute, "v": 1},
        {"k": "j", "at": 30 * minute, "v": most},
        {"k": "j", "at": 80 * minute, "v": 1},  # no room
        {"k": "k", "at": 10 * minute, "v": -5},  # in time, as the one before is left out
        {"k": "k", "at": 25 * minute, "v": 3},  # so it has room
    ]

    check_batching(job, rows)


def test_record_without_a_time_is_left_out_beside_one_that_fails() -> None:
    most = 2**63 - 1
    job = sums_in_sessions("1 hour")
    rows = [{"k": "k", "at": None, "v": 1}, {"k": "k", "at": 0, "v": most}, {"k": "k", "at": 1, "v": 1}]

    with JobTester(job) as tester:
        tester.pipe_inputs(rows)
        assert tester.counts.failed == 2
    check_batching(job, rows)


def test_lateness_is_that_of_all_rows_which_were_committed_the_late_ones_among_them() -> None:
    job = job_of(window("at", "10 seconds"), "0 seconds").on_error("skip")

    with JobTester(job) as tester:
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert task.status().work.lateness_max_ms is None
        tester.pipe_inputs([{"customer": "a", "amount": 1, "at": at} for at in (20_000, 19_000)])
        tester.pipe_inputs([{"customer": "a", "amount": 1, "at": at} for at in (4_000, 30_000, None)])
        work = task.status().work
        assert tester.counts.late == 2

    assert (work.lateness_avg_ms, work.lateness_max_ms) == ((1_000 + 16_000) / 4, 16_000)


def test_rows_of_which_no_operation_reads_the_time_have_no_lateness() -> None:
    with JobTester(
        job_of_result(stream("orders", schema=SCHEMA, key="customer").group_by("customer").aggregate(*RESULTS))
    ) as tester:
        tester.pipe_inputs([{"customer": "a", "amount": 1, "at": at} for at in (20, 10)])
        (task,) = tester._active.tasks.values()  # noqa: SLF001
        assert task.status().work.lateness_avg_ms is None
