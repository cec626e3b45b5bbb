"""The folder of one launch of an instance, and how many of them are kept."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from airflow_provider.common.clock import wait_until
from airflow_provider.common.files import create_private_file, make_private_folder
from airflow_provider.control.records.status import InstanceState

RUN_DIR: Final = "~/.local/state/stateful-streams"
"""In which launches have their folders where nothing else was said."""

_LOCK: Final = "lock"
_LOOK_S: Final = 0.1


class RunFolder:
    """One launch's folder: readable for its user alone, and emptied of scratch and secrets when its process ended.

    ::

        <run_dir>/<application id>-<instance>-<incarnation>/
            instance.json     the settings, with the password; removed with the process
            command.json      what the launcher starts
            process_group     of what it started
            driver            the driver's process id, once it runs; written by the driver
            fault             there once a drill kills the process
            pulse             the instance's state, touched with each heartbeat (`Pulse`); removed with the process
            lock              locked as long as the launcher or what it started lives
            instance.log      and instance.log.1, the older half of a long one
            tmp/              Spark's, the JVM's and the workers' temporary files; removed with the process
            checkpoint/       of the queries that run; removed with the process

    Args:
        path: of the folder; its name ends with the incarnation.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "instance.json"
        self.command = path / "command.json"
        self.process_group = path / "process_group"
        self.driver = path / "driver"
        self.fault = path / "fault"
        self.pulse = path / "pulse"
        self.log = path / "instance.log"
        self.older_log = path / "instance.log.1"
        self.temporary = path / "tmp"
        self.checkpoint = path / "checkpoint"

    def make(self) -> None:
        """Make it, with an empty log.

        Raises:
            ConfigurationError: another user could read or replace what is kept there.
            OSError: it cannot be made, or holds a launch already.
        """
        make_private_folder(self.path)
        make_private_folder(self.temporary)
        create_private_file(self.log)
        create_private_file(self.path / _LOCK)

    def lock(self) -> BinaryIO:
        """Mark it as in use.

        The mark lasts as long as any process has the file open, so it is given to the launched process as its
        standard input, which everything that it starts in turn inherits.
        """
        file = (self.path / _LOCK).open("r+b")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def in_use(self) -> bool:
        """Whether its process lives; taken for granted where that cannot be found out."""
        try:
            with (self.path / _LOCK).open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def await_end(self, within_s: float) -> bool:
        """Whether its process ends within so many seconds: one that was killed holds its files for a while still."""
        return wait_until(lambda: not self.in_use(), within_s, _LOOK_S)

    def clear(self) -> None:
        """Remove the secrets and the scratch of a process that ended; the log stays."""
        with suppress(OSError):
            self.settings.unlink(missing_ok=True)
            self.driver.unlink(missing_ok=True)
            Pulse(self.pulse).remove()
        shutil.rmtree(self.temporary, ignore_errors=True)
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def rotate_log(self, max_bytes: int) -> bool:
        """Set a log aside that has become too long. Its writers keep it open, so it is copied and then emptied.

        What is written between the two, some lines at most, is lost.

        Returns:
            Whether it was too long.
        """
        with suppress(OSError):
            if self.log.stat().st_size > max_bytes:
                self.older_log.unlink(missing_ok=True)
                create_private_file(self.older_log)
                shutil.copyfile(self.log, self.older_log)
                os.truncate(self.log, 0)
                return True
        return False

    def clear_earlier(self, max_folders: int = 10, max_days: float = 30.0, now_s: float | None = None) -> None:
        """Clear the folders of earlier launches of the instance whose process ended, and remove the outdated ones.

        Args:
            max_days: how old they may become; the newest is kept however old it is.
        """
        now_s = time.time() if now_s is None else now_s
        ended = [folder for folder in self._earlier() if not folder.in_use()]
        for number, folder in enumerate(ended):
            folder.clear()
            old = now_s - _changed_at_s(folder.log) > max_days * 86_400
            if number >= max(1, max_folders) or (number > 0 and old):
                shutil.rmtree(folder.path, ignore_errors=True)

    @classmethod
    def newest(cls, run_dir: Path, application_id: str, instance: str) -> RunFolder | None:
        """That of the newest launch of an instance below a folder; None where there is none."""
        with suppress(OSError):
            named = _launches(run_dir, f"{application_id}-{instance}")
            return cls(max(named)[1]) if named else None
        return None

    @classmethod
    def incarnations(cls, run_dir: Path, application_id: str, instance: str) -> list[int]:
        """Of the launches whose folders are still there, the newest first: the times of them, epoch ms."""
        with suppress(OSError):
            return sorted((number for number, _ in _launches(run_dir, f"{application_id}-{instance}")), reverse=True)
        return []

    @property
    def incarnation(self) -> int:
        """Of the process that was launched."""
        return int(self.path.name.rpartition("-")[2])

    def _earlier(self) -> list[RunFolder]:
        """Of earlier launches of the same instance, the newest first."""
        base, _, own = self.path.name.rpartition("-")
        if not base or not own.isdigit():
            return []
        found = sorted(_launches(self.path.parent, base), reverse=True)
        return [
            RunFolder(path) for number, path in found if number < int(own) and path.is_dir() and not path.is_symlink()
        ]


def _launches(folder: Path, base: str) -> list[tuple[int, Path]]:
    """What lies in a folder under the name of an instance's launch: the incarnation, and the path."""
    form = re.compile(rf"{re.escape(base)}-(\d+)")
    return [(int(found[1]), path) for path in folder.iterdir() if (found := form.fullmatch(path.name))]


def _changed_at_s(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


@dataclass(frozen=True)
class Beat:
    """The last sign of life.

    Args:
        at_ns: when that was, epoch ns of the host.
    """

    state: InstanceState
    at_ns: int


class Pulse:
    """The file that an instance's heartbeat touches."""

    def __init__(self, path: Path) -> None:
        self._path, self._new = path, path.with_suffix(".new")
        self._written: InstanceState | None = None

    def beat(self, state: InstanceState) -> None:
        """Write the state, whole for whoever reads meanwhile; what cannot be written shows as silence."""
        with suppress(OSError):
            if state is not self._written or not self._path.exists():
                self._new.write_text(state.value)
                self._new.replace(self._path)
                self._written = state
            else:  # which takes no room on a full disk
                os.utime(self._path)

    def remove(self) -> None:
        """Leave nothing, also of a beat in the middle of which the process was killed."""
        self._path.unlink(missing_ok=True)
        self._new.unlink(missing_ok=True)

    def last(self) -> Beat | None:
        """The newest one; None before the first, and where it cannot be read."""
        try:
            at_ns = self._path.stat().st_mtime_ns
            return Beat(InstanceState(self._path.read_text()), at_ns)
        except (OSError, ValueError):
            return None


class Silence:
    """Counts looks and no seconds, so that a host that slept, on which nothing could give a sign, counts none.

    A pulse that is not there or cannot be read is no sign of life. Before the first one a start has its time besides:
    Spark and the job file are loaded until then.

    Args:
        look_s: how far two looks are apart at least, in seconds.
        hang_s: how long it may give no sign, in seconds.
        start_s: how long it may start before that counts, in seconds.
    """

    def __init__(self, pulse: Pulse, *, look_s: float, hang_s: float, start_s: float) -> None:
        self._pulse, self._look_s, self._hang_s, self._start_s = pulse, look_s, hang_s, start_s
        self._at_ns: int | None = None
        self._looks = 0

    @property
    def limit_s(self) -> float:
        """How long it may last just now, in seconds."""
        return self._hang_s if self._at_ns is not None else self._start_s + self._hang_s

    def lasts_too_long(self) -> bool:
        """Look once more."""
        beat = self._pulse.last()
        if beat is not None and beat.at_ns != self._at_ns:
            self._at_ns, self._looks = beat.at_ns, 0
        else:
            self._looks += 1
        return self._looks * self._look_s > self.limit_s
