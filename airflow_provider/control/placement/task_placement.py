"""Publishing the assignment that the living instances allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.placement.assignor import assign, tasks_on_one_host
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts, highest_generation
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import AssignmentError

if TYPE_CHECKING:
    from airflow_provider.control.topics.publisher import AssignmentPublisher


@dataclass(frozen=True, kw_only=True)
class TaskPlacement:
    """How an application's tasks are to be placed.

    Args:
        instances: who may have tasks, also one that is started later; None takes every running instance, and takes
            nothing from one that is silent just now.
        num_standby_replicas: wanted standbys per task; fewer where there are not enough instances.
        balance: whether to take a step towards an even load, too.
    """

    instances: Sequence[str] | None = None
    num_standby_replicas: int = 1
    balance: bool = False
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class PlacedTasks:
    """What became of it.

    Args:
        on_one_host: by task the host that has all of its copies.
        not_running: by instance that has tasks and was named although it does not run: why its tasks stand still.
        warnings: what a person should know, in one line each.
    """

    assignment: Assignment
    changed: bool
    on_one_host: Mapping[TaskId, str]
    not_running: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """``generation``, ``changed``, by task its ``active`` and ``standbys``, ``on_one_host`` and ``not_running``."""
        return {
            "generation": self.assignment.generation,
            "changed": self.changed,
            "tasks": {
                str(task_id): {"active": task.active, "standbys": list(task.standbys)}
                for task_id, task in self.assignment.tasks.items()
            },
            "on_one_host": {str(task_id): host for task_id, host in self.on_one_host.items()},
            "not_running": dict(self.not_running),
        }


def place_tasks(
    publisher: AssignmentPublisher,
    wanted: TaskPlacement,
    tasks: Callable[[], Sequence[TaskId]],
    timeouts: Timeouts,
) -> PlacedTasks:
    """Publish the next generation, or find that nothing has to change.

    Args:
        tasks: gives the application's tasks; asked before the first assignment only. Later they are those of the job
            as it was described last, where it was.

    Raises:
        AssignmentError: no instance runs.
        FencedError: a newer publisher exists. Nothing was written.
    """
    view, warnings = publisher.view, list[str]()
    before = view.assignment or Assignment.empty(view.application_id, tasks())
    # A job that was changed may have a stage more, or one less.
    previous = before if view.job is None else before.limited_to(tasks_of(view.job.num_partitions))
    named = wanted.instances
    after = assign(
        previous,
        _running(view, timeouts, warnings) if named is None else named,
        wanted.num_standby_replicas,
        view.statuses,
        balance=wanted.balance,
        keep=() if named is not None else view.perhaps_alive,
    )
    changed = _places(after) != _places(before.tasks)
    if changed:
        # After a loss of the topic, what living instances carry out is all that is known of the generations before.
        previous = previous.next(after, wanted.reason, highest_generation(view.statuses.values()))
        publisher.publish(previous)
    on_one_host = tasks_on_one_host(previous.tasks, view.statuses)
    if on_one_host and wanted.num_standby_replicas > 0:
        warnings.append(
            f"All copies of {', '.join(f'{task_id} ({host})' for task_id, host in on_one_host.items())} are on one "
            "host: its loss stops them until it is back. Run an instance on another host, then assign "
            "with balance."
        )
    not_running = {} if named is None else _not_running(view, previous.instances)
    running = ", ".join(view.healthy(timeouts)) or "none"
    warnings += [
        f"{name} {why}: its tasks stand still until it runs. Start it, or assign them to instances that run. Running "
        f"now: {running}."
        for name, why in not_running.items()
    ]
    return PlacedTasks(
        assignment=previous,
        changed=changed,
        on_one_host=on_one_host,
        not_running=not_running,
        warnings=tuple(warnings),
    )


def _not_running(view: ControlView, named: Sequence[str]) -> dict[str, str]:
    """A silence is not proven by one look, so these are only those of which it is known."""
    found = {}
    for name in sorted(named):
        status = view.statuses.get(name)
        if status is None:
            found[name] = "has never run"
        elif not status.state.alive:
            found[name] = f"is {status.state.value}"
    return found


def _running(view: ControlView, timeouts: Timeouts, warnings: list[str]) -> Sequence[str]:
    healthy = view.healthy(timeouts)
    running = [name for name in healthy if view.statuses[name].state is InstanceState.RUNNING]
    if not running:
        known = ", ".join(f"{n}: {s.state.value}" for n, s in sorted(view.statuses.items())) or "none"
        raise AssignmentError(
            f"No instance of {view.application_id!r} runs (known: {known}): start one, or name the instances "
            "that are to have the tasks once they run."
        )
    if silent := [name for name in view.perhaps_alive if name not in running]:
        warnings.append(
            f"{', '.join(silent)}: named by the assignment, and not running now. What they have they keep, because no "
            "end of them was reported; the failover DAG takes it once they are found gone. To do "
            "without, name the instances that are to have tasks."
        )
    return running


def _places(tasks: Mapping[TaskId, TaskAssignment]) -> dict[TaskId, tuple[str | None, tuple[str, ...]]]:
    return {task_id: (task.active, task.standbys) for task_id, task in tasks.items()}
