"""What a supervised instance's earlier process left on this host, and its end before the next one starts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from airflow_provider.errors import InstanceError
from airflow_provider.launch.instance_settings import INSTANCE_FILE_VARIABLE, PROCESS_OF_VARIABLE
from airflow_provider.launch.launcher import LAUNCHER, TIED

_LOOK_S: Final = 0.2
_SWEEPS: Final = 50
_SWEEP_S: Final = 0.02


@dataclass(frozen=True)
class InstanceProcesses:
    """The processes of an instance on this host: launcher, JVM, driver and Python workers.

    They are known by their environment, which every one inherits; so those are found, too, whose parent was killed.

    Args:
        run_dir: in which its launches have their folders.
    """

    run_dir: Path
    application_id: str
    instance: str

    def find(self) -> list[psutil.Process]:
        """Those that live, of this user."""
        return [process for process in psutil.process_iter() if self._is_one(process)]

    def launchers_of(self, parent: int) -> list[psutil.Process]:
        """Those that a process started itself."""
        found = []
        for process in self.find():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.ppid() == parent:
                    found.append(process)
        return found

    def end(self, within_s: float) -> int:
        """Wait for those that shut down cleanly, as a launcher does whose parent is gone; kill what is left then.

        Args:
            within_s: how long a clean shutdown may take.

        Returns:
            How many there were.

        Raises:
            InstanceError: one was launched otherwise than by a supervisor, and is left alone.
        """
        found = self.find()
        launchers = [process for process in found if LAUNCHER in _command(process)]
        if any(TIED not in _command(process) for process in launchers):
            raise InstanceError(
                f"{self.instance!r} of {self.application_id!r} runs on this host (process {launchers[0].pid}), and no "
                "supervisor started it: stop it first (`stateful-streams stop`), so that two never run at once."
            )
        if launchers:
            psutil.wait_procs(found, within_s)
        self.kill()
        return len(found)

    def kill(self) -> None:
        """With SIGKILL, and what they still start."""
        for _ in range(_SWEEPS):
            left = self.find()
            if not left:
                return
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            time.sleep(_SWEEP_S)

    def await_end(self, within_s: float) -> bool:
        """Whether they end within so many seconds."""
        deadline = time.monotonic() + within_s
        while self.find():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def _is_one(self, process: psutil.Process) -> bool:
        try:
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return False
            environment = process.environ()
        except (psutil.Error, OSError):
            return False
        if environment.get(PROCESS_OF_VARIABLE) != f"{self.application_id}/{self.instance}":
            return False
        file = environment.get(INSTANCE_FILE_VARIABLE)
        return file is not None and Path(file).parent.parent == self.run_dir


def _command(process: psutil.Process) -> Sequence[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return ()
