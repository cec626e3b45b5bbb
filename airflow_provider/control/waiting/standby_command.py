"""Asking instances for something of their standbys: a snapshot, or a comparison, now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import InstanceState, Role
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.standby import AllOf, SnapshotsTaken, StandbysCompared
from airflow_provider.errors import InstanceError

_NOTHING: Final = {
    CommandKind.SNAPSHOT: ("copy", "Snapshots are taken of standbys"),
    CommandKind.CERTIFY: ("compare", "Standbys are compared with their actives"),
}


def standby_commands(
    view: ControlView,
    kind: CommandKind,
    run_id: str,
    instances: Collection[str] | None = None,
    tasks: Collection[TaskId] = (),
) -> list[Command]:
    """What to ask of each instance that holds a standby.

    Args:
        kind: `CommandKind.SNAPSHOT` or `CommandKind.CERTIFY`.
        run_id: begins the ids of the commands; another one for each time that it is asked.
        instances: only these; None for all that run.
        tasks: only of these; empty for all.

    Raises:
        InstanceError: no running instance holds such a standby.
    """
    running = view.healthy(Timeouts())
    found = []
    for name in running if instances is None else instances:
        status = view.statuses.get(name)
        if name in running and status is not None and status.state is InstanceState.RUNNING:
            held = tuple(
                task.task for task in status.tasks if task.role is Role.STANDBY and (not tasks or task.task in tasks)
            )
            if held:
                command = Command(
                    id=f"{run_id}/{name}", kind=kind, instance=name, incarnation=status.incarnation, tasks=held
                )
                found.append(command)
    if not found:
        do, why = _NOTHING[kind]
        wanted = f"standby of {', '.join(map(str, tasks))}" if tasks else "standby"
        named = ", ".join(map(repr, instances or ()))
        holds = f"instance {named} of" if named else "no running instance of"
        raise InstanceError(
            f"There is nothing to {do}: {holds} {view.application_id!r} holds {'no' if named else 'a'} {wanted}. "
            f"{why}; look at the status."
        )
    return found


def done(view: ControlView, commands: Collection[Command]) -> AllOf:
    """What to wait for after `standby_commands`.

    Args:
        view: as it was when the commands were made.
        commands: those that are written.
    """
    return AllOf(tuple(_done(view, command) for command in commands))


def _done(view: ControlView, command: Command) -> SnapshotsTaken | StandbysCompared:
    status = view.statuses[command.instance]
    standbys = [task for task in status.tasks if task.task in command.tasks]
    if command.kind is CommandKind.SNAPSHOT:
        return SnapshotsTaken(command.instance, command.id, {task.task: task.snapshot for task in standbys})
    certificates = {task.task: task.certificate for task in standbys}
    return StandbysCompared(command.instance, status.incarnation, command.id, certificates)
