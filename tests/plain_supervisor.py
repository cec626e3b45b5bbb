"""A supervisor of the plainest sort: a loop that starts ``run --supervised`` again, as its exit status says."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.launch.leftovers import InstanceProcesses

__all__ = ["PlainSupervisor"]

_LEFT_DOWN: Final = (ExitStatus.FINE, ExitStatus.PERMANENT)


class PlainSupervisor:
    """Keeps one instance.

    Args:
        application_id: the application.
        instance: its name.
        job: the job file.
        run_dir: of its launches.
        options: further words of the command.
        environment: added to this process's.
        log_file: for what the command says; None for this process's own output.
    """

    def __init__(
        self,
        application_id: str,
        instance: str,
        job: Path,
        run_dir: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        log_file: Path | None = None,
    ) -> None:
        self._words = [
            *(sys.executable, "-m", "airflow_provider", "run", str(job), "--supervised", "--run-dir", str(run_dir)),
            *("--application", application_id, "--instance", instance, *options),
        ]
        self._environment, self._log_file = os.environ | dict(environment or {}), log_file
        self._ended, self._free = threading.Event(), threading.Event()
        self._free.set()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.statuses: list[int] = []
        """Of every life that ended."""
        self.processes = InstanceProcesses(run_dir, application_id, instance)

    def start(self) -> None:
        self._thread.start()

    def kill_whole(self) -> None:
        """All processes of the instance and the command at once, as a host is lost; back after `bring_back`."""
        self._free.clear()
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
        self.processes.kill()
        if self._process is not None:
            self._process.kill()

    def bring_back(self) -> None:
        self._free.set()

    def stop(self, within_s: float = 120.0) -> None:
        """With SIGTERM; whatever is left then is killed."""
        self._ended.set()
        self._free.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
        if self._thread.ident is not None:
            self._thread.join(within_s)
        self.processes.kill()

    def _run(self) -> None:
        while self._free.wait() and not self._ended.is_set():
            with contextlib.ExitStack() as held:
                log = None if self._log_file is None else held.enter_context(self._log_file.open("ab"))
                self._process = subprocess.Popen(
                    self._words, env=self._environment, stdout=log, stderr=None if log is None else subprocess.STDOUT
                )
                self.statuses.append(self._process.wait())
            if self.statuses[-1] in _LEFT_DOWN:
                return
