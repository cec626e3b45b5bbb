"""Applications of more than one stage, whose stages have different numbers of partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.drills.continuity import source_offsets
from airflow_provider.control.failover.decide import decide
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.placement.assignor import assign
from airflow_provider.control.placement.moves import promote
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.incident import Action, IncidentKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus, TaskState
from airflow_provider.control.topics.codec import apply, to_key, to_value
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.evaluation import Outcome
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.control.waiting.task import TasksRunning
from airflow_provider.errors import AssignmentError
from tests.builders import APPLICATION, active, instance, seen, standby, view_of

STAGES = {0: 2, 1: 3}
NAMES = ("a", "b", "c")
TIMEOUTS = Timeouts(5.0, 120.0)


def deployed(stages: Mapping[int, int], names: Collection[str] = NAMES, replicas: int = 1) -> Assignment:
    empty = Assignment.empty(APPLICATION, tasks_of(stages))
    return empty.next(assign(empty, names, replicas), "first", carried_out=0)


def running(assignment: Assignment, names: Collection[str] = NAMES) -> dict[str, InstanceStatus]:
    """What the instances report once all that is assigned runs and is warm."""
    return {
        name: instance(
            name,
            *(active(task, generation=assignment.tasks[task].active_since) for task in assignment.active_on(name)),
            *(standby(task) for task in assignment.standby_on(name)),
        )
        for name in names
    }


@st.composite
def applications(draw: st.DrawFn) -> tuple[dict[int, int], list[str]]:
    stages = draw(st.dictionaries(st.integers(0, 3), st.integers(1, 5), min_size=2, max_size=3))
    return stages, draw(st.lists(st.sampled_from("abcde"), unique=True, min_size=2))


@given(applications())
def test_every_task_of_every_stage_is_assigned_and_the_load_is_even(
    application: tuple[dict[int, int], list[str]],
) -> None:
    stages, names = application

    first = deployed(stages, names)

    assert tuple(first.tasks) == tasks_of(stages)
    assert all(task.active is not None and len(task.standbys) == 1 for task in first.tasks.values())
    loads = [len(first.active_on(name)) for name in names]
    assert max(loads) - min(loads) <= 1


@given(applications())
def test_failover_of_an_instance_promotes_its_tasks_of_all_stages_and_loses_none(
    application: tuple[dict[int, int], list[str]],
) -> None:
    stages, names = application
    before = deployed(stages, names)
    victim = sorted(names)[0]
    statuses = running(before, names) | {victim: instance(victim, state=InstanceState.ENDED)}

    (incident,) = detect(before, statuses, {}, TIMEOUTS)
    plan = decide(incident, before, statuses, [name for name in names if name != victim])

    assert incident.tasks == before.active_on(victim)
    assert plan.assignment is not None
    after = plan.assignment
    assert after.tasks.keys() == before.tasks.keys()
    assert victim not in after.instances
    assert [decision.task for decision in plan.decisions] == list(incident.tasks)
    assert {decision.action for decision in plan.decisions} <= {Action.PROMOTE}
    for task_id, task in after.tasks.items():
        old = before.tasks[task_id]
        if task_id in incident.tasks:
            assert (task.active in old.standbys, task.active_since) == (True, after.generation)
        else:
            assert (task.active, task.active_since) == (old.active, old.active_since)
    assert detect(after, statuses, {}, TIMEOUTS) == ()


def test_failed_task_moves_without_the_one_of_the_same_partition_in_another_stage() -> None:
    before = deployed(STAGES, ("a",))
    before = before.next(assign(before, ("a", "b"), 1), "a standby for each", carried_out=0)
    statuses = running(before, ("a", "b"))
    failed = active(TaskId(1, 0), TaskState.FAILED, error="disk", error_kind="StoreCorruptedError")
    others = (active(task) for task in before.tasks if task != TaskId(1, 0))
    statuses["a"] = instance("a", failed, *others)

    (incident,) = detect(before, statuses, {}, TIMEOUTS)
    plan = decide(incident, before, statuses, ["a", "b"])

    assert (incident.kind, incident.tasks) == (IncidentKind.TASK_FAILED, (TaskId(1, 0),))
    assert incident.id == "a/1/failed-1_0-1"
    assert incident.evidence == "task 1_0 failed: disk"
    assert [str(decision) for decision in plan.decisions] == ["task 1_0: promote on b (b: lag 0)"]
    assert plan.assignment is not None
    assert plan.assignment.active_on("b") == (TaskId(1, 0),)


def test_promotion_moves_the_named_task_alone() -> None:
    before = deployed(STAGES, ("a", "b"))
    task = before.tasks[TaskId(1, 1)]

    after = promote(before, running(before, ("a", "b")), ["a", "b"], [TaskId(1, 1)])

    assert after[TaskId(1, 1)].active == task.standbys[0]
    assert {task_id for task_id in after if after[task_id] != before.tasks[task_id]} == {TaskId(1, 1)}


def test_partition_that_only_another_stage_has_is_refused() -> None:
    with pytest.raises(AssignmentError, match="has the tasks 0_0, 0_1, 1_0, 1_1, 1_2, found 0_2"):
        promote(deployed(STAGES), {}, NAMES, [TaskId(0, 2)])
    evaluation = TasksRunning((TaskId(0, 2), TaskId(1, 2))).evaluate(seen(deployed(STAGES)))
    assert (evaluation.outcome, "task(s) 0_2 of" in evaluation.seen) == (Outcome.FAILED, True)


def test_redundancy_is_waited_for_in_every_stage() -> None:
    assignment = deployed(STAGES)
    statuses = running(assignment)
    assert StandbysWarm().evaluate(seen(assignment, *statuses.values())).outcome is Outcome.MET

    (holder,) = assignment.tasks[TaskId(1, 2)].standbys
    copies = tuple(task for task in statuses[holder].tasks if task.task != TaskId(1, 2))
    statuses[holder] = instance(holder, *copies)
    evaluation = StandbysWarm().evaluate(seen(assignment, *statuses.values()))

    assert evaluation.outcome is Outcome.WAITING
    assert evaluation.seen.startswith("task 1_2 has 0 of 1 standbys")


def test_source_offsets_are_kept_apart_by_stage() -> None:
    assignment = deployed({0: 1, 1: 1}, ("a",))
    status = instance("a", active(TaskId(0, 0), source_offset=5), active(TaskId(1, 0), source_offset=9))

    assert source_offsets(view_of(assignment, status)) == {TaskId(0, 0): 5, TaskId(1, 0): 9}


def test_actives_are_spread_over_instances_across_stages() -> None:
    actives = Counter(task.active for task in deployed({0: 1, 1: 1, 2: 1}).tasks.values())

    assert actives == {"a": 1, "b": 1, "c": 1}


def test_record_of_an_assignment_has_the_tasks_by_name_sorted_by_number() -> None:
    assignment = deployed({1: 1, 0: 11}, ("a",))
    view = ControlView(APPLICATION)

    value = to_value(assignment)

    assert list(msgspec.json.decode(value)["tasks"]) == [*(f"0_{partition}" for partition in range(11)), "1_0"]
    assert apply(view, to_key(assignment), value, 1)
    assert view.assignment == assignment


def test_new_stage_joins_the_tasks_that_run() -> None:
    before = deployed({0: 2}, ("a", "b"))
    grown = Assignment(
        application_id=APPLICATION,
        generation=before.generation,
        tasks={**Assignment.empty(APPLICATION, tasks_of(STAGES)).tasks, **before.tasks},
    )

    after = before.next(assign(grown, ("a", "b"), 1), "a second stage", carried_out=0)

    assert tuple(after.tasks) == tasks_of(STAGES)
    assert all(after.tasks[task_id] == task for task_id, task in before.tasks.items())
    assert {after.tasks[task_id].active_since for task_id in tasks_of({1: 3})} == {2}
