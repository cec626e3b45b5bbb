from __future__ import annotations

import dataclasses

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.open_problems import open_incidents, unanswered_problems, unrepaired_problems
from airflow_provider.control.records.incident import (
    WATCHER,
    Action,
    Decision,
    Incident,
    IncidentKind,
    IncidentRecord,
    Unanswered,
    Watcher,
)
from airflow_provider.control.records.status import InstanceState, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import APPLICATION, active, assigned, instance, view_of


def found(view: ControlView) -> Incident:
    (incident,) = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts())
    return incident


def watched(incident: Incident) -> Watcher:
    return Watcher(
        application_id=APPLICATION,
        host="h",
        pid=1,
        began_at_ms=1,
        sent_at_ms=76_000,
        unanswered=(Unanswered.of(incident, reported_at_ms=1_000),),
    )


def gone() -> ControlView:
    view = view_of(assigned("a"), instance("a", state=InstanceState.ENDED))
    view.watcher = watched(found(view))
    return view


def test_failure_that_is_reported_and_not_answered_is_named_with_its_age_and_what_to_look_at() -> None:
    assert unanswered_problems(gone()) == (
        "instance_ended of a was reported 75 s ago, and no failover has taken it up yet: where no run of the DAG "
        'app_failover is under way, is that paused or stale, or does its file not parse? See "No failover run" in '
        "the runbook.",
    )


def test_failure_of_no_instance_is_named_by_its_tasks() -> None:
    view = view_of(assigned("- b", "-"), instance("b"))

    assert Unanswered.of(found(view), reported_at_ms=1).what == "tasks_unowned of 0_0, 0_1"


def test_failure_that_was_answered_since_the_watcher_wrote_is_none() -> None:
    view = gone()
    incident = found(view)
    record = IncidentRecord(
        incident=incident, answered_by="run", detected_at_ms=1, decided_at_ms=2, generation=1, no_candidate=False
    )
    view.incidents[incident.id] = record

    assert (unanswered_problems(view), unrepaired_problems(view)) == ((), ())
    # Held for want of an instance, and reported again since one runs.
    view.incidents[incident.id] = dataclasses.replace(record, no_candidate=True)
    assert len(unanswered_problems(view)) == 1


def test_what_a_watcher_answered_waits_for_no_more_than_its_repair() -> None:
    view = gone()
    incident = found(view)
    view.incidents[incident.id] = IncidentRecord(
        incident=incident, answered_by=f"{WATCHER}h/1", detected_at_ms=1, decided_at_ms=2, generation=2
    )

    assert unanswered_problems(view) == ()
    (line,) = unrepaired_problems(view)
    assert line.startswith("instance_ended of a was answered by the watcher 75 s ago, and nothing repairs yet")


def hold(view: ControlView, number: int, instance: str = "a") -> None:
    """A task of which a record cannot be read: any owner would fail there."""
    task = TaskId(0, number)
    failed = Incident(
        application_id=APPLICATION,
        kind=IncidentKind.TASK_FAILED,
        instance=instance,
        incarnation=1,
        tasks=(task,),
        evidence=f"task {task} failed: no JSON",
    )
    evidence = f"{failed.evidence}; any owner would fail at the same place"
    view.incidents[failed.id] = IncidentRecord(
        incident=failed,
        answered_by="run",
        detected_at_ms=1,
        decided_at_ms=2,
        generation=1,
        plan=(Decision(task=task, action=Action.HOLD, to=None, evidence=evidence),),
    )


def test_many_that_are_held_for_one_reason_are_one_line_that_says_how_it_ends() -> None:
    view = view_of(assigned(*["a"] * 12), instance("a"))
    for number in range(12):
        hold(view, number)

    (line,) = open_incidents(view)

    assert line.count("no JSON") == 1
    assert "it is over by itself once its tasks work again" in line
    assert "[and 11 more that differ in numbers, of " in line


def test_what_is_open_of_two_instances_is_said_of_each() -> None:
    view = view_of(assigned("a", "b"), instance("a"), instance("b"))
    hold(view, 0, "a")
    hold(view, 1, "b")

    assert [line.split(" is ")[0] for line in open_incidents(view)] == ["task_failed of a", "task_failed of b"]


def test_application_that_nothing_ever_watched_has_none() -> None:
    failed = instance("a", active(0, state=TaskState.FAILED, error="no"))

    assert unanswered_problems(view_of(assigned("a"), failed)) == ()
