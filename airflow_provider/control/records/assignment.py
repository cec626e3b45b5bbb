"""Which instance is active and which are standbys for each task."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import AssignmentError


@dataclass(frozen=True)
class TaskAssignment:
    """Who works for one task.

    Args:
        active: the one instance that may process the task; None while no instance can.
        standbys: instances that hold a warm copy, preferred first; never the active one.
        active_since: the generation in which ``active`` got the task. It travels in every commit record, so that
            two owners can never have committed in the same one.
    """

    active: str | None
    standbys: tuple[str, ...] = ()
    active_since: int = 0

    @property
    def holders(self) -> tuple[str, ...]:
        """The instances that have a copy of it, its active first."""
        return self.standbys if self.active is None else (self.active, *self.standbys)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One generation of an application's assignment. The newest generation wins, for every reader.

    Args:
        generation: 1 for the first; only grows.
        tasks: who works for each task, sorted by task; a JSON object whose keys are such as ``0_3``.
        reason: why this generation was published, in one line, for people.

    Raises:
        AssignmentError: an instance is active and standby for the same task, or twice a standby.
    """

    application_id: str
    generation: int
    tasks: Mapping[TaskId, TaskAssignment]
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", dict(sorted(self.tasks.items())))
        for task_id, task in self.tasks.items():
            copies = [*task.standbys, *([task.active] if task.active else [])]
            if len(set(copies)) != len(copies):
                raise AssignmentError(
                    f"Task {task_id} of {self.application_id!r} names an instance twice ({', '.join(copies)}): "
                    "every copy of a task needs an instance of its own."
                )

    def active_on(self, instance: str) -> tuple[TaskId, ...]:
        """The tasks that this instance may process, sorted."""
        return tuple(task_id for task_id, task in self.tasks.items() if task.active == instance)

    def standby_on(self, instance: str) -> tuple[TaskId, ...]:
        """The tasks of which this instance holds a warm copy, sorted."""
        return tuple(task_id for task_id, task in self.tasks.items() if instance in task.standbys)

    @property
    def instances(self) -> tuple[str, ...]:
        """Every instance that is named, sorted."""
        names = {task.active for task in self.tasks.values() if task.active}
        names.update(name for task in self.tasks.values() for name in task.standbys)
        return tuple(sorted(names))

    def next(
        self,
        tasks: Mapping[TaskId, TaskAssignment],
        reason: str,
        carried_out: int,
        renewed: Collection[TaskId] = (),
    ) -> Assignment:
        """The following generation, with ``active_since`` kept where the active stays and renewed where it moves.

        Args:
            carried_out: the greatest generation that instances carry out (`highest_generation`). A later one than this
                was lost: the next follows it and renews every active's ``active_since``, so that all take it over.
            renewed: tasks whose ``active_since`` is renewed although the active stays.
        """
        generation = max(self.generation, carried_out) + 1
        stamped = {}
        for task_id, new in tasks.items():
            old = self.tasks.get(task_id, TaskAssignment(None))
            again = new.active is not None and (carried_out > self.generation or task_id in renewed)
            since = old.active_since if old.active == new.active and not again else generation
            stamped[task_id] = TaskAssignment(new.active, new.standbys, since)
        return Assignment(application_id=self.application_id, generation=generation, tasks=stamped, reason=reason)

    def limited_to(self, tasks: Iterable[TaskId]) -> Assignment:
        """The same generation with exactly these tasks: no instance works for those that it lacks."""
        given = {task_id: self.tasks.get(task_id, TaskAssignment(None)) for task_id in tasks}
        return dataclasses.replace(self, tasks=given)

    @classmethod
    def empty(cls, application_id: str, tasks: Iterable[TaskId]) -> Assignment:
        """Generation 0: no instance works for any task. What the first published generation follows."""
        return cls(
            application_id=application_id,
            generation=0,
            tasks=dict.fromkeys(tasks, TaskAssignment(None)),
            reason="nothing assigned yet",
        )
