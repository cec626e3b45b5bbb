from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.detection import detect, is_open
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Incident, IncidentKind
from airflow_provider.control.records.status import (
    FormerProcess,
    InstanceState,
    InstanceStatus,
    RestorePhase,
    TaskState,
    TaskStatus,
)
from airflow_provider.control.topics.liveness import Timeouts
from tests.builders import active, assigned, instance, standby

ASSIGNMENT = assigned("a b", "b a")
A = instance("a", active(0), standby(1))
B = instance("b", active(1), standby(0))


def found(
    *statuses: InstanceStatus, silent: dict[str, float] | None = None, assignment: Assignment | None = ASSIGNMENT
) -> list[Incident]:
    by_name = {status.instance: status for status in statuses}
    return list(detect(assignment, by_name, silent or {}, Timeouts(5.0, 120.0)))


def test_nothing_is_wrong_with_instances_that_send_heartbeats() -> None:
    assert found(A, B, silent={"a": 4.9, "b": 0.1}) == []


def test_nothing_is_wrong_before_the_first_assignment() -> None:
    assert found(instance("a", state=InstanceState.ENDED), assignment=None) == []


def test_assignment_topic_that_holds_none_although_one_is_carried_out_was_lost() -> None:
    a = dataclasses.replace(A, generation=57)

    (incident,) = found(a, B, instance("c", state=InstanceState.ENDED), assignment=None)

    assert (incident.kind, incident.generation) == (IncidentKind.GENERATION_LOST, 0)
    assert incident.application_id == A.application_id
    assert "holds no assignment, and generation 57 was carried out" in incident.evidence
    assert found(a, B, silent={"a": 60.0}, assignment=None) == []  # nothing that is known to live carries it out


def test_unclean_end_names_the_active_tasks_and_the_signal() -> None:
    (incident,) = found(instance("a", state=InstanceState.ENDED, exit_code=-9), B)

    assert (incident.kind, incident.instance, incident.tasks) == (IncidentKind.INSTANCE_ENDED, "a", (TaskId(0, 0),))
    assert "killed by signal 9" in incident.evidence


def test_clean_shutdown_without_a_command_is_an_incident_while_it_is_assigned() -> None:
    (incident,) = found(instance("a", state=InstanceState.STOPPED), B, silent={"a": 60.0})

    assert (incident.kind, incident.instance, incident.tasks) == (IncidentKind.INSTANCE_STOPPED, "a", (TaskId(0, 0),))
    assert incident.kind.needs_replacement
    assert found(instance("a", state=InstanceState.STOPPED), B, assignment=assigned("b", "b")) == []


def test_stop_that_was_asked_for_without_a_hand_over_is_no_incident() -> None:
    assert found(instance("a", state=InstanceState.STOPPED, stop_hand_over=False), B) == []


def test_hand_over_that_found_no_other_is_due_once_another_runs() -> None:
    stopped = instance("a", state=InstanceState.STOPPED, stop_hand_over=True)

    assert found(stopped, instance("b", state=InstanceState.STOPPED, stop_hand_over=True)) == []
    (incident,) = found(stopped, instance("c"), B)

    assert incident.kind is IncidentKind.HAND_OVER
    assert not incident.kind.needs_replacement


def test_instance_that_never_sent_a_heartbeat_may_still_start_and_is_then_missed() -> None:
    assert found(B) == []
    assert found(B, silent={"a": 119.0}) == []

    (incident,) = found(B, silent={"a": 121.0})

    assert (incident.kind, incident.instance, incident.incarnation) == (IncidentKind.HEARTBEAT_MISSED, "a", 0)
    assert "no heartbeat ever" in incident.evidence


def test_task_without_an_active_is_an_incident_while_an_instance_runs() -> None:
    bare = assigned("- b", "b", "-")

    (incident,) = found(B, assignment=bare)

    assert (incident.kind, incident.tasks) == (IncidentKind.TASKS_UNOWNED, (TaskId(0, 0), TaskId(0, 2)))
    assert found(instance("b", state=InstanceState.STARTING), assignment=bare) == []
    assert [i.kind for i in found(B, silent={"b": 6.0}, assignment=bare)] == [IncidentKind.HEARTBEAT_MISSED]


def test_task_that_commits_nothing_while_its_source_has_records_stands_still() -> None:
    def a(stalled_s: float, **more: Any) -> InstanceStatus:
        return instance("a", active(0, stalled_s=stalled_s, source_lag=7, source_offset=40), standby(1), **more)

    assert found(a(119.0), B) == []
    (incident,) = found(a(121.0), B)

    assert (incident.kind, incident.tasks, incident.source_offset) == (IncidentKind.TASK_STALLED, (TaskId(0, 0),), 40)
    assert "7 records of its source wait" in incident.evidence
    assert not incident.source_blocked
    assert found(a(121.0, paused=True), B) == []


def test_task_behind_an_open_transaction_of_its_source_stands_still_by_it() -> None:
    (incident,) = found(instance("a", active(0, stalled_s=121.0, uncommitted_records=3), standby(1)), B)

    assert incident.source_blocked
    assert "3 records of its source belong to a transaction that is open" in incident.evidence


def test_task_that_stands_still_again_further_on_is_another_incident() -> None:
    (first,) = found(instance("a", active(0, stalled_s=121.0, source_lag=1, source_offset=4)), B)
    (second,) = found(instance("a", active(0, stalled_s=121.0, source_lag=1, source_offset=5)), B)

    assert first.id != second.id


@pytest.mark.parametrize(
    "a",
    [
        instance("a", active(0, TaskState.CLOSED, committed_generation=57), standby(1), generation=1),
        instance("a", active(0), standby(1), generation=57),
    ],
    ids=["in-a-commit-record", "carried-out"],
)
def test_generation_above_the_newest_assignment_means_that_it_was_lost(a: InstanceStatus) -> None:
    (incident,) = found(a, B)

    assert incident.kind is IncidentKind.GENERATION_LOST
    assert "generation 57 was carried out" in incident.evidence


def test_owner_that_waits_for_a_newer_assignment_than_the_newest_gets_one() -> None:
    overtaken = active(0, TaskState.CLOSED, error="x", error_kind="OvertakenError", committed_generation=1)
    fenced = active(1, TaskState.CLOSED, error="x", error_kind="FencedError", committed_generation=1)
    waiting = instance("a", overtaken, standby(1)), instance("b", fenced, standby(0))

    (incident,) = found(*waiting)

    assert (incident.kind, incident.tasks) == (IncidentKind.GENERATION_LOST, (TaskId(0, 0),))
    assert "task(s) 0_0 were given in a generation in which others had committed" in incident.evidence
    statuses = {status.instance: status for status in waiting}
    assert is_open(incident, ASSIGNMENT, statuses)
    assert not is_open(incident, ASSIGNMENT.next(ASSIGNMENT.tasks, "renewed", 1, incident.tasks), statuses)


def test_instance_that_nobody_assigned_anything_is_no_incident() -> None:
    assert found(A, B, instance("c", state=InstanceState.ENDED)) == []


def test_silence_beyond_the_timeout_is_a_missed_heartbeat() -> None:
    (incident,) = found(A, B, silent={"a": 5.1, "b": 0.0})

    assert incident.kind is IncidentKind.HEARTBEAT_MISSED
    assert "5.1 s" in incident.evidence


def test_starting_instance_may_be_silent_as_long_as_a_start_takes() -> None:
    starting = instance("a", state=InstanceState.STARTING)

    assert found(starting, B, silent={"a": 100.0}) == []
    assert [incident.kind for incident in found(starting, B, silent={"a": 121.0})] == [IncidentKind.HEARTBEAT_MISSED]


def test_end_and_silence_of_one_process_are_one_incident() -> None:
    (ended,) = found(instance("a", state=InstanceState.ENDED), B)
    (silent,) = found(A, B, silent={"a": 9.0})

    assert ended.id == silent.id


def test_next_process_of_an_instance_is_another_incident() -> None:
    (first,) = found(instance("a", state=InstanceState.ENDED, incarnation=1), B)
    (second,) = found(instance("a", state=InstanceState.ENDED, incarnation=2), B)

    assert first.id != second.id


def test_end_of_a_silent_process_that_came_back_is_another_incident() -> None:
    (silent,) = found(A, B, silent={"a": 9.0}, assignment=assigned("a b", "b a", generation=1))
    # Generation 2 answered it; it sent a heartbeat again, and generation 3 gave it its standbys back.
    (ended,) = found(instance("a", state=InstanceState.ENDED), B, assignment=assigned("b a", "b a", generation=3))

    assert silent.id != ended.id


def test_failed_task_names_its_error() -> None:
    failed = instance("a", active(0, TaskState.FAILED, error="boom", error_kind="ProcessError"))

    (incident,) = found(failed, B)

    assert (incident.kind, incident.tasks) == (IncidentKind.TASK_FAILED, (TaskId(0, 0),))
    assert incident.error_kind == "ProcessError"


def test_failure_of_an_earlier_generation_was_answered_by_the_later() -> None:
    failed = instance("a", active(0, TaskState.FAILED, generation=1))

    assert found(failed, B, assignment=assigned("a b", "b a", generation=2)) == []


def test_task_that_fails_again_after_it_came_back_is_another_incident() -> None:
    (first,) = found(instance("a", active(0, TaskState.FAILED, generation=1)), B)
    (second,) = found(
        instance("a", active(0, TaskState.FAILED, generation=3)), B, assignment=assigned("a b", "b a", generation=3)
    )

    assert first.id != second.id


def test_task_that_fails_again_after_it_was_replayed_is_another_incident() -> None:
    (first,) = found(instance("a", active(0, TaskState.FAILED)), B)
    (second,) = found(instance("a", active(0, TaskState.FAILED, replay="replay/by-a-person")), B)

    assert first.id != second.id


def restarted(*tasks: TaskStatus, how: str = "killed", generation: int = 1, **more: Any) -> InstanceStatus:
    """``a``, whose first process failed in some generation, and whose second one starts."""
    state = more.pop("was", InstanceState.ENDED)
    former = FormerProcess(incarnation=1, state=state, heard_at_ms=900, generation=generation, how=how)
    return instance("a", *tasks, state=InstanceState.STARTING, incarnation=2, former=former, **more)


def test_process_that_failed_is_a_failure_although_the_next_one_starts_already() -> None:
    (incident,) = found(restarted(how="killed by signal 9"), B)

    assert (incident.kind, incident.instance, incident.tasks) == (IncidentKind.INSTANCE_ENDED, "a", (TaskId(0, 0),))
    assert incident.id == found(instance("a", state=InstanceState.ENDED), B)[0].id  # however soon it is looked at
    assert "killed by signal 9" in incident.evidence


def test_clean_shutdown_without_a_command_is_one_too_when_the_next_one_starts_already() -> None:
    (incident,) = found(restarted(was=InstanceState.STOPPED), B)

    assert incident.kind is IncidentKind.INSTANCE_STOPPED


def test_instance_that_starts_again_keeps_what_no_other_one_has_warm() -> None:
    assert found(restarted(), instance("b", active(1), standby(0, restore_phase=RestorePhase.CHANGELOG))) == []
    assert found(restarted(), instance("b", active(1)), assignment=assigned("a", "b")) == []
    assert found(restarted(), B, silent={"b": 60.0})[0].instance == "b"  # whose copy says nothing any more


def test_what_the_new_process_got_is_not_lost_with_the_one_before_it() -> None:
    assert found(restarted(generation=0), B) == []


def test_first_start_and_one_that_was_asked_for_are_no_failure() -> None:
    assert found(instance("a", state=InstanceState.STARTING), B) == []
