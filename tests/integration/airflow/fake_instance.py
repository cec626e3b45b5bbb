"""An instance without Spark: sends heartbeats, obeys assignments and commands. Started by the real launcher."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.command import CommandKind
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState, InstanceStatus, Role, TaskState, TaskStatus
from airflow_provider.control.writer import ControlWriter
from airflow_provider.streaming.settings import INSTANCE_FILE_VARIABLE, InstanceSettings

HEARTBEAT_S = 0.5


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def tasks_of(
    instance: str, assignment: Assignment | None, owned_at_ms: dict[tuple[int, int], int]
) -> tuple[TaskStatus, ...]:
    """Its tasks, running or followed the moment they are assigned. Source offsets grow with the clock."""
    tasks = []
    for number, given in enumerate(assignment.tasks if assignment else ()):
        if given.active == instance:
            owned = owned_at_ms.setdefault((number, given.active_since), now_ms())
            tasks.append(
                TaskStatus(
                    number,
                    Role.ACTIVE,
                    TaskState.RUNNING,
                    given.active_since,
                    position=10,
                    source_offset=now_ms(),
                    restored_records=3,
                    owned_at_ms=owned,
                    first_commit_at_ms=owned + 5,
                )
            )
        elif instance in given.standbys:
            tasks.append(TaskStatus(number, Role.STANDBY, TaskState.FOLLOWING, position=10, lag_records=0, lag_s=0.0))
    return tuple(tasks)


def main() -> int:
    settings = InstanceSettings.read(Path(os.environ[INSTANCE_FILE_VARIABLE]))
    reader = ControlReader(settings.connection, settings.application_id)
    writer = ControlWriter(settings.connection, settings.application_id)
    view = reader.read_to_end()
    obeyed: str | None = None
    sent_at, sent_generation = 0.0, -1
    owned_at_ms: dict[tuple[int, int], int] = {}
    while True:
        command = view.commands.get(settings.instance)
        stopping = False
        if command is not None and command.incarnation == settings.incarnation and command.id != obeyed:
            obeyed, sent_at = command.id, 0.0
            stopping = command.kind is CommandKind.STOP
            if command.kind is CommandKind.KILL:
                os.killpg(0, signal.SIGKILL)
        generation = view.assignment.generation if view.assignment else 0
        if generation != sent_generation or time.monotonic() - sent_at > HEARTBEAT_S:
            sent_at, sent_generation = time.monotonic(), generation
            writer.write(
                InstanceStatus(
                    settings.application_id,
                    settings.instance,
                    settings.incarnation,
                    InstanceState.STOPPED if stopping else InstanceState.RUNNING,
                    generation,
                    host=os.uname().nodename,
                    pid=os.getpid(),
                    state_dir=settings.state_dir,
                    sent_at_ms=now_ms(),
                    tasks=tasks_of(settings.instance, view.assignment, owned_at_ms),
                    last_command=obeyed,
                    log_file=settings.log_file,
                )
            )
        if stopping:
            return 0
        reader.poll(0.1)


if __name__ == "__main__":
    sys.exit(main())
