from __future__ import annotations

import dataclasses

import msgspec
import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.predicted_rto import measured_rto_ms
from airflow_provider.control.records.history import (
    HISTORY_FORMAT,
    HistoryKind,
    HistoryOutcome,
    HistoryRecord,
    OutputCheck,
    OutputCount,
    Rpo,
    RtoParts,
    history_key,
    history_plain,
    history_value,
    read_history_value,
)
from airflow_provider.control.records.incident import Action, Decision
from airflow_provider.control.records.task_state import TaskRestore
from tests.builders import APPLICATION

TASK = TaskId(0, 3)
DRILL = HistoryRecord(
    application_id=APPLICATION,
    kind=HistoryKind.DRILL,
    id="orders_drill_crash/run-1/inject_fault/-1",
    cause="crash",
    at_ms=1_000,
    ended_at_ms=9_000,
    by="run-1",
    outcome=HistoryOutcome.PASSED,
    instances=("a",),
    tasks=(TASK,),
    decisions=(Decision(task=TASK, action=Action.PROMOTE, to="b", evidence="b: lag 0"),),
    evidence="killed by signal 9",
    rto=RtoParts(detected_ms=100, decided_ms=900, owned_ms=200, first_output_ms=800, total_ms=2_000),
    rpo=Rpo(lost_records=0, doubled_records=0),
    restores=(
        TaskRestore(task=TASK, instance="b", records=300, bytes=9_000, took_s=0.5),
        TaskRestore(task=TaskId(0, 4), instance="b", records=100, bytes=1_000, took_s=0.5),
    ),
    slo_rto_s=2.0,
    predicted_rto_ms=2_500,
    outputs=OutputCheck(counts=(OutputCount(topic="out", committed=3, found=3),)),
)
PLAIN_ONE = HistoryRecord(
    application_id=APPLICATION, kind=HistoryKind.RESTORE, id="r", cause="replay", at_ms=5, by="run-2"
)


@pytest.mark.parametrize("record", [DRILL, PLAIN_ONE], ids=["all-fields", "defaults"])
def test_record_is_read_as_it_was_written(record: HistoryRecord) -> None:
    assert read_history_value(history_value(record)) == record


def test_key_is_of_kind_and_id_so_that_a_retry_overwrites() -> None:
    retried = dataclasses.replace(DRILL, outcome=HistoryOutcome.FAILED, ended_at_ms=99_000)

    assert history_key(DRILL) == history_key(retried) == b"drill/orders_drill_crash/run-1/inject_fault/-1"
    assert history_key(dataclasses.replace(DRILL, kind=HistoryKind.FAILOVER)) != history_key(DRILL)


def test_fields_that_a_newer_version_added_are_skipped() -> None:
    newer = {**msgspec.json.decode(history_value(DRILL)), "colour": "blue"}

    assert read_history_value(msgspec.json.encode(newer)) == DRILL


def test_newer_format_is_refused_with_what_to_do() -> None:
    newer = {**msgspec.json.decode(history_value(DRILL)), "format": HISTORY_FORMAT + 1}

    with pytest.raises(msgspec.ValidationError, match=r"found format 2, this version reads up to 1: .* upgrade"):
        read_history_value(msgspec.json.encode(newer))


def test_json_has_what_follows_from_the_fields() -> None:
    plain = history_plain(DRILL)

    assert (plain["slo_met"], plain["prediction_error_percent"]) == (True, 25.0)
    assert (plain["restored_records"], plain["restored_bytes"], plain["restored_records_per_s"]) == (400, 10_000, 400.0)
    assert plain["decisions"][0] | {"evidence": ""} == {
        "task": "0_3",
        "action": "promote",
        "to": "b",
        "evidence": "",
        "no_candidate": False,
        "overloaded": False,
    }


@pytest.mark.parametrize(
    ("total_ms", "slo_rto_s", "met"),
    [(2_000, 2.0, True), (2_001, 2.0, False), (None, 2.0, None), (2_000, None, None)],
)
def test_slo_is_met_by_what_was_measured(total_ms: int | None, slo_rto_s: float | None, met: bool | None) -> None:
    assert dataclasses.replace(PLAIN_ONE, rto=RtoParts(total_ms=total_ms), slo_rto_s=slo_rto_s).slo_met is met


def test_output_before_the_failure_is_no_measured_rto_but_clocks_that_differ() -> None:
    record = dataclasses.replace(PLAIN_ONE, rto=RtoParts(total_ms=-1_787_000), slo_rto_s=15.0)
    read = read_history_value(history_value(record))
    older = msgspec.json.decode(history_value(record))
    older["rto"] |= {"total_ms": -1_787_000, "clocks_differ_ms": None}

    for one in (record, read, read_history_value(msgspec.json.encode(older))):
        assert (one.rto.total_ms, one.rto.clocks_differ_ms, one.slo_met) == (None, 1_787_000, None)
        assert one.prediction_error_percent is None
        assert measured_rto_ms([one]) == {}


def test_little_by_which_clocks_may_differ_is_no_reason_to_measure_nothing() -> None:
    assert RtoParts(total_ms=-900) == RtoParts(total_ms=-900, clocks_differ_ms=None)


@pytest.mark.parametrize(
    ("predicted_ms", "total_ms", "error"),
    [(1_500, 2_000, -25.0), (2_000, 2_000, 0.0), (None, 2_000, None), (2_000, None, None), (2_000, 0, None)],
)
def test_prediction_is_scored_by_what_was_measured(
    predicted_ms: int | None, total_ms: int | None, error: float | None
) -> None:
    record = dataclasses.replace(PLAIN_ONE, rto=RtoParts(total_ms=total_ms), predicted_rto_ms=predicted_ms)

    assert record.prediction_error_percent == error


def test_long_texts_are_cut() -> None:
    record = dataclasses.replace(PLAIN_ONE, evidence="e" * 100_000, reason="r" * 100_000)

    assert len(history_value(record)) < 10_000
