"""``snapshot``: asks instances to copy their standbys' stores elsewhere now."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection

from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.table import table
from airflow_provider.cli.waiting import await_condition
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.conditions import SnapshotsTaken
from airflow_provider.control.liveness import Timeouts
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState, Role, SnapshotStatus
from airflow_provider.control.tasks import parse_tasks
from airflow_provider.control.view import ControlView
from airflow_provider.control.writer import ControlWriter
from airflow_provider.errors import InstanceError

__all__ = ["add_snapshot", "snapshot_commands"]


def add_snapshot(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``snapshot``."""
    snapshot = commands.add_parser("snapshot", help="have the standbys' stores copied elsewhere now")
    add_application_options(snapshot)
    snapshot.add_argument("--instance", metavar="INSTANCE", help="only its standbys")
    snapshot.add_argument("--task", action="append", default=[], metavar="0_3", help="only of this task")
    snapshot.add_argument("--no-wait", action="store_true", help="ask, and wait for nothing")
    snapshot.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="to wait (%(default)g)")
    snapshot.add_argument("--json", action="store_true", help="for programs")
    snapshot.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster, application_id = cluster_of(asked), asked.application_id
    with ControlReader(cluster, application_id) as reader:
        view = reader.read_to_end()
    commands = snapshot_commands(view, f"command-line-{time.time_ns()}", asked.instance, parse_tasks(asked.task))
    before = {command.id: _snapshots(view, command.instance, command.tasks) for command in commands}
    writer = ControlWriter(cluster, application_id)
    for command in commands:
        writer.write(command)
    writer.close()
    deadline = time.monotonic() + asked.timeout
    taken: dict[str, dict[str, int]] = {}
    for command in commands if not asked.no_wait else ():
        condition = SnapshotsTaken(command.instance, command.id, before[command.id])
        left_s = max(0.0, deadline - time.monotonic())
        taken[command.instance] = await_condition(cluster, application_id, condition, left_s)["positions"]
    if asked.json:
        print(json.dumps(taken, indent=2))
    elif asked.no_wait:
        print(f"asked {', '.join(command.instance for command in commands)}")
    else:
        rows = [(name, task, str(position)) for name, found in taken.items() for task, position in found.items()]
        print(table(("instance", "task", "snapshot at"), rows))
    return ExitStatus.FINE


def snapshot_commands(
    view: ControlView, run_id: str, instance: str | None = None, tasks: Collection[TaskId] = ()
) -> list[Command]:
    """What to ask of each instance that holds a standby.

    Args:
        view: the newest.
        run_id: of this command.
        instance: only this one; None for all that run.
        tasks: only of these; empty for all.

    Raises:
        InstanceError: no running instance holds such a standby.
    """
    running = view.healthy(Timeouts())
    found = []
    for name in running if instance is None else (instance,):
        status = view.statuses.get(name)
        if name in running and status is not None and status.state is InstanceState.RUNNING:
            held = tuple(
                task.task for task in status.tasks if task.role is Role.STANDBY and (not tasks or task.task in tasks)
            )
            if held:
                command = Command(
                    id=f"{run_id}/{name}",
                    kind=CommandKind.SNAPSHOT,
                    instance=name,
                    incarnation=status.incarnation,
                    tasks=held,
                )
                found.append(command)
    if not found:
        wanted = f"standby of {', '.join(map(str, tasks))}" if tasks else "standby"
        holds = f"instance {instance!r} of" if instance else "no running instance of"
        raise InstanceError(
            f"There is nothing to copy: {holds} {view.application_id!r} holds {'no' if instance else 'a'} {wanted}. "
            "Snapshots are taken of standbys; look at the status."
        )
    return found


def _snapshots(view: ControlView, instance: str, tasks: Collection[TaskId]) -> dict[TaskId, SnapshotStatus]:
    status = view.statuses[instance]
    return {task.task: task.snapshot for task in status.tasks if task.task in tasks}
