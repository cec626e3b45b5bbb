"""DAGs in a real Airflow: started as people do, with a form, by the API, in a role; and parts of it are killed."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome
from airflow_provider.control.records.incident import IncidentKind
from airflow_provider.demo.errors import DemoError
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.topic_admin import TopicAdmin
from tests.dags.stage import ORDERS as ID
from tests.dags.stage import SURVIVOR, Stage, run_stage
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("airflow")]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with run_stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture(scope="module")
def survivor(stage: Stage) -> Stage:
    """The other application of the same Airflow, deployed."""
    survivor = dataclasses.replace(stage, id=SURVIVOR)
    survivor.run("op", "deploy")
    assert survivor.running() == ["a", "b"]
    return survivor


@pytest.mark.parametrize(
    "name", ["deploy", "drill_crash", "upgrade", "scale", "operate", "reset", "failover", "repair"]
)
def test_viewer_starts_nothing(stage: Stage, name: str) -> None:
    viewer = stage.as_role("viewer")
    before = viewer.runs(f"{ID}_{name}")

    with pytest.raises(DemoError, match="answered 403"):
        viewer.trigger(f"{ID}_{name}", "viewers", {})

    assert viewer.runs(f"{ID}_{name}") == before


@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param("scale", {"instances": ["z"]}, id="scale-to-an-unknown-instance"),
        pytest.param("operate", {"action": "stop", "instances": []}, id="stop-none"),
        pytest.param("operate", {"action": "delete"}, id="unknown-action"),
        pytest.param("upgrade", {"dry_run": "perhaps"}, id="no-flag"),
        pytest.param("drill_crash", {"instance": "z"}, id="drill-of-an-unknown-instance"),
        pytest.param("deploy", {"start_timeout_s": 0}, id="no-time"),
    ],
)
def test_form_that_cannot_be_meant_is_refused_by_the_api(stage: Stage, name: str, form: dict[str, Any]) -> None:
    with pytest.raises(DemoError, match="answered 400"):
        stage.client.trigger(f"{ID}_{name}", "wrong", form)


def test_monitor_is_skipped_before_the_first_deployment(stage: Stage) -> None:
    tasks = stage.run("user", "monitor")

    assert {task["state"] for task in tasks.values()} == {"skipped"}


def test_editor_is_told_that_connections_are_the_operators(stage: Stage) -> None:
    with pytest.raises(DemoError, match="answered 403"):
        stage.as_role("user").connections()

    assert isinstance(stage.as_role("op").connections(), list)


def test_editor_leads_an_application_through_its_life(stage: Stage) -> None:
    stage.run("user", "deploy")
    assert stage.running() == ["a", "b", "c"]
    again = stage.run("op", "deploy")
    assert {task["try_number"] for task in again.values()} == {1}
    stage.run("user", "scale", instances=["a", "b"])
    assert (stage.running(), stage.places()) == (["a", "b"], ["a b", "b a"])

    # A list that was cleared in the browser is null.
    stage.run("user", "drill_crash", instance="a", blackout=None)
    wait_until(lambda: stage.ended("repair"), 300, "the repair to end", poll_s=0.5)
    assert {run["state"] for dag in ("failover", "repair") for run in stage.client.runs(f"{ID}_{dag}")} == {"success"}
    assert stage.outcome_of_newest("failover", "fail_over").startswith("a instance_ended: 1 to b, decided after ")
    assert stage.outcome_of_newest("repair", "report").startswith("a instance_ended: output again after ")
    drills = [one.outcome for one in read_history(stage.connection, ID) if one.kind is HistoryKind.DRILL]
    assert drills == [HistoryOutcome.PASSED]
    stage.run("user", "monitor")

    stage.run("user", "operate", action="certify_standbys", tasks=None)

    dry = stage.run("user", "upgrade", dry_run=True)
    assert {task["state"] for name, task in dry.items() if name.startswith("upgrade_")} == {"success"}
    stage.run("user", "upgrade")
    stage.run("user", "operate", action="stop", instances=["b"])
    assert stage.running() == ["a"]
    stage.run("user", "reset", "failed", confirm=ID)
    stage.run("user", "operate", action="stop")
    stage.run("user", "reset", "failed", confirm="another")
    listed = stage.run("user", "reset")
    assert listed["delete_topics"]["state"] == "skipped"
    stage.run("user", "reset", confirm=ID)
    assert {name for name in TopicAdmin(stage.connection).names() if name.startswith(f"{ID}-")} == {f"{ID}-history"}
    stage.run("user", "monitor")


@pytest.mark.parametrize("parts", [("scheduler", "triggerer")], ids=["scheduler-and-triggerer"])
def test_restart_in_the_middle_of_a_failover_changes_nothing(stage: Stage, parts: tuple[str, ...]) -> None:
    stage.run("op", "deploy")
    before = stage.view().statuses["a"]
    tenant = stage.broker.folder.living_tenant()
    assert tenant is not None
    # Nobody can decide while the brokers stand still: so the task is sure to be in its middle.
    tenant.leader.signal_group(signal.SIGSTOP)
    try:
        os.killpg(os.getpgid(before.process.pid), signal.SIGKILL)
        stage.client.trigger(f"{ID}_failover", "in-the-middle", {})
        wait_until(lambda: stage.fail_over("in-the-middle")["state"] == "running", 240, "it to decide", poll_s=0.2)
        for part in parts:
            stage.service.kill(part)
    finally:
        tenant.leader.signal_group(signal.SIGCONT)
    for part in parts:
        stage.service.start_again(part)

    def whole() -> bool:
        try:
            view = stage.view()
        except BrokerUnreachableError:  # what stood still is fenced for a moment
            return False
        return (
            view.assignment is not None
            and view.statuses["a"].incarnation > before.incarnation
            and all(task.active and task.standbys for task in view.assignment.tasks.values())
            and all(record.resolved_at_ms is not None for record in view.incidents.values())
        )

    wait_until(whole, 400, "the application to be whole again", poll_s=0.5)
    wait_until(lambda: stage.ended("failover") and stage.ended("repair"), 300, "all runs to end", poll_s=0.5)
    assert stage.client.run_state(f"{ID}_failover", "in-the-middle") == "success"
    assert stage.fail_over("in-the-middle")["try_number"] > 1, "the task was not lost"
    assert stage.client.runs(f"{ID}_repair")[-1]["state"] == "success"
    answers = [
        one
        for one in stage.view().incidents.values()
        if (one.incident.instance, one.incident.incarnation) == ("a", before.incarnation)
    ]
    assert len(answers) == 1


def end_of_failover(stage: Stage, instance: str) -> None:
    """Every run ended well, one record answers the incident, and the application is whole."""

    def over() -> bool:
        return stage.is_whole() and stage.ended("failover") and stage.ended("repair")

    wait_until(over, 420, f"the failover of {instance} to end", poll_s=0.5)
    assert set(stage.run_states("failover", "repair")) == {"success"}
    reported = [r for r in stage.view().incidents.values() if r.incident.instance == instance]
    assert [record.incident.kind for record in reported] == [IncidentKind.INSTANCE_ENDED]


def wait_for_deferred(stage: Stage, instance: str, runs_before: set[str]) -> str:
    """The run that waits, without a worker, until the replacement is up."""

    def look() -> str | None:
        waiting = {run for run, state in stage.states("repair", f"replace_{instance}").items() if state == "deferred"}
        return next(iter(waiting - runs_before), None)

    run = wait_until(look, 240, "the repair to wait for the replacement", poll_s=0.3)
    assert run is not None
    return run


@pytest.mark.parametrize(("component", "instance", "other"), [("triggerer", "a", "b"), ("scheduler", "b", "a")])
def test_run_goes_on_after_a_component_was_killed(survivor: Stage, component: str, instance: str, other: str) -> None:
    before = set(survivor.states("repair", "list_repairs"))
    survivor.gate.touch()
    survivor.kill_instance(instance)
    wait_for_deferred(survivor, instance, before)
    assert survivor.actives() == {other}

    survivor.service.kill(component)
    survivor.gate.unlink()
    survivor.service.start_again(component)

    end_of_failover(survivor, instance)


def test_killed_worker_and_a_second_run_come_to_one_answer(survivor: Stage) -> None:
    tenant = survivor.broker.folder.living_tenant()
    assert tenant is not None
    # Nobody can decide while the brokers stand still: so the task is sure to be in the middle.
    pid = survivor.view().statuses["a"].process.pid
    tenant.leader.signal_group(signal.SIGSTOP)
    try:
        os.killpg(os.getpgid(pid), signal.SIGKILL)
        survivor.client.trigger(f"{SURVIVOR}_failover", "by-hand", {})
        wait_until(
            lambda: survivor.states("failover", "fail_over").get("by-hand") == "running",
            180,
            "the task to run",
            poll_s=0.2,
        )
        survivor.service.kill_busy_workers()
    finally:
        tenant.leader.signal_group(signal.SIGCONT)

    def watched() -> bool:
        return len([r for r in survivor.view().incidents.values() if r.incident.instance == "a"]) == 2

    wait_until(watched, 240, "the second end of the instance to be answered", poll_s=0.5)
    wait_until(
        lambda: survivor.ended("failover") and survivor.ended("repair") and survivor.is_whole(),
        420,
        "all runs to end",
        poll_s=0.5,
    )
    assert set(survivor.run_states("failover", "repair")) == {"success"}
    tries = {t["task_id"]: t["try_number"] for t in survivor.client.tasks(f"{SURVIVOR}_failover", "by-hand")}
    assert tries["fail_over"] > 1, "the worker was not lost"
    view = survivor.view()
    assert view.assignment is not None
    assert all(task.active and task.standbys for task in view.assignment.tasks.values())
    answered = [r for r in view.incidents.values() if r.incident.instance == "a"]
    assert len({record.incident.incarnation for record in answered}) == 2, "one end was answered twice"
