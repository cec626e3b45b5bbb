"""An instance without Spark: sends heartbeats, obeys assignments and commands. Started by the real launcher."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from airflow_provider.control.command import CommandKind
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState, InstanceStatus, Role, TaskState, TaskStatus
from airflow_provider.control.writer import ControlWriter
from airflow_provider.streaming.settings import INSTANCE_FILE_VARIABLE, InstanceSettings


def main() -> int:
    settings = InstanceSettings.read(Path(os.environ[INSTANCE_FILE_VARIABLE]))
    reader = ControlReader(settings.connection, settings.application_id)
    writer = ControlWriter(settings.connection, settings.application_id)
    view, last, sent, seen, owned = reader.read_to_end(), None, 0.0, -1, {}
    while True:
        command = view.commands.get(settings.instance)
        if command and command.incarnation == settings.incarnation and command.id != last:
            last, sent = command.id, 0.0
            if command.kind is CommandKind.KILL:
                os.killpg(0, signal.SIGKILL)
        generation = view.assignment.generation if view.assignment else 0
        stopping = last is not None and command is not None and command.kind is CommandKind.STOP
        if stopping or generation != seen or time.monotonic() - sent > 0.5:
            seen, sent = generation, time.monotonic()
            state = InstanceState.STOPPED if stopping else InstanceState.RUNNING
            tasks = []
            for number, given in enumerate(view.assignment.tasks if view.assignment else ()):
                now = time.time_ns() // 1_000_000
                common = {"position": 10, "end": 10, "lag_records": 0, "lag_s": 0.0, "restored_records": 3}
                if given.active == settings.instance:
                    at = owned.setdefault((number, given.active_since), now)
                    tasks.append(
                        TaskStatus(number, Role.ACTIVE, TaskState.RUNNING, given.active_since, source_offset=7,
                                   owned_at_ms=at, first_commit_at_ms=at + 5, **common)
                    )  # fmt: skip
                elif settings.instance in given.standbys:
                    tasks.append(TaskStatus(number, Role.STANDBY, TaskState.FOLLOWING, generation, **common))
            status = InstanceStatus(
                settings.application_id, settings.instance, settings.incarnation, state, generation,
                host=os.uname().nodename, pid=os.getpid(), sent_at_ms=time.time_ns() // 1_000_000, tasks=tuple(tasks),
                last_command=last, log_file=settings.log_file, state_dir=settings.state_dir,
            )  # fmt: skip
            writer.write(status)
            if stopping:
                return 0
        reader.poll(0.1)


if __name__ == "__main__":
    sys.exit(main())
