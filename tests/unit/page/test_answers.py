from __future__ import annotations

import dataclasses
import json

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.outlook.slo import Slo
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.verdict import Step
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord, RtoParts
from airflow_provider.control.records.incident import IncidentRecord, Watcher
from airflow_provider.control.records.job_description import JobDescription, StageDescription
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics
from airflow_provider.control.records.status import InstanceState, RestorePhase, Role, TaskState
from airflow_provider.control.topics.view import ControlView
from airflow_provider.page.answers import card, details, not_safe_since_ms, timeline, trend, unknown_card
from airflow_provider.page.applications import Application
from tests.builders import APPLICATION, active, assigned, ended, instance, promoted, standby, view_of

ORDERS = Application(
    id=APPLICATION,
    dags={"failover": f"{APPLICATION}_failover", "drill_crash": f"{APPLICATION}_drill_crash"},
    slo=Slo(rto_s=20),
)
WATCHER = Watcher(application_id=APPLICATION, host="h9", pid=5, began_at_ms=1_000, sent_at_ms=1_000)
MARKUP = "<img src=x onerror=alert(1)>"


def state_of(
    view: ControlView, silent: tuple[str, ...] = (), *, history: tuple[HistoryRecord, ...] = ()
) -> ApplicationState:
    view.watcher = WATCHER
    return ApplicationState(view, silent, watched=True, history=history)


def whole() -> ControlView:
    return view_of(
        assigned("a b", "b a"),
        instance("a", active(0, records_per_s=5.0, stalled_s=0.0, source_lag=3), standby(1), host="h1"),
        instance("b", active(1, records_per_s=2.5, stalled_s=0.0, source_lag=4), standby(0, lag_records=9)),
    )


def drill(at_ms: int, outcome: HistoryOutcome, by: str = "scheduled__1") -> HistoryRecord:
    return HistoryRecord(
        application_id=APPLICATION, kind=HistoryKind.DRILL, id=f"d{at_ms}", cause="crash", at_ms=at_ms, by=by,
        outcome=outcome, rto=RtoParts(detected_ms=10, decided_ms=2_000, owned_ms=300, total_ms=3_000), slo_rto_s=20.0,
    )  # fmt: skip


def test_card_of_a_whole_application_has_its_figures_and_nothing_to_do() -> None:
    history = (drill(1, HistoryOutcome.PASSED), drill(2, HistoryOutcome.SKIPPED))

    found = card(ORDERS, state_of(whole(), history=history), history)

    assert (found["word"], found["reasons"], found["since_ms"]) == ("safe", [], None)
    assert (found["source_lag_records"], found["records_per_s"], found["standby_lag_records"]) == (7, 7.5, 9)
    assert (found["standbys_warm"], found["standbys"], found["slo_rto_ms"]) == (2, 2, 20_000)
    assert found["predicted_rto_ms"] > 0
    assert found["last_drill"]["outcome"] == "passed"


def test_figures_that_nobody_reports_are_not_known() -> None:
    found = card(ORDERS, state_of(view_of(None)), ())

    assert (found["source_lag_records"], found["predicted_rto_ms"], found["last_drill"]) == (None, None, None)
    assert found["reasons"][0]["text"] == "nothing is assigned yet"


def test_what_waits_for_a_task_that_nobody_works_for_is_not_called_nothing() -> None:
    view = whole()
    view.statuses["b"] = instance("b", state=InstanceState.ENDED)

    found = card(ORDERS, state_of(view), ())
    (stage,) = details(state_of(view))["stages"]

    assert (found["source_lag_records"], found["source_lag_unknown"]) == (3, 1)
    assert (stage["source_lag_records"], stage["source_lag_unknown"]) == (3, 1)


def test_record_counts_once_however_many_stages_it_goes_through() -> None:
    view = view_of(
        assigned("a", "a"),
        instance(
            "a",
            active(0, records_per_s=5.0),
            dataclasses.replace(active(0, records_per_s=5.0), task=TaskId(1, 0)),
        ),
    )
    first = StageDescription(number=0, name="clean", source="in", steps=(), key="k", operation="", output="app-inner")
    second = dataclasses.replace(first, number=1, name="count", source="app-inner", output="out")
    view.job = JobDescription(application_id=APPLICATION, stages=(first, second), topics=())
    figures = dataclasses.replace(minute(60_000, 0).tasks[0], task=TaskId(1, 0))
    inner = [dataclasses.replace(minute(at, n), tasks=(figures,)) for at, n in ((60_000, 0), (120_000, 600))]

    assert card(ORDERS, state_of(view), ())["records_per_s"] == 5.0
    assert "records_per_s" not in trend(ORDERS, view.job, inner, (), 200_000)["points"][-1]


def test_what_a_failure_costs_is_not_foretold_where_nobody_would_answer_it() -> None:
    state = ApplicationState(whole(), watched=False)

    assert card(ORDERS, state, ())["predicted_rto_ms"] is None


def test_time_in_which_nobody_answered_is_a_part_of_the_bar() -> None:
    parts = RtoParts(detected_ms=None, decided_ms=None, owned_ms=300, first_output_ms=2_000, total_ms=66_000)
    record = dataclasses.replace(drill(1, HistoryOutcome.PASSED), rto=parts)

    (event,) = timeline(ORDERS, None, (record,))

    assert event["phases_ms"] == [("not answered", 63_700), ("owned", 300), ("first output", 2_000)]


def test_card_says_the_first_reason_with_its_step_and_how_many_there_are_more() -> None:
    view = whole()
    failed = [
        dataclasses.replace(active(n, TaskState.FAILED, error=f"{MARKUP} {n}", error_kind="DecodeError"))
        for n in (0, 1)
    ]
    view.statuses |= {"a": instance("a", failed[0], standby(1)), "b": instance("b", failed[1], standby(0))}

    found = card(ORDERS, state_of(view), ())

    (reason,) = found["reasons"]
    assert (found["word"], reason["step"], found["more_reasons"]) == ("standing still", Step.RECORD_ERROR.value, 0)
    assert reason["step_title"] == "A task failed with a record error"
    assert MARKUP in reason["text"]


def test_application_that_cannot_be_read_is_neither_safe_nor_red() -> None:
    found = unknown_card(ORDERS, "no broker answers", Step.BROKERS)

    assert (found["word"], found["reasons"][0]["step_title"]) == ("unknown", "Brokers away")


def test_cells_are_the_assigned_copies_and_one_that_is_missing_is_said() -> None:
    view = whole()
    restoring = dataclasses.replace(
        active(0, TaskState.RESTORING, restore_phase=RestorePhase.CHANGELOG, restored_records=30), lag_records=90
    )
    view.statuses["a"] = instance("a", restoring)

    (stage,) = details(state_of(view))["tasks_by_stage"]

    first, second = stage["tasks"]
    assert [(copy["instance"], copy["state"]) for copy in first["copies"]] == [("a", "restoring"), ("b", "warm")]
    assert first["copies"][0]["restored_share"] == 0.25
    assert [(copy["instance"], copy["state"]) for copy in second["copies"]] == [
        ("b", "running"),
        ("a", "not reported yet"),
    ]

    view.statuses["a"] = instance("a", state=InstanceState.ENDED)
    (stage,) = details(state_of(view))["tasks_by_stage"]
    assert stage["tasks"][1]["copies"][1]["state"] == "missing"


def test_silent_instance_is_shown_as_such_with_its_tasks() -> None:
    found = details(state_of(whole(), ("a",)))

    assert [(host["instance"], host["lives"]) for host in found["hosts"]] == [("a", False), ("b", True)]
    assert found["tasks_by_stage"][0]["tasks"][0]["copies"][0]["state"] == "silent"
    assert [reason["means"] for reason in found["reasons"]] == ["standing still"]


def test_it_is_not_safe_since_what_was_noted_first_however_often_it_is_noted_anew() -> None:
    view = whole()
    view.statuses["a"] = instance("a", state=InstanceState.ENDED, error="killed")
    assert not_safe_since_ms(state_of(whole()), 500) is None

    first = not_safe_since_ms(state_of(view))
    view.heard_at_ms["a"] = 5_000

    assert (first, not_safe_since_ms(state_of(view), first), not_safe_since_ms(state_of(view))) == (1_000, 1_000, 5_000)


def test_it_is_not_safe_since_what_came_after_it_was_safe_last() -> None:
    view = whole()
    old = dataclasses.replace(incident(), failed_at_ms=200, decided_at_ms=300)
    view.incidents[old.incident.id] = old
    view.statuses["a"] = instance("a", state=InstanceState.ENDED, error="killed")

    assert not_safe_since_ms(state_of(view)) == 200, "nobody looked before"
    assert not_safe_since_ms(state_of(view), None, 900) == 1_000
    paused = dataclasses.replace(state_of(whole()), paused_dags=("app_failover",))
    assert not_safe_since_ms(paused, None, 900) == 900, "of what has no time of its own"


def test_paused_dags_that_repair_are_said_before_a_failure_shows_them() -> None:
    found = card(ORDERS, dataclasses.replace(state_of(whole()), paused_dags=("app_failover", "app_repair")), ())

    (reason,) = found["reasons"]
    assert (found["word"], reason["step_title"]) == ("degraded", "No failover run")
    assert "app_failover, app_repair" in reason["text"]


def test_while_a_task_stands_still_no_figure_says_what_a_failure_costs() -> None:
    history = (failover_record(incident(1_000)),)
    view = whole()
    assert card(ORDERS, state_of(view, history=history), ())["predicted_rto_ms"] is not None

    view.statuses["a"] = instance("a", active(0, TaskState.FAILED, error="no"), standby(1))

    assert card(ORDERS, state_of(view, history=history), ())["predicted_rto_ms"] is None


def test_graph_leads_from_sources_by_internal_topics_to_sinks() -> None:
    stages = (
        StageDescription(number=0, name="split", source="in", steps=("s",), key="k", operation="o", output="between"),
        StageDescription(
            number=1, name="sum", source="between", steps=(), key="k", operation="o", store="t", output="out"
        ),
    )
    view = whole()
    view.job = JobDescription(application_id=APPLICATION, stages=stages, topics=())

    found = details(state_of(view))

    assert {(edge["topic"], edge["of"], edge["to"]) for edge in found["edges"]} == {
        ("in", None, 0), ("between", 0, 1), ("out", 1, None)
    }  # fmt: skip
    assert [(stage["name"], stage["records_per_s"]) for stage in found["stages"]] == [("split", 7.5), ("sum", 0)]


def incident(resolved_at_ms: int | None = None) -> IncidentRecord:
    return IncidentRecord(
        incident=ended("a", 0), answered_by="run1", answered_by_dag=f"{APPLICATION}_failover", detected_at_ms=1_100,
        decided_at_ms=1_500, generation=2, plan=(promoted(0, "b"),), failed_at_ms=1_000, resolved_at_ms=resolved_at_ms,
    )  # fmt: skip


def test_failover_under_way_is_on_the_time_line_before_the_history_has_it() -> None:
    view = view_of(
        assigned("b", generation=2), instance("b", active(0, generation=2, owned_at_ms=1_700, first_commit_at_ms=None))
    )
    view.incidents = {"i": incident()}

    (event,) = timeline(ORDERS, view, ())

    assert event["phases_ms"] == [("detected", 100), ("decided", 400), ("owned", 200)]
    assert (event["outcome"], event["dag_id"], event["run_id"]) == ("open", f"{APPLICATION}_failover", "run1")


def test_failover_is_over_on_the_time_line_as_soon_as_it_is_though_the_history_is_read_later() -> None:
    view = view_of(assigned("b", generation=2), instance("b", active(0, generation=2, owned_at_ms=1_700)))
    view.incidents = {"i": incident(resolved_at_ms=9_000)}
    noted = failover_record(incident())

    (event,) = timeline(ORDERS, view, (noted,))

    assert (noted.outcome, event["outcome"]) == (HistoryOutcome.OPEN, "passed")


@pytest.mark.parametrize("by", ["command-line-5", "watcher/host/5"])
def test_history_is_the_newest_first_and_who_is_no_run_has_none(by: str) -> None:
    history = (drill(1, HistoryOutcome.PASSED), drill(2, HistoryOutcome.FAILED, by=by))

    newest, oldest = timeline(ORDERS, None, history)

    assert (newest["at_ms"], newest["run_id"]) == (2, None)
    assert (oldest["run_id"], oldest["dag_id"], oldest["slo_met"]) == ("scheduled__1", ORDERS.dags["drill_crash"], True)


def minute(at_ms: int, processed: int, incarnation: int = 1) -> MetricsRecord:
    task = TaskMetrics(
        task=TaskId(0, 0), role=Role.ACTIVE, state=TaskState.RUNNING, processed_records=processed, source_lag_records=4
    )
    return MetricsRecord(application_id=APPLICATION, instance="a", incarnation=incarnation, at_ms=at_ms, tasks=(task,))


def test_rate_of_a_minute_is_what_was_processed_since_the_one_before_by_the_same_process() -> None:
    records = [minute(60_000, 0), minute(120_000, 600), minute(180_000, 50, incarnation=2)]

    found = trend(ORDERS, None, records, (), 200_000)
    points = found["points"]

    assert [(point["at_ms"], point["records_per_s"]) for point in points] == [
        (60_000, 0), (120_000, 10.0), (180_000, 0)
    ]  # fmt: skip
    assert {point["source_lag_records"] for point in points} == {4}
    assert found["ahead"] == ["no forecast yet of 2 more: there are too few records"]


def test_task_that_moves_within_a_minute_is_counted_once_in_it_and_so_are_two_looks_at_a_disk() -> None:
    moved = dataclasses.replace(minute(125_000, 0), instance="b")
    records = [minute(60_001, 0), minute(120_000, 600), minute(179_999, 1_200), moved]
    records = [dataclasses.replace(record, disk_used_bytes=100) for record in records]

    last = trend(ORDERS, None, records, (), 200_000)["points"][-1]

    assert (last["source_lag_records"], last["disk_used_bytes"], round(last["records_per_s"])) == (4, 200, 10)


def test_copy_that_is_not_assigned_is_no_warm_standby() -> None:
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b"), instance("c", standby(0)))

    found = card(ORDERS, state_of(view), ())

    assert (found["standbys_warm"], found["standbys"]) == (0, 1)


def test_all_of_it_is_json() -> None:
    state = state_of(whole(), history=(drill(1, HistoryOutcome.PASSED),))

    assert json.loads(json.dumps({**card(ORDERS, state, state.history), **details(state)}))["id"] == APPLICATION
