"""An instance without Spark: sends heartbeats, follows assignments and commands. Started by the real launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.drill_fault import DRILLS
from airflow_provider.control.records.status import (
    CertificateStatus,
    DiskStatus,
    FailureStatus,
    FaultStatus,
    InstanceState,
    InstanceStatus,
    ProcessStatus,
    RestoreStatus,
    Role,
    SnapshotStatus,
    SourceStatus,
    TaskStatus,
)
from airflow_provider.control.records.task_state import TaskRestore, TaskState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.launch.instance_settings import INSTANCE_FILE_VARIABLE, InstanceSettings
from airflow_provider.launch.run_folder import Pulse, RunFolder

HEARTBEAT_S = 0.5


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def tasks_of(
    instance: str,
    assignment: Assignment | None,
    owned_at_ms: dict[tuple[TaskId, int], int],
    snapshots: dict[TaskId, SnapshotStatus],
    certificates: dict[TaskId, CertificateStatus],
    faults: dict[TaskId, Command],
    replays: dict[TaskId, str],
) -> tuple[TaskStatus, ...]:
    """Its tasks, running or followed the moment they are assigned. Source offsets grow with the clock."""
    tasks = []
    unasked = CertificateStatus(10, now_ms()) if "CERTIFIED" in os.environ else CertificateStatus()
    no_input = os.environ.get("NO_INPUT", "").split(",")
    for task_id, given in assignment.tasks.items() if assignment else ():
        fault = faults.get(task_id)
        fault_id = None if fault is None else fault.id
        if given.active == instance and fault is not None and given.active_since <= (fault.generation or 0):
            tasks.append(
                TaskStatus(
                    task=task_id,
                    role=Role.ACTIVE,
                    state=TaskState.FAILED,
                    generation=given.active_since,
                    failure=FailureStatus("StoreCorruptedError", "the store was removed"),
                    fault=fault_id,
                    replay=replays.get(task_id),
                )
            )
        elif given.active == instance:
            owned = owned_at_ms.setdefault((task_id, given.active_since), now_ms())
            tasks.append(
                TaskStatus(
                    task=task_id,
                    role=Role.ACTIVE,
                    state=TaskState.RUNNING,
                    generation=given.active_since,
                    position=10,
                    end=10,
                    source_offset=now_ms(),
                    # Each owner goes on where the one before was; one that lost commits goes on before that.
                    resumed_offset=5 if "LOSE_COMMITS" in os.environ else owned,
                    restore=RestoreStatus(records=3),
                    owned_at_ms=owned,
                    first_commit_at_ms=None if str(task_id) in no_input else owned + 5,
                    late_records=int(os.environ.get("LATE", "0")),
                    failed_records=int(os.environ.get("LEFT_OUT", "0")),
                    source=SourceStatus(end=0, lag_records=int(os.environ.get("SOURCE_LAG", "0"))),
                    fault=fault_id,
                    replay=replays.get(task_id),
                )
            )
        elif instance in given.standbys:
            tasks.append(
                TaskStatus(
                    task=task_id,
                    role=Role.STANDBY,
                    state=TaskState.FOLLOWING,
                    position=10,
                    lag_records=0,
                    lag_s=0.0,
                    snapshot=snapshots.get(task_id, SnapshotStatus()),
                    certificate=certificates.get(task_id, unasked),
                    restore=RestoreStatus(records=3),
                    fault=fault_id,
                    replay=replays.get(task_id),
                )
            )
    return tuple(tasks)


def main() -> int:
    settings = InstanceSettings.read(Path(os.environ[INSTANCE_FILE_VARIABLE]))
    reader = ControlReader(settings.connection, settings.application_id)
    writer = ControlWriter(settings.connection, settings.application_id)
    view = reader.read_to_end()
    folder = RunFolder(Path(settings.run_dir))
    pulse = Pulse(folder.pulse)
    folder.driver.write_text(str(os.getpid()))
    seen: tuple[str, ...] = ()
    refusals: dict[str, str] = {}
    hand_over: bool | None = None
    paused = False
    sent_at, sent_generation = 0.0, -1
    owned_at_ms: dict[tuple[TaskId, int], int] = {}
    snapshots: dict[TaskId, SnapshotStatus] = {}
    certificates: dict[TaskId, CertificateStatus] = {}
    faults: dict[TaskId, Command] = {}
    replays: dict[TaskId, str] = {}
    held: FaultStatus | None = None
    while True:
        done, stopping = [], False
        for command in view.commands.get(settings.instance, {}).values():
            done.append(command)
            if command.incarnation == settings.incarnation and command.id not in seen:
                seen, sent_at = (*seen, command.id), 0.0
                if command.kind is CommandKind.STOP:
                    stopping, hand_over = True, command.hand_over
                if command.kind is CommandKind.SNAPSHOT and "NO_SNAPSHOTS" in os.environ:
                    refusals[command.id] = "the job takes no snapshots"
                elif command.kind is CommandKind.SNAPSHOT:
                    snapshots |= dict.fromkeys(command.tasks, SnapshotStatus(10, now_ms()))
                if command.kind is CommandKind.CERTIFY:
                    found = CertificateStatus(10, now_ms(), 0, command.id)
                    if "DIVERGES" in os.environ:
                        found = CertificateStatus(divergences=1, command=command.id)
                    certificates |= dict.fromkeys(command.tasks, found)
                if command.kind is CommandKind.REPLAY:
                    replays |= dict.fromkeys(command.tasks, command.id)
                if command.kind in (CommandKind.PAUSE, CommandKind.RESUME):
                    paused = command.kind is CommandKind.PAUSE
                if command.kind in {spec.command for spec in DRILLS.values()} and "REFUSE_FAULTS" in os.environ:
                    refusals[command.id] = "the job allows no faults"
                elif command.kind is CommandKind.HANG:
                    helper = [
                        sys.executable,
                        "-m",
                        "airflow_provider.streaming.faults.hang",
                        settings.run_dir,
                        command.id,
                    ]
                    subprocess.Popen(helper, process_group=0)
                elif command.kind is CommandKind.SHADOW_RESTORE:
                    (task,) = command.tasks
                    replayed = TaskRestore(task=task, instance=settings.instance, records=7, bytes=70, took_s=0.1)
                    held = FaultStatus(id=command.id, over=True, restores=(replayed,))
                elif command.kind in (CommandKind.LOSE_STORE, CommandKind.CORRUPT_STORE):
                    faults |= dict.fromkeys(command.tasks, command)
                elif command.kind is CommandKind.KILL:
                    os.killpg(0, signal.SIGKILL)
        pulse.beat(InstanceState.RUNNING)
        generation = view.assignment.generation if view.assignment else 0
        if generation != sent_generation or time.monotonic() - sent_at > HEARTBEAT_S:
            sent_at, sent_generation = time.monotonic(), generation
            writer.write(
                InstanceStatus(
                    application_id=settings.application_id,
                    instance=settings.instance,
                    incarnation=settings.incarnation,
                    state=InstanceState.STOPPED if stopping else InstanceState.RUNNING,
                    generation=generation,
                    process=ProcessStatus(
                        host=os.uname().nodename,
                        pid=os.getpid(),
                        log_file=settings.log_file,
                        ui_url=os.environ.get("UI_URL"),
                    ),
                    disk=DiskStatus(settings.state_dir, 4_096, 1 << 30),
                    sent_at_ms=now_ms(),
                    tasks=tasks_of(
                        settings.instance, view.assignment, owned_at_ms, snapshots, certificates, faults, replays
                    ),
                    paused=paused,
                    last_commands=seen,
                    refusals=refusals,
                    stop_hand_over=hand_over,
                    fault=held,
                )
            )
        for command in done:
            writer.forget(command)
        if stopping:
            writer.close()
            return 0
        reader.poll(0.1)


if __name__ == "__main__":
    sys.exit(main())
