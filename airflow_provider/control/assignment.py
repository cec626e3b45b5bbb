"""Which instance is active and which are standbys for each task."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.errors import AssignmentError

__all__ = ["Assignment", "TaskAssignment"]


@dataclass(frozen=True)
class TaskAssignment:
    """Who works for one task.

    Args:
        active: the one instance that may process the task; None while nobody can.
        standbys: instances that hold a warm copy, preferred first; never the active one.
        active_since: the generation in which ``active`` got the task. It travels in every commit record, so that
            two owners can never have committed in the same one.
    """

    active: str | None
    standbys: tuple[str, ...] = ()
    active_since: int = 0


@dataclass(frozen=True)
class Assignment:
    """One generation of an application's assignment. The newest generation wins, whoever reads it.

    Args:
        application_id: the application.
        generation: 1 for the first; only grows.
        tasks: by task number: ``tasks[i]`` says who works for task *i*.
        reason: why this generation was published, in one line, for people.

    Raises:
        AssignmentError: an instance is active and standby for the same task, or twice a standby.
    """

    application_id: str
    generation: int
    tasks: tuple[TaskAssignment, ...]
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse what no reader may ever see."""
        for number, task in enumerate(self.tasks):
            copies = [*task.standbys, *([task.active] if task.active else [])]
            if len(set(copies)) != len(copies):
                raise AssignmentError(
                    f"Task {number} of {self.application_id!r} names an instance twice ({', '.join(copies)}): "
                    "every copy of a task needs an instance of its own."
                )

    def active_on(self, instance: str) -> tuple[int, ...]:
        """The tasks that this instance may process."""
        return tuple(i for i, task in enumerate(self.tasks) if task.active == instance)

    def standby_on(self, instance: str) -> tuple[int, ...]:
        """The tasks of which this instance holds a warm copy."""
        return tuple(i for i, task in enumerate(self.tasks) if instance in task.standbys)

    @property
    def instances(self) -> tuple[str, ...]:
        """Every instance that is named, sorted."""
        names = {task.active for task in self.tasks if task.active}
        names.update(name for task in self.tasks for name in task.standbys)
        return tuple(sorted(names))

    def next(self, tasks: tuple[TaskAssignment, ...], reason: str) -> Assignment:
        """The following generation, with ``active_since`` kept where the active stays and renewed where it moves."""
        generation = self.generation + 1
        before = self.tasks + (TaskAssignment(None),) * (len(tasks) - len(self.tasks))
        stamped = tuple(
            TaskAssignment(new.active, new.standbys, old.active_since if old.active == new.active else generation)
            for old, new in zip(before, tasks, strict=True)
        )
        return Assignment(self.application_id, generation, stamped, reason)

    @classmethod
    def empty(cls, application_id: str, tasks: int) -> Assignment:
        """Generation 0: nobody works for anything. What the first published generation follows."""
        return cls(application_id, 0, (TaskAssignment(None),) * tasks, "nothing assigned yet")
