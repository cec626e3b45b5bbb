"""A whole drill, task by task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from airflow_provider.control.records.incident import IncidentKind
from airflow_provider.errors import InstanceError, StateError
from airflow_provider.operators.assignment import AssignTasksOperator, FailOverOperator
from airflow_provider.operators.drill import CheckRecoveryOperator, InjectFaultOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.repair import HistoryOperator, ReportFailOverOperator
from airflow_provider.sensors.figures import StandbyLagSensor
from airflow_provider.sensors.states import FaultEndSensor
from tests.integration.airflow.conftest import make_pair
from tests.integration.airflow.running import caused_by, incident_of, run
from tests.integration.control.writing import Writing
from tests.integration.launch.application import Application


def fail_over(application: Application, given: Any = None) -> Any:
    return run(FailOverOperator(task_id="fail_over", application_id=application.id), given)


def recover(application: Application, kind: str = "crash") -> dict[str, Any]:
    """A drill up to its check: the fault, the failover and the repair."""
    fault: dict[str, Any] = run(InjectFaultOperator(task_id="fault", application_id=application.id, kind=kind))
    (answer,) = run(
        FailOverOperator(task_id="fail_over", application_id=application.id), caused_by(incident_of(application.id))
    )
    if IncidentKind(answer["kind"]).needs_replacement:
        run(DeployInstanceOperator(task_id="again", application_id=application.id, instance=answer["instance"]))
    run(AssignTasksOperator(task_id="assign", application_id=application.id))
    run(StandbyLagSensor(task_id="warm", application_id=application.id))
    run(ReportFailOverOperator(task_id="report", application_id=application.id, incident_id=answer["incident_id"]))
    run(FaultEndSensor(task_id="over", application_id=application.id, fault=fault))
    return fault


def check(application: Application, fault: dict[str, Any]) -> dict[str, Any]:
    reported: dict[str, Any] = run(CheckRecoveryOperator(task_id="check", application_id=application.id, fault=fault))
    return reported


def test_drill_kills_checks_and_reports(application: Application, pair: list[dict[str, Any]]) -> None:
    fault = recover(application)
    # As the repair does at its end: the tasks are with another owner when the check looks.
    run(AssignTasksOperator(task_id="balance", application_id=application.id, balance=True))

    reported = check(application, fault)

    assert fault["instance"] == "a"
    assert reported["progress"]["0_0"] > 0
    assert reported["failover"]["rto_ms"] > 0
    assert reported["failover"]["resolved_at_ms"] >= reported["failover"]["decided_at_ms"]
    assert reported["outputs"] == {"counts": [], "unmeasured": "nothing was committed before the fault"}


@pytest.fixture
def writing(bootstrap_servers: str, application: Application, pair: list[dict[str, Any]]) -> Iterator[Writing]:
    """Commits and outputs of the pair's tasks, which the fake instances do not make."""
    with closing(Writing(bootstrap_servers, application.id)) as writing:
        writing.commit(0, 5)
        yield writing


def test_outputs_of_a_drill_are_counted_and_kept(application: Application, writing: Writing) -> None:
    fault = recover(application)
    writing.commit(0, 3)
    writing.commit(1, 1)

    reported = check(application, fault)

    count = {"topic": writing.sink, "committed": 4, "found": 4, "lost": 0, "settings": ""}
    counted = {"counts": [count], "unmeasured": None}
    assert reported["outputs"] == counted
    (drill,) = run(HistoryOperator(task_id="history", application_id=application.id, kind="drill"))
    assert (drill["outcome"], drill["outputs"]) == ("passed", counted)


@pytest.mark.long
@pytest.mark.parametrize(("found", "why"), [(3, "1 are missing"), (6, "2 are doubled")])
def test_outputs_that_are_missing_or_doubled_fail_the_drill_at_every_try(
    found: int, why: str, application: Application, writing: Writing
) -> None:
    fault = recover(application)
    writing.commit(0, 4, written=found)

    for _ in range(2):
        with pytest.raises(StateError, match=f"holds {found} records since the fault, .* stand for 4: {why}"):
            check(application, fault)
    (drill,) = run(HistoryOperator(task_id="history", application_id=application.id, kind="drill"))
    assert (drill["outcome"], drill["outputs"]["counts"][0]["found"]) == ("failed", found)
    assert why in drill["reason"]


def test_outputs_beside_those_of_other_programs_are_not_counted(application: Application, writing: Writing) -> None:
    drill = InjectFaultOperator(
        task_id="fault", application_id=application.id, kind="standby_lost", instance="b", shared_sink="True"
    )
    fault = run(drill)
    run(FaultEndSensor(task_id="over", application_id=application.id, fault=fault))

    assert check(application, fault)["outputs"]["unmeasured"] == "they were not to be counted"


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "instances", "cause"),
    [
        ("hang", ["a"], "heartbeat_missed"),
        ("store_lost", ["a"], "task_failed"),
        ("store_corrupted", ["a"], "task_failed"),
        ("active_and_standby_lost", ["a", "b"], "task_failed"),
    ],
)
def test_failure_of_each_kind_is_answered_checked_and_kept(
    kind: str, instances: list[str], cause: str, application: Application, pair: list[dict[str, Any]]
) -> None:
    reported = check(application, recover(application, kind))

    assert reported["failover"]["rto_ms"] > 0
    drill, failover = run(HistoryOperator(task_id="history", application_id=application.id))
    assert (drill["cause"], drill["outcome"], drill["instances"]) == (kind, "passed", instances)
    assert (failover["cause"], failover["outcome"]) == (cause, "passed")
    assert drill["predicted_rto_ms"] is not None


@pytest.mark.parametrize(("kind", "records"), [("standby_lost", 3), ("shadow_restore", 7)])
def test_drill_that_needs_no_answer_keeps_what_was_restored(
    kind: str, records: int, application: Application, pair: list[dict[str, Any]]
) -> None:
    fault = run(InjectFaultOperator(task_id="fault", application_id=application.id, kind=kind, instance="b"))
    run(FaultEndSensor(task_id="over", application_id=application.id, fault=fault))

    reported = check(application, fault)

    assert reported["failover"] is None
    assert [(restore["instance"], restore["records"]) for restore in reported["restores"]] == [("b", records)]
    (drill,) = run(HistoryOperator(task_id="history", application_id=application.id))
    assert (drill["cause"], drill["outcome"], drill["restored_records"]) == (kind, "passed", records)


def test_drill_and_its_failover_are_in_the_history_once_however_often_they_are_tried(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    fault = recover(application)
    for _ in range(2):
        check(application, fault)

    drill, failover = run(HistoryOperator(task_id="history", application_id=application.id))

    assert (drill["kind"], drill["outcome"], drill["instances"], drill["id"]) == (
        "drill",
        "passed",
        ["a"],
        fault["id"],
    )
    assert (failover["kind"], failover["outcome"], failover["cause"]) == ("failover", "passed", "instance_ended")
    assert drill["rto"] == failover["rto"]
    assert all(ms is not None for name, ms in drill["rto"].items() if name != "clocks_differ_ms")
    assert drill["rto"]["clocks_differ_ms"] is None
    assert drill["rpo"] == {"lost_records": 0, "doubled_records": 0}
    assert [(decision["task"], decision["action"], decision["to"]) for decision in failover["decisions"]] == [
        ("0_0", "promote", "b")
    ]
    assert [restore["records"] for restore in drill["restores"]] == [3]
    assert (drill["predicted_rto_ms"], failover["predicted_rto_ms"]) == (100 + 3_000 + 500 + 1_000, None)
    assert drill["prediction_error_percent"] is not None
    (record,) = application.view().incidents.values()
    assert record.in_history


def test_answer_that_is_not_repaired_yet_is_open_in_the_history(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    run(InjectFaultOperator(task_id="fault", application_id=application.id))
    fail_over(application, caused_by(incident_of(application.id)))

    records = run(HistoryOperator(task_id="history", application_id=application.id))

    assert sorted((record["kind"], record["outcome"]) for record in records) == [
        ("drill", "open"),
        ("failover", "open"),
    ]


def test_owner_that_lost_commits_fails_the_check_at_every_try(application: Application, deploy: Any) -> None:
    make_pair(application, deploy, env_vars={"LOSE_COMMITS": "1"})
    fault = recover(application)

    for _ in range(2):
        with pytest.raises(StateError, match="and it went on at 5: commits were lost"):
            check(application, fault)
    (drill,) = run(HistoryOperator(task_id="history", application_id=application.id, kind="drill"))
    assert (drill["outcome"], drill["rpo"]["doubled_records"] > 0) == ("failed", True)
    assert "commits were lost" in drill["reason"]


@pytest.mark.long
def test_drill_without_input_is_not_passed(application: Application, deploy: Any) -> None:
    make_pair(application, deploy, env_vars={"NO_INPUT": "0_0,0_1"})
    fault = recover(application)

    with pytest.raises(InstanceError, match="Nothing was measured"):
        check(application, fault)
    (drill,) = run(HistoryOperator(task_id="history", application_id=application.id, kind="drill"))
    assert (drill["outcome"], drill["rto"]["total_ms"]) == ("skipped", None)


@pytest.mark.long
def test_task_without_input_is_named_and_the_drill_is_judged_by_the_others(
    application: Application, deploy: Any
) -> None:
    make_pair(application, deploy, env_vars={"NO_INPUT": "0_0"})
    # Both tasks on one, so that one of two is measured.
    run(AssignTasksOperator(task_id="one", application_id=application.id, instances=["a"]))
    run(AssignTasksOperator(task_id="both", application_id=application.id))
    run(StandbyLagSensor(task_id="warm", application_id=application.id))
    fault = recover(application)

    told = check(application, fault)

    assert fault["instance"] == "a"
    assert told["failover"]["without_input"] == ["0_0"]
    assert told["failover"]["rto_ms"] > 0
