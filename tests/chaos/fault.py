"""What a fault is, and what faults have in common."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from airflow_provider.control.records.assignment import TaskAssignment
from tests.chaos.cluster import Cluster


class Fault(ABC):
    """One kind of fault. Draws all that it chooses from the given source of chance, so that a seed repeats it."""

    name: ClassVar[str]
    weight: ClassVar[float] = 1.0
    """How often it is drawn: the more often, the less has to be started again."""

    @abstractmethod
    def inject(self, cluster: Cluster, chance: random.Random) -> str:
        """Do it, end it, and say in a few words what was done; empty when there was nothing to do it to."""


def came_true(cluster: Cluster, predicate: Callable[[], object], what: str) -> bool:
    """Wait until it does; where it does not within the time that a run has to heal, the run is wrong."""
    deadline = time.monotonic() + cluster.heal_s
    while not predicate():
        if time.monotonic() > deadline:
            cluster.problems.append(f"waited {cluster.heal_s:g} s for {what}: {'; '.join(cluster.health().lacking)}")
            return False
        time.sleep(0.2)
    return True


def task_of(cluster: Cluster, chance: random.Random) -> TaskAssignment | None:
    task_id = chance.choice(cluster.workload.tasks)
    return None if cluster.view.assignment is None else cluster.view.assignment.tasks[task_id]


def owner_of(cluster: Cluster, chance: random.Random) -> str | None:
    """The active instance of some task."""
    task = task_of(cluster, chance)
    return None if task is None or task.active is None or not cluster.processes(task.active) else task.active


def is_named(cluster: Cluster, instance: str) -> bool:
    assignment = cluster.view.assignment
    return assignment is not None and instance in assignment.instances


def promoted(task: TaskAssignment, to: str) -> TaskAssignment:
    """The task with `to` as its active one and its former active as a standby."""
    if task.active == to:
        return task
    # A former active holds the freshest copy of all.
    others = [name for name in (task.active, *task.standbys) if name and name != to]
    return TaskAssignment(to, tuple(others[: max(1, len(task.standbys))]))
