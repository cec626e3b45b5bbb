"""Has an instance stand still for a drill, and lets it go on: as a process of its own, because a stopped one cannot.

Started by the instance's driver (`airflow_provider.streaming.faults.fault_injector`), in a process group of its own and
in the launcher's session, so that it ends with what else the launcher ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import KafkaException

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.drill_fault import LONGEST_FAULT_S
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.run_folder import RunFolder

_TOLD_S: Final = 20.0
"""For the heartbeat that tells of the fault."""
_LOOK_S: Final = 0.1
_SWEEPS: Final = 50


def run_elsewhere(view: ControlView, instance: str, incarnation: int, tasks: Collection[TaskId]) -> bool:
    """Whether the tasks of an instance run on others, or a newer process has its name."""
    status = view.statuses.get(instance)
    if status is not None and status.incarnation > incarnation:
        return True
    return all(_runs_elsewhere(view, instance, task_id) for task_id in tasks)


def _runs_elsewhere(view: ControlView, instance: str, task_id: TaskId) -> bool:
    given = view.assignment.tasks.get(task_id) if view.assignment else None
    if given is None or given.active in (None, instance):
        return False
    owner = view.statuses.get(given.active or "")
    task = owner.task(task_id) if owner else None
    return task is not None and task.state is TaskState.RUNNING and task.generation >= given.active_since


def hang(settings: InstanceSettings, process_group: int, command: str) -> None:
    """Stop every process of an instance once its heartbeat names the command, until its tasks run elsewhere."""
    with ControlReader(settings.connection, settings.application_id) as reader:
        view = reader.read_to_end()
        _wait(reader, lambda: _told(view, settings.instance, command), _TOLD_S)
        tasks = view.assignment.active_on(settings.instance) if view.assignment else ()
        stopped: dict[int, psutil.Process] = {}
        try:
            _stop(process_group, stopped)
            began = time.monotonic()
            _wait(reader, lambda: run_elsewhere(view, settings.instance, settings.incarnation, tasks), LONGEST_FAULT_S)
        finally:
            for process in stopped.values():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)
        print(f"drill: stood still for {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def _wait(reader: ControlReader, met: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not met() and time.monotonic() < deadline:
        try:
            reader.poll(_LOOK_S)
        except (StatefulStreamsError, KafkaException):
            time.sleep(_LOOK_S)


def _told(view: ControlView, instance: str, command: str) -> bool:
    status = view.statuses.get(instance)
    return status is not None and command in status.last_commands


def _stop(process_group: int, stopped: dict[int, psutil.Process]) -> None:
    """Stop all of them, the workers' daemon too, which leads a group of its own; what is still forked, next time."""
    for _ in range(_SWEEPS):
        left = [process for process in _family(process_group) if process.pid not in stopped]
        if not left:
            return
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
                stopped[process.pid] = process


def _family(process_group: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(process_group)
        yield leader
        yield from (process for process in leader.children(recursive=True) if process.pid != os.getpid())


def main(arguments: Sequence[str] | None = None) -> int:
    """Have the instance of a run folder stand still."""
    parser = argparse.ArgumentParser(prog="hang", description=__doc__.partition("\n\n")[0])
    parser.add_argument("run_dir", type=Path, help="folder of the instance's launch")
    parser.add_argument("command", help="id of the drill's command")
    given = parser.parse_args(arguments)
    folder = RunFolder(given.run_dir)
    # A signal that ends this process must not leave the instance standing.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    hang(InstanceSettings.read(folder.settings), int(folder.process_group.read_text()), given.command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
