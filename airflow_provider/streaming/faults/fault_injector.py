"""A drill's faults, as an instance injects them into itself."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec

from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.status import FailureStatus, FaultStatus, InstanceStatus
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.run_folder import RunFolder
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.faults.shadow_restore import ShadowRestore, ShadowResult
from airflow_provider.streaming.faults.store_fault import StoreFault, StoreFaultKind
from airflow_provider.streaming.planner.stage_spec import StageSpec

__all__ = ["FaultInjector"]

log = logging.getLogger(__name__)

_HANG: Final = "airflow_provider.streaming.faults.hang"
_SHADOW: Final = "airflow_provider.streaming.faults.shadow_restore"
_NOT_BESIDE: Final = (
    "the stores lie on a Spark executor's host, and a changelog is replayed beside them by the driver: drill a lost "
    "store"
)


class FaultReport(Protocol):
    """What is needed here of a `Heartbeat`."""

    def set_fault(self, fault: FaultStatus) -> None:
        """Report a fault that lasts for a while, or its end."""


class FaultInjector:
    """Injects faults into the processes of this instance, once a drill asks for it and the job allows it.

    Args:
        settings: of the instance.
        stages: of the job, by number.
        report: gets what lasts for a while.
        stores_here: whether the stores lie on the driver's host.
    """

    def __init__(
        self,
        settings: InstanceSettings,
        stages: Mapping[int, StageSpec],
        report: FaultReport,
        *,
        stores_here: bool = True,
    ) -> None:
        self._settings, self._stages, self._report, self._stores_here = settings, stages, report, stores_here
        self._by_kind: Mapping[CommandKind, Callable[[Command], None]] = {
            CommandKind.KILL: self._kill,
            CommandKind.HANG: self._hang,
            CommandKind.LOSE_STORE: partial(self._befall_stores, StoreFaultKind.LOST),
            CommandKind.CORRUPT_STORE: partial(self._befall_stores, StoreFaultKind.CORRUPTED),
            CommandKind.SHADOW_RESTORE: self._shadow_restore,
        }
        self.of_stores: dict[TaskId, StoreFault] = {}
        """By task, what befalls its store, or did: for the workers, which have the stores open."""
        self._helpers: list[subprocess.Popen[bytes]] = []

    def inject(self, command: Command) -> str | None:
        """Do what a drill asks, or begin it.

        Args:
            command: of a kind that is a fault.

        Returns:
            Why it is refused; None where it is not.
        """
        if command.kind is CommandKind.SHADOW_RESTORE and not self._stores_here:
            return _NOT_BESIDE
        log.warning("a drill's fault is injected: %s (%s)", command.kind.value, command.id)
        self._by_kind[command.kind](command)
        return None

    def settle(self, told: InstanceStatus | None) -> bool:
        """Whether a status tells of stores that something has befallen: it does not befall them again.

        What becomes of them later is not the drill's doing, even where the note beside the store is gone, too.

        Args:
            told: the newest status of this instance; None before the first.
        """
        if told is None:
            return False
        settled = {
            task_id: dataclasses.replace(fault, done=True)
            for task_id, fault in self.of_stores.items()
            if not fault.done and (copy := told.task(task_id)) is not None and copy.fault == fault.id
        }
        self.of_stores.update(settled)
        return bool(settled)

    def _kill(self, _: Command) -> None:
        os.killpg(os.getpgrp(), signal.SIGKILL)

    def _hang(self, command: Command) -> None:
        # What stands still cannot wake itself: a process outside of the group does.
        self._start(_HANG, self._settings.run_dir, command.id)

    def _befall_stores(self, kind: StoreFaultKind, command: Command) -> None:
        fault = StoreFault(id=command.id, kind=kind, generation=command.generation or 0)
        self.of_stores.update(dict.fromkeys(command.tasks, fault))

    def _shadow_restore(self, command: Command) -> None:
        self._report.set_fault(FaultStatus(id=command.id))
        in_thread(lambda: self._replay_shadows(command), "shadow-restore")

    def _replay_shadows(self, command: Command) -> None:
        """Each task by a process of its own, in the group of this one, so that it ends with the instance."""
        results: list[ShadowResult] = []
        for task_id in command.tasks:
            folder = StateDirectory(Path(self._settings.state_dir), self._settings.application_id)
            stage = self._stages[task_id.stage]
            asked = ShadowRestore.of(stage, self._settings.instance, task_id, folder.shadow(task_id, stage.store.name))
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
