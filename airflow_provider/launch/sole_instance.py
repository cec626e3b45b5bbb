"""At most one process of a supervised instance on a host: its lock, and the end of what an earlier one left."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from airflow_provider.common.clock import wait_until
from airflow_provider.common.files import create_private_file, make_private_folder
from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.launch.instance_settings import INSTANCE_FILE_VARIABLE, PROCESS_OF_VARIABLE
from airflow_provider.launch.launcher import LAUNCHER, TIED, kill_all

_LOOK_S: Final = 0.2
_PASSING: Final = frozenset({errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC})
"""What keeps a folder from being written that may be over by the next try."""


class InstanceLock:
    """Held by the process that keeps an instance, until it ends, however it ends."""

    def __init__(self, run_dir: Path, application_id: str, instance: str) -> None:
        # A character that no name may have.
        self._path = run_dir / f"{application_id}@{instance}.lock"
        self._instance = instance

    @contextmanager
    def held(self, within_s: float) -> Iterator[None]:
        """Hold it within the block.

        Raises:
            InstanceError: another process keeps the instance.
            ConfigurationError: the folder cannot be written, or another user could replace the file.
        """
        try:
            make_private_folder(self._path.parent)
            with contextlib.suppress(FileExistsError):
                create_private_file(self._path)
            file = self._path.open("r+")
        except OSError as error:
            text = f"The run folder {self._path.parent} cannot be written ({error})"
            if error.errno in _PASSING:
                raise InstanceError(f"{text}: make room for it.") from error
            raise ConfigurationError(f"{text}: let this user own it, or name another one (--run-dir).") from error
        with file:
            if not wait_until(lambda: _lock(file.fileno()), within_s, _LOOK_S):
                raise InstanceError(
                    f"{self._instance!r} is kept by process {file.read() or 'unknown'} of this host: let its "
                    "supervisor stop that first, so that two never run at once."
                )
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def is_held(self) -> bool:
        """Whether a process keeps the instance."""
        try:
            with self._path.open("r+") as file:
                return not _lock(file.fileno())
        except OSError:
            return False


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class InstanceProcesses:
    """The processes of an instance on this host: launcher, JVM, driver and Python workers.

    They are known by their environment, which every one inherits; so those are found, too, whose parent was killed.
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
        kill_all(self.find)

    def await_end(self, within_s: float) -> bool:
        """Whether they end within so many seconds."""
        return wait_until(lambda: not self.find(), within_s, _LOOK_S)

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
