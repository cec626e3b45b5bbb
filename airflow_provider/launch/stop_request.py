"""What a signal to the launcher becomes."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Final

from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.topics.writer import ControlWriter
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.launch.run_folder import RunFolder

_STORED_WITHIN_S: Final = 5.0
_LOOK_S: Final = 0.5


@dataclass(frozen=True)
class StopRequest:
    """Asks an instance for a clean shutdown: by a command, and by a signal to its driver where no broker answers.

    After either the driver finishes its transactions and closes its stores.

    Args:
        folder: of its launch, where the driver notes its process id.
    """

    settings: InstanceSettings
    folder: RunFolder
    process_group: int

    def send(self, writer: ControlWriter, cause: str) -> None:
        """Ask; return once the command is stored, or the driver has the signal."""
        instance = self.settings.instance
        _say(f"got {cause}, asks instance {instance} to stop")
        stop = Command(
            id=f"launcher-{time.time_ns()}",
            kind=CommandKind.STOP,
            instance=instance,
            incarnation=self.settings.incarnation,
            hand_over=None,
        )
        try:
            writer.write(stop, _STORED_WITHIN_S)
            return
        except StatefulStreamsError as error:
            _say(f"the stop command could not be given through Kafka ({error}): signals the driver itself")
        while (driver := self._driver()) is None:  # not yet up: what is to be stopped is still about to come
            time.sleep(_LOOK_S)
        os.kill(driver, signal.SIGTERM)
        _say(f"sent SIGTERM to the driver, process {driver}; what waits for a broker there may take a minute to end")

    def _driver(self) -> int | None:
        """The driver's process; None where it is not known, or is none of this launch's."""
        try:
            pid = int(self.folder.driver.read_text())
            return pid if os.getpgid(pid) == self.process_group else None
        except (OSError, ValueError):
            return None


def _say(what: str) -> None:
    print(f"launcher: {what}", file=sys.stderr, flush=True)
