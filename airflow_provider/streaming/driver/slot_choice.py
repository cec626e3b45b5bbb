"""In which slot of an instance each of its tasks is: a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.assignment import Assignment
from airflow_provider.control.status import Role
from airflow_provider.streaming.worker.plan import TaskPlan

__all__ = ["choose_slots"]


def choose_slots(
    plans: Sequence[TaskPlan], assignment: Assignment, before: Mapping[TaskId, int], slots: int
) -> dict[TaskId, int]:
    """The slot of each task that an instance holds.

    A task stays in its slot, where its store is open, as long as the instance holds it. A new one goes to the slot with
    the fewest active tasks, then the fewest copies; a standby to where it would make the fewest if its active one were
    lost. Only where one slot has two active tasks more than another, the one that became active last moves: a slot
    is a core, and an idle core costs more than opening a store again.

    Args:
        plans: what the instance is to be for each of its tasks.
        assignment: that the plans are of.
        before: the slots of the tasks that it held until now.
        slots: how many there are.
    """
    chosen = {plan.task: before[plan.task] for plan in plans if plan.task in before}
    active = {plan.task: plan.generation for plan in plans if plan.role is Role.ACTIVE}
    actives = Counter(chosen[task] for task in active if task in chosen)
    copies = Counter(chosen.values())
    follows = Counter((slot, assignment.tasks[task].active) for task, slot in chosen.items() if task not in active)
    for plan in sorted(plans, key=lambda plan: (plan.role is not Role.ACTIVE, plan.task)):
        if plan.task in chosen:
            continue
        owner = None if plan.task in active else assignment.tasks[plan.task].active
        slot = min(range(slots), key=lambda s: (actives[s] + follows[(s, owner)], copies[s], s))
        chosen[plan.task] = slot
        copies[slot] += 1
        if plan.task in active:
            actives[slot] += 1
        else:
            follows[(slot, owner)] += 1
    while True:
        by_load = sorted(range(slots), key=lambda s: (actives[s], s))
        emptiest, fullest = by_load[0], by_load[-1]
        if actives[fullest] - actives[emptiest] < 2:
            return chosen
        latest = max((generation, task) for task, generation in active.items() if chosen[task] == fullest)
        chosen[latest[1]] = emptiest
        actives[fullest] -= 1
        actives[emptiest] += 1
