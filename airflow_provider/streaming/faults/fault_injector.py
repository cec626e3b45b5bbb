"""A drill's faults, as an instance injects them into itself."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import FailureStatus, FaultStatus, TaskStatus
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.run_folder import RunFolder
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.faults.shadow_restore import ShadowRestore, ShadowResult
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.handover import release_store

log = logging.getLogger(__name__)

T = TypeVar("T")

_HANG: Final = "airflow_provider.streaming.faults.hang"
_SHADOW: Final = "airflow_provider.streaming.faults.shadow_restore"
_NOT_BESIDE: Final = (
    "the stores lie on a Spark executor's host, and a changelog is replayed beside them by the driver: drill a lost "
    "store"
)


class FaultReport(Protocol):
    """What is needed here of a `Heartbeat`."""

    def set_fault(self, fault: FaultStatus) -> None: ...
    def report(self, slot: int, statuses: tuple[TaskStatus, ...]) -> None: ...


class Host(Protocol):
    """What is needed here of a `StoreHost`."""

    is_here: bool
    """Whether it is the driver's."""

    def call(self, function: Callable[[], T]) -> T: ...


class Slot(Protocol):
    """What is needed here of a `SlotDriver`."""

    def at_rest(self, action: Callable[[], None]) -> None: ...


class FaultInjector:
    """Injects faults into the processes of this instance, once a drill asks for it and the job allows it.

    Args:
        report: gets what lasts for a while, and of which tasks a drill has taken the stores.
    """

    def __init__(
        self,
        settings: InstanceSettings,
        stages: Mapping[int, StageSpec],
        report: FaultReport,
        host: Host,
        assignment: Callable[[], Assignment | None],
        slot_of: Callable[[TaskId], Slot],
    ) -> None:
        self._settings, self._stages, self._report = settings, stages, report
        self._host, self._assignment, self._slot_of = host, assignment, slot_of
        self._directory = StateDirectory(Path(settings.state_dir), settings.application_id)
        self._by_kind: Mapping[CommandKind, Callable[[Command], None]] = {
            CommandKind.KILL: self._kill,
            CommandKind.HANG: self._hang,
            CommandKind.LOSE_STORE: partial(self._befall_stores, lose_store),
            CommandKind.CORRUPT_STORE: partial(self._befall_stores, corrupt_store),
            CommandKind.SHADOW_RESTORE: self._shadow_restore,
        }
        # By task, the last fault of its store. Changed between two calls of its slot: a status after it knows of it.
        self._befallen: dict[TaskId, str] = {}
        self._helpers: list[subprocess.Popen[bytes]] = []

    def inject(self, command: Command) -> str | None:
        """Do what a drill asks, or begin it; returns why it is refused, None where it is not."""
        if command.kind is CommandKind.SHADOW_RESTORE and not self._host.is_here:
            return _NOT_BESIDE
        log.warning("a drill's fault is injected: %s (%s)", command.kind.value, command.id)
        self._by_kind[command.kind](command)
        return None

    def report(self, slot: int, statuses: tuple[TaskStatus, ...]) -> None:
        """Report the tasks of a slot, each with the last fault of its store."""
        of = self._befallen
        self._report.report(slot, tuple(dataclasses.replace(one, fault=of.get(one.task)) for one in statuses))

    def _kill(self, _: Command) -> None:
        with contextlib.suppress(OSError):
            RunFolder(Path(self._settings.run_dir)).fault.touch()  # for the launcher, which says how it ended
        os.killpg(os.getpgrp(), signal.SIGKILL)

    def _hang(self, command: Command) -> None:
        # What stands still cannot wake itself: a process outside of the group does.
        self._start(_HANG, self._settings.run_dir, command.id)

    def _befall_stores(self, deed: Callable[[Path], None], command: Command) -> None:
        # In a thread: the call that is under way may take long.
        for task_id in command.tasks:
            in_thread(partial(self._befall_store, deed, command, task_id), "store-fault")

    def _befall_store(self, deed: Callable[[Path], None], command: Command, task_id: TaskId) -> None:
        def befall() -> None:
            newest = self._assignment()
            if newest is not None and newest.generation > (command.generation or 0):
                # A copy that was promoted since is the only one left.
                log.warning("fault %s is left: generation %d is newer", command.id, newest.generation)
                return
            self._host.call(partial(deed, self._directory.database(task_id)))
            self._befallen[task_id] = command.id

        try:
            self._slot_of(task_id).at_rest(befall)
        except Exception:
            log.exception("the store of task %s could not be given fault %s", task_id, command.id)

    def _shadow_restore(self, command: Command) -> None:
        self._report.set_fault(FaultStatus(id=command.id))
        in_thread(lambda: self._replay_shadows(command), "shadow-restore")

    def _replay_shadows(self, command: Command) -> None:
        """Each task by a process of its own, in the group of this one, so that it ends with the instance."""
        results: list[ShadowResult] = []
        for task_id in command.tasks:
            stage = self._stages[task_id.stage]
            asked = ShadowRestore.of(
                stage, self._settings.instance, task_id, self._directory.shadow(task_id, stage.store.name)
            )
            words = [*_python(_SHADOW), to_json(asked).decode(), str(RunFolder(Path(self._settings.run_dir)).settings)]
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
            try:
                results.append(from_json(done.stdout, ShadowResult))
            except msgspec.DecodeError:
                how = f"the process that replays it ended with status {done.returncode}: look at this instance's log"
                results.append(ShadowResult(failure=FailureStatus("InstanceError", how)))
        self._report.set_fault(
            FaultStatus(
                id=command.id,
                over=True,
                restores=tuple(restore for result in results for restore in result.restores),
                failure=next((result.failure for result in results if result.failure is not None), None),
                unmeasured=next((result.unmeasured for result in results if result.unmeasured is not None), None),
            )
        )

    def _start(self, module: str, *arguments: str) -> None:
        self._helpers = [helper for helper in self._helpers if helper.poll() is None]
        command = [*_python(module), *arguments]
        self._helpers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0))


def _python(module: str) -> list[str]:
    # Without the current folder on the path: others may be able to put modules there.
    return [sys.executable, "-P", "-m", module]


_DAMAGED_BYTES: Final = 4096


def lose_store(path: Path) -> None:
    """Remove its files at once, under the worker that has it open, which finds that with its next call."""
    gone = path.with_name(f"{path.name}.lost")
    shutil.rmtree(gone, ignore_errors=True)
    path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    log.warning("a drill removed %s", path)


def corrupt_store(path: Path) -> None:
    """Flip the bits of the end of its largest SST file, with its index and its footer, which opening it finds at once.

    Where another kind of store lies there, of what says which one: whether a user's own would find it is not known.

    So its worker is asked to close it before: the next call opens it again.
    """
    release_store(path)
    tables = [*path.glob("*.sst")] or [*path.glob("MANIFEST-*")] or [path / "KIND"]
    victim = max(tables, key=lambda file: (file.stat().st_size, file.name))
    size = victim.stat().st_size
    with victim.open("r+b") as file:
        file.seek(max(0, size - _DAMAGED_BYTES))
        at, data = file.tell(), file.read()
        file.seek(at)
        file.write(bytes(byte ^ 0xFF for byte in data))
    log.warning("a drill damaged the last %d bytes of %s", len(data), victim)
