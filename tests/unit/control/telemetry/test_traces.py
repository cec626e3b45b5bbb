"""The trace of a failover: its parts, its ids, and that it is sent until it is taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord, RtoParts
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.control.telemetry.otlp import OtlpSpans
from airflow_provider.control.telemetry.traces import Span, TracePush, spans_of
from tests.otlp_receiver import otlp_receiver

T = 1_800_000_000_000
RESTORES = tuple(
    TaskRestore(task=TaskId(0, number), instance="b", records=10, bytes=100, took_s=took_s)
    for number, took_s in ((0, 0.2), (1, 0.05))
)
FAILOVER = HistoryRecord(
    application_id="app",
    kind=HistoryKind.FAILOVER,
    id="a/1/1",
    cause="instance_ended",
    at_ms=T,
    ended_at_ms=T + 9_000,
    by="run",
    outcome=HistoryOutcome.PASSED,
    instances=("a",),
    tasks=(TaskId(0, 0), TaskId(0, 1)),
    evidence="killed",
    rto=RtoParts(detected_ms=300, decided_ms=100, owned_ms=400, first_output_ms=500, total_ms=1_300),
    restores=RESTORES,
)


def parts(record: HistoryRecord) -> list[tuple[str, int, int]]:
    root, *inner = spans_of(record)
    return [(span.name, span.begin_ms - T, span.end_ms - T) for span in inner if span.parent == root.id]


def test_parts_of_a_failover_follow_each_other_from_its_failure_to_its_repair() -> None:
    root = spans_of(FAILOVER)[0]

    assert (root.name, root.begin_ms, root.end_ms, root.parent) == ("failover app", T, T + 9_000, None)
    assert parts(FAILOVER) == [
        ("detected", 0, 300),
        ("decided", 300, 400),
        ("owned", 400, 800),
        ("restored", 800, 1_000),
        ("first output", 1_000, 1_300),
        ("repaired", 1_300, 9_000),
    ]
    assert root.attributes["rto_ms"] == 1_300
    assert root.error is None


def test_restore_of_each_task_lies_within_that_part() -> None:
    spans = {span.name: span for span in spans_of(FAILOVER)}

    assert spans["restore 0_0"].parent == spans["restore 0_1"].parent == spans["restored"].id
    assert spans["restore 0_1"].end_ms == T + 850
    assert spans["restore 0_0"].attributes == {"instance": "b", "records": 10, "bytes": 100}


@pytest.mark.parametrize(
    ("rto", "expected"),
    [
        pytest.param(
            RtoParts(decided_ms=100, owned_ms=400, first_output_ms=500),
            ["decided", "owned", "restored", "first output", "repaired"],
            id="failure-not-timed",
        ),
        pytest.param(
            RtoParts(detected_ms=300, decided_ms=100, owned_ms=400), ["detected", "decided", "owned"], id="idle"
        ),
        pytest.param(RtoParts(detected_ms=300, owned_ms=4), ["detected"], id="gap"),
        pytest.param(RtoParts(), [], id="nothing"),
    ],
)
def test_what_is_not_known_has_no_span_nor_has_what_follows(rto: RtoParts, expected: list[str]) -> None:
    assert [name for name, *_ in parts(dataclasses.replace(FAILOVER, rto=rto))] == expected


def test_clocks_that_differ_turn_no_span_around() -> None:
    rto = RtoParts(detected_ms=-40, decided_ms=100, owned_ms=-30, first_output_ms=500)
    spans = spans_of(dataclasses.replace(FAILOVER, rto=rto, ended_at_ms=T - 5))

    assert all(span.begin_ms <= span.end_ms for span in spans)
    inner = [span for span in spans if span.parent == spans[0].id]
    assert all(before.end_ms == after.begin_ms for before, after in pairwise(inner))


def test_restore_that_was_asked_for_has_one_part_and_says_why_it_failed() -> None:
    failed = dataclasses.replace(
        FAILOVER, kind=HistoryKind.RESTORE, outcome=HistoryOutcome.FAILED, reason="the disk is full"
    )

    root, restored, *_ = spans_of(failed)

    assert (root.name, root.error, restored.name) == ("restore app", "the disk is full", "restored")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(dataclasses.replace(FAILOVER, ended_at_ms=None), id="open"),
        pytest.param(dataclasses.replace(FAILOVER, kind=HistoryKind.DRILL), id="drill"),
        pytest.param(dataclasses.replace(FAILOVER, kind=HistoryKind.UPGRADE), id="upgrade"),
    ],
)
def test_what_has_not_ended_and_what_is_no_failover_has_no_trace(record: HistoryRecord) -> None:
    assert spans_of(record) == ()


def test_ids_are_the_same_for_the_same_record_and_for_no_other() -> None:
    again = spans_of(dataclasses.replace(FAILOVER, evidence="told again"))
    others = [
        spans_of(dataclasses.replace(FAILOVER, **changed))
        for changed in ({"id": "a/2/1"}, {"application_id": "b"}, {"kind": HistoryKind.RESTORE})
    ]

    assert [span.id for span in again] == [span.id for span in spans_of(FAILOVER)]
    assert len({span.id for span in again}) == len(again)
    assert len({spans[0].trace_id for spans in (again, *others)}) == 4


class Sender:
    """Takes spans, unless told to refuse."""

    def __init__(self) -> None:
        self.sent: list[Sequence[Span]] = []
        self.refuses = False

    def send(self, spans: Sequence[Span]) -> None:
        if self.refuses:
            raise OSError("refused")
        if spans:
            self.sent.append(spans)


def pushing(sender: Sender, *records: HistoryRecord) -> tuple[TracePush, Callable[[HistoryRecord], None]]:
    kept = list(records)
    return TracePush(60.0, lambda _: kept, lambda: sender.send), kept.append


def test_trace_is_sent_once_and_again_after_a_restart_with_the_same_ids() -> None:
    sender = Sender()
    push, _ = pushing(sender, FAILOVER)
    push.look()
    push.look()
    assert len(sender.sent) == 1

    pushing(sender, FAILOVER)[0].look()

    first, second = sender.sent
    assert first == second


def test_trace_that_is_not_taken_is_sent_again_and_holds_back_no_other() -> None:
    sender = Sender()
    push, note = pushing(sender, FAILOVER)
    sender.refuses = True
    with pytest.raises(OSError, match="refused"):
        push.look()
    note(dataclasses.replace(FAILOVER, id="b/1/1"))
    sender.refuses = False

    push.look()
    push.look()

    assert [spans[0].attributes["incident.id"] for spans in sender.sent] == ["a/1/1", "b/1/1"]


def test_trace_that_nobody_ever_takes_holds_back_no_other() -> None:
    sender, bad = Sender(), dataclasses.replace(FAILOVER, id="bad/1/1")

    def send(spans: Sequence[Span]) -> None:
        if spans[0].attributes["incident.id"] == bad.id:
            raise OSError("too large")
        sender.send(spans)

    push = TracePush(60.0, lambda _: [bad, FAILOVER], lambda: send)
    for _ in range(2):
        with pytest.raises(OSError, match="too large"):
            push.look()

    assert [spans[0].attributes["incident.id"] for spans in sender.sent] == [FAILOVER.id]


def test_record_that_was_completed_is_sent_again_under_the_same_ids() -> None:
    sender, kept = Sender(), [dataclasses.replace(FAILOVER, rto=RtoParts(detected_ms=300))]
    push = TracePush(60.0, lambda _: kept, lambda: sender.send)
    push.look()
    kept[0] = FAILOVER
    push.look()

    short, whole = sender.sent
    assert {span.id for span in short} < {span.id for span in whole}


def test_receiver_gets_one_trace_with_its_parts_in_the_form_of_the_protocol() -> None:
    with otlp_receiver() as receiver:
        OtlpSpans(f"{receiver.endpoint}/v1/traces").send(spans_of(FAILOVER))

        (request,) = receiver.traces
    spans = request.resource_spans[0].scope_spans[0].spans
    (root,) = [span for span in spans if not span.parent_span_id]
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert root.name == "failover app"
    assert root.start_time_unix_nano == T * 1_000_000
    assert [span.name for span in spans if span.parent_span_id == root.span_id] == [
        name for name, *_ in parts(FAILOVER)
    ]
