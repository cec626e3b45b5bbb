from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.assignment import Assignment, TaskAssignment
from airflow_provider.control.assignor import assign
from airflow_provider.control.tasks import tasks_of
from airflow_provider.streaming.driver.slot_choice import choose_slots
from airflow_provider.streaming.driver.task_plans import task_plans
from tests.builders import APPLICATION, assigned


def slots_of(
    assignment: Assignment, slots: int, name: str = "a", before: Mapping[TaskId, int] | None = None
) -> dict[TaskId, int]:
    return choose_slots(task_plans(assignment, name, {}), assignment, before or {}, slots)


def actives_by_slot(assignment: Assignment, chosen: Mapping[TaskId, int], slots: int, name: str = "a") -> list[int]:
    loads = Counter(chosen[task] for task in assignment.active_on(name))
    return [loads[slot] for slot in range(slots)]


@pytest.mark.parametrize(("instances", "slots", "tasks"), [(2, 2, 8), (2, 2, 32), (3, 3, 9), (2, 4, 16), (2, 2, 2)])
def test_active_tasks_of_an_instance_use_all_of_its_slots(instances: int, slots: int, tasks: int) -> None:
    names = [f"i{number}" for number in range(instances)]
    empty = Assignment.empty(APPLICATION, tasks_of({0: tasks}))
    first = empty.next(assign(empty, names, 1), "first")

    for name in names:
        loads = actives_by_slot(first, slots_of(first, slots, name), slots, name)
        assert max(loads) - min(loads) <= 1, loads


def test_tasks_of_all_stages_are_spread_over_the_slots() -> None:
    tasks = {TaskId(stage, number): TaskAssignment("a") for stage in (0, 1) for number in range(2)}
    assignment = Assignment(application_id="app", generation=1, tasks=tasks)

    assert actives_by_slot(assignment, slots_of(assignment, 2), 2) == [2, 2]


def test_task_stays_in_its_slot_while_the_instance_holds_it() -> None:
    before = slots_of(assigned("a b", "a b", "b a", "b a"), 2)

    promoted = slots_of(assigned("a", "b", "a", "a", "a"), 2, before=before)

    assert {task: promoted[task] for task in before if task in promoted} == {
        task: slot for task, slot in before.items() if task != TaskId(0, 1)
    }


def test_nothing_changes_where_nothing_changed() -> None:
    assignment = assigned("a b", "b a", "a b", "b a", "a b")
    before = slots_of(assignment, 3)

    assert slots_of(assignment, 3, before=before) == before


def test_standbys_of_one_owner_are_spread_so_that_its_loss_is() -> None:
    assignment = assigned("b a", "c a", "b a", "c a")
    before = slots_of(assignment, 2)

    after = assigned("a", "c a", "a", "c a")

    assert actives_by_slot(after, slots_of(after, 2, before=before), 2) == [1, 1]


def test_task_that_became_active_last_moves_when_a_slot_would_idle() -> None:
    before = {TaskId(0, 0): 0, TaskId(0, 1): 0, TaskId(0, 2): 1}
    tasks = {
        TaskId(0, 0): TaskAssignment("a", (), 5),
        TaskId(0, 1): TaskAssignment("a", (), 3),
        TaskId(0, 2): TaskAssignment("b", ("a",), 5),
    }
    assignment = Assignment(application_id="app", generation=5, tasks=tasks)

    assert slots_of(assignment, 2, before=before) == {TaskId(0, 0): 1, TaskId(0, 1): 0, TaskId(0, 2): 1}


@pytest.mark.parametrize("seed", range(50))
def test_slots_stay_even_over_random_assignments_and_move_no_task_needlessly(seed: int) -> None:
    rng = random.Random(seed)
    slots, before = rng.randint(1, 5), dict[TaskId, int]()
    for generation in range(1, 8):
        tasks = {
            task: TaskAssignment(*rng.choice([("a", ("b",)), ("b", ("a",)), ("b", ()), ("c", ("a",))]), generation)
            for task in tasks_of({0: rng.randint(1, 12)})
        }
        assignment = Assignment(application_id="app", generation=generation, tasks=tasks)

        chosen = slots_of(assignment, slots, before=before)

        loads = actives_by_slot(assignment, chosen, slots)
        assert max(loads) - min(loads) <= 1, f"seed {seed}: {loads}"
        assert chosen.keys() == {*assignment.active_on("a"), *assignment.standby_on("a")}
        for task in assignment.standby_on("a"):
            assert chosen[task] == before.get(task, chosen[task]), f"seed {seed}"
        before = chosen
