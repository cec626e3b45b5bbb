"""A drill's faults, as an instance injects them into itself."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.command import Command, CommandKind
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.worker.store_fault import StoreFault, StoreFaultKind

__all__ = ["FaultInjector"]

log = logging.getLogger(__name__)

_HANG: Final = "airflow_provider.launch.hang"


class FaultInjector:
    """Injects faults into the processes of this instance, once a drill asks for it and the job allows it.

    Args:
        settings: of the instance.
    """

    def __init__(self, settings: InstanceSettings) -> None:
        self._settings = settings
        self._by_kind: Mapping[CommandKind, Callable[[Command], None]] = {
            CommandKind.KILL: self._kill,
            CommandKind.HANG: self._hang,
            CommandKind.LOSE_STORE: partial(self._befall_stores, StoreFaultKind.LOST),
            CommandKind.CORRUPT_STORE: partial(self._befall_stores, StoreFaultKind.CORRUPTED),
        }
        self.of_stores: dict[TaskId, StoreFault] = {}
        """By task, what is to befall its store: for the workers, which have the stores open."""
        self._helpers: list[subprocess.Popen[bytes]] = []

    def inject(self, command: Command) -> None:
        """Do what a drill asks, or begin it.

        Args:
            command: of a kind that is a fault.
        """
        log.warning("a drill's fault is injected: %s (%s)", command.kind.value, command.id)
        self._by_kind[command.kind](command)

    def _kill(self, _: Command) -> None:
        os.killpg(os.getpgrp(), signal.SIGKILL)

    def _hang(self, command: Command) -> None:
        # What stands still cannot wake itself: a process outside of the group does.
        self._start(_HANG, self._settings.run_dir, command.id)

    def _befall_stores(self, kind: StoreFaultKind, command: Command) -> None:
        fault = StoreFault(id=command.id, kind=kind, generation=command.generation or 0)
        self.of_stores.update(dict.fromkeys(command.tasks, fault))

    def _start(self, module: str, *arguments: str) -> None:
        self._helpers = [helper for helper in self._helpers if helper.poll() is None]
        command = [sys.executable, "-P", "-m", module, *arguments]
        self._helpers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0))
