from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.continuity import (
    changelog_positions,
    check_progress,
    check_resumption,
    source_offsets,
    standbys_certified,
)
from airflow_provider.control.drills.readiness import Hit, choose_hit, choose_task, choose_victim
from airflow_provider.control.failover.open_problems import open_incidents
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.drill_fault import DrillKind
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import Role, TaskStatus
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError, InstanceError, StateError
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from tests.builders import active, assigned, instance, standby, view_of

VIEW = view_of(
    assigned("a b", "b a", "b a"),
    instance("a", active(0, source_offset=5), standby(1)),
    instance("b", active(1, source_offset=7), active(2), standby(0)),
)


def test_instance_with_the_most_active_tasks_is_chosen() -> None:
    assert choose_victim(VIEW, ["a", "b"]) == "b"


def test_named_instance_is_chosen() -> None:
    assert choose_victim(VIEW, ["a", "b"], "a") == "a"


def test_instance_that_does_not_live_is_refused() -> None:
    with pytest.raises(InstanceError, match="'a' of 'app' is not alive"):
        choose_victim(VIEW, ["b"], "a")


def test_instance_with_the_most_standbys_is_chosen_where_one_of_them_is_hit() -> None:
    assert choose_victim(VIEW, ["a", "b"], role=Role.STANDBY) == "a"


def test_task_that_processes_most_is_chosen() -> None:
    view = view_of(
        assigned("a b", "a b", "b a"),
        instance("a", active(0, records_per_s=5.0), active(1, records_per_s=9.0), standby(2)),
        instance("b", active(2), standby(0), standby(1)),
    )

    assert choose_task(view, "a", Role.ACTIVE) == TaskId(0, 1)
    assert choose_task(view, "b", Role.STANDBY) == TaskId(0, 1)
    assert choose_task(VIEW, "b", Role.ACTIVE) == TaskId(0, 1)


def test_instance_that_holds_no_such_task_is_refused() -> None:
    with pytest.raises(InstanceError, match="'c' of 'app' has no standby task"):
        choose_task(VIEW, "c", Role.STANDBY)


def test_application_without_an_assignment_is_refused() -> None:
    with pytest.raises(AssignmentError, match="assigned yet"):
        choose_victim(view_of(None), ["a"])


def test_incident_that_was_answered_is_open_until_it_is_repaired() -> None:
    ended = Incident(
        application_id="app", kind=IncidentKind.INSTANCE_ENDED, instance="a", incarnation=1, tasks=(), evidence="killed"
    )
    record = IncidentRecord(incident=ended, answered_by="run", detected_at_ms=1, decided_at_ms=2, generation=3)
    view = view_of(assigned("a b"))
    view.incidents[ended.id] = record

    (line,) = open_incidents(view)
    assert "of a is answered and not repaired since 1970-01-01T00:00:00+00:00 (killed): its repair is under" in line

    view.incidents[ended.id] = dataclasses.replace(record, resolved_at_ms=4)
    assert open_incidents(view) == ()


def test_source_offsets_are_those_of_the_assigned_active() -> None:
    assert source_offsets(VIEW) == {TaskId(0, 0): 5, TaskId(0, 1): 7}


def test_changelog_positions_are_those_of_the_assigned_active() -> None:
    view = view_of(
        assigned("a b", "b a"),
        instance("a", active(0, position=55), standby(1, position=7)),
        instance("b", active(1), standby(0, position=50)),
    )

    assert changelog_positions(view) == {TaskId(0, 0): 55}


def test_application_is_certified_where_every_standby_is() -> None:
    def view(*copies: TaskStatus) -> ControlView:
        return view_of(assigned("a b", "a b"), instance("a", active(0), active(1)), instance("b", *copies))

    assert standbys_certified(view(standby(0, certified_position=5), standby(1, certified_position=6)))
    assert not standbys_certified(view(standby(0, certified_position=5), standby(1)))
    assert not standbys_certified(view(standby(0, certified_position=5)))
    assert not standbys_certified(view_of(assigned("a"), instance("a", active(0))))


def test_progress_is_reported() -> None:
    assert check_progress({TaskId(0, 0): 5, TaskId(0, 1): 7}, {TaskId(0, 0): 9, TaskId(0, 1): 7, TaskId(0, 2): 1}) == {
        TaskId(0, 0): 4,
        TaskId(0, 1): 0,
    }


@pytest.mark.parametrize("after", [{TaskId(0, 0): 4}, {}], ids=["went back", "reports none"])
def test_lost_input_is_an_error(after: dict[TaskId, int]) -> None:
    with pytest.raises(StateError, match="Task 0_0 was at source offset 5"):
        check_progress({TaskId(0, 0): 5}, after)


def test_owner_that_goes_on_from_the_last_commit_passes_however_much_more_was_committed() -> None:
    check_resumption({TaskId(0, 0): 100, TaskId(0, 1): 7}, {TaskId(0, 0): 100, TaskId(0, 1): 9})


@pytest.mark.parametrize(
    ("resumed", "found"),
    [
        pytest.param({TaskId(0, 0): 50}, "it went on at 50", id="from-an-earlier-commit"),
        pytest.param({}, "no offset is on record", id="unknown"),
    ],
)
def test_owner_that_went_on_before_the_last_commit_is_an_error(resumed: dict[TaskId, int], found: str) -> None:
    with pytest.raises(StateError, match=f"task 0_0 had to go on at source offset 100 or later, and {found}"):
        check_resumption({TaskId(0, 0): 100}, resumed)


def test_instance_without_active_tasks_is_not_kept_from_them() -> None:
    kind = DrillKind.HANG
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)))

    with pytest.raises(InstanceError, match=rf"'b' of 'app' is active for no task, and a drill {kind} lasts until"):
        choose_hit(view, kind, "b", ["a", "b"])
    assert choose_hit(view, kind, "a", ["a", "b"]) == Hit(instance="a", tasks=(TaskId(0, 0),))


def test_store_of_a_stage_without_state_is_hit_only_where_there_is_no_other() -> None:
    job = StatefulJob(
        "app", stream("lines", schema="word STRING").group_by("word").aggregate(F.count().alias("n")).sink("out")
    )
    view = dataclasses.replace(VIEW, job=job.description(), statuses=dict(VIEW.statuses))
    busy, idle = TaskId(0, 0), TaskId(1, 0)
    view.assignment = Assignment.empty("app", [busy, idle]).next(
        {task: TaskAssignment(active="a", standbys=()) for task in (busy, idle)}, "test", carried_out=0
    )
    view.statuses["a"] = instance("a", active(busy, records_per_s=900.0), active(idle, records_per_s=5.0))

    assert choose_task(view, "a", Role.ACTIVE) == idle

    view.assignment = Assignment.empty("app", [busy]).next(
        {busy: TaskAssignment(active="a", standbys=())}, "test", carried_out=0
    )
    assert choose_task(view, "a", Role.ACTIVE) == busy
