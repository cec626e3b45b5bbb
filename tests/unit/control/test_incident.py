from __future__ import annotations

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.incident import Incident, IncidentKind, detect
from airflow_provider.control.status import InstanceState, InstanceStatus, TaskState
from tests.builders import active, assigned, instance, standby

ASSIGNMENT = assigned("a b", "b a")
A = instance("a", active(0), standby(1))
B = instance("b", active(1), standby(0))


def found(
    *statuses: InstanceStatus, silent: dict[str, float] | None = None, assignment: Assignment | None = ASSIGNMENT
) -> list[Incident]:
    by_name = {status.instance: status for status in statuses}
    return list(detect(assignment, by_name, silent or {}, instance_timeout_s=5.0))


def test_nothing_is_wrong_with_instances_that_are_heard_of() -> None:
    assert found(A, B, silent={"a": 4.9, "b": 0.1}) == []


def test_nothing_is_wrong_before_the_first_assignment() -> None:
    assert found(instance("a", state=InstanceState.ENDED), assignment=None) == []


def test_end_without_a_goodbye_names_the_active_tasks_and_the_signal() -> None:
    (incident,) = found(instance("a", state=InstanceState.ENDED, exit_code=-9), B)

    assert (incident.kind, incident.instance, incident.tasks) == (IncidentKind.INSTANCE_ENDED, "a", (0,))
    assert "killed by signal 9" in incident.evidence


def test_goodbye_is_no_incident() -> None:
    assert found(instance("a", state=InstanceState.STOPPED), B, silent={"a": 60.0}) == []


def test_instance_that_was_never_heard_of_is_no_incident() -> None:
    assert found(B) == []


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
    # Generation 2 answered it; it was heard of again, and generation 3 gave it its standbys back.
    (ended,) = found(instance("a", state=InstanceState.ENDED), B, assignment=assigned("b a", "b a", generation=3))

    assert silent.id != ended.id


def test_failed_task_names_its_error() -> None:
    failed = instance("a", active(0, TaskState.FAILED, error="boom", error_kind="ProcessError"))

    (incident,) = found(failed, B)

    assert (incident.kind, incident.tasks) == (IncidentKind.TASK_FAILED, (0,))
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
