"""Where an instance's stores lie, and where bad ones are put."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from airflow_provider.common.files import folder_bytes
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError

_DATABASE = "rocksdb"
_QUARANTINE = "quarantine"
_REMOVED = "removed"
_UNASSIGNED = "unassigned"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_ASIDE = re.compile(r"[^-]+-(\d+)-(\d+_\d+)")


class StateDirectory:
    """The folders of one application on one host: ``docs/formats.md`` lists them."""

    def __init__(self, root: Path, application_id: str) -> None:
        self.path = root / application_id

    def database(self, task: TaskId) -> Path:
        """The folder of the database that holds all stores of a task."""
        return self.path / str(task) / _DATABASE

    def check(self) -> None:
        """Make the folder, where there is none, and see that it can be written to.

        A full disk is none of this: room may come back, and the tasks report it.

        Raises:
            ConfigurationError: it cannot be made, or somebody else's rights, another file or a read-only disk is in the
                way.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
            for folder in [path for path in self.path.glob(f"[0-9]*/{_DATABASE}") if not os.access(path, os.W_OK)]:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        except OSError as error:
            if error.errno in _NO_ROOM:
                return
            raise ConfigurationError(
                f"The state folder {self.path} cannot be used on {os.uname().nodename} ({error}): let the user who "
                f"runs the instance (id {os.getuid()}) make it and write to it, or deploy with another state_dir."
            ) from error

    def tasks(self) -> list[TaskId]:
        """The tasks of which a database lies here."""
        return sorted(TaskId.parse(path.parent.name) for path in self.path.glob(f"[0-9]*/{_DATABASE}"))

    def shadow(self, task: TaskId, store: str) -> Path:
        """The folder for a replay that is thrown away when it is done."""
        return self.path / str(task) / f"{store}.shadow"

    def replayed(self, task: TaskId) -> str | None:
        """The last replay that was carried out, by whichever worker; None before any."""
        return _read_text(self._replay_note(task))

    def note_replay(self, task: TaskId, replay: str) -> None:
        """Remember that a replay was carried out, so that a worker that comes later does not begin it again."""
        self._replay_note(task).write_text(replay)

    def _replay_note(self, task: TaskId) -> Path:
        return self.path / str(task) / f"{_DATABASE}.replay"

    def quarantine(self, task: TaskId) -> Path | None:
        """Move a task's database aside, for people to look at, and say where it lies; None when there was nothing."""
        source = self.database(task)
        if not source.exists():
            return None
        target = self.path / _QUARANTINE / f"{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns()}-{task}"
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        return target

    def prune(self, whole: Collection[TaskId], max_stores: int, max_bytes: int) -> tuple[Path, ...]:
        """Destroy the oldest databases in quarantine until the bounds are kept; returns what was destroyed.

        Args:
            whole: tasks whose database is whole; of each other the largest, which is the likeliest to hold all of the
                state, and the newest are kept, whatever the bounds.
        """
        aside = sorted((self.path / _QUARANTINE).glob("*"), key=lambda path: path.name)
        sizes = {path: folder_bytes(path) for path in aside}
        destroyed: list[Path] = []
        by_task: dict[TaskId, list[Path]] = {}
        for path in aside:
            if named := _ASIDE.fullmatch(path.name):
                by_task.setdefault(TaskId.parse(named[2]), []).append(path)
        kept = {
            path
            for task, found in by_task.items()
            if task not in whole
            for path in (max(found, key=sizes.__getitem__), found[-1])
        }
        free = {path for found in by_task.values() for path in found} - kept
        for path in aside:
            if len(sizes) <= max_stores and sum(sizes.values()) <= max_bytes:
                break
            if path in free:
                shutil.rmtree(path)
                del sizes[path]
                destroyed.append(path)
        return tuple(destroyed)

    def retire(self, held: Collection[TaskId], after_ms: int, now_ms: int) -> bool:
        """Set the folders aside of tasks that the instance has not been given for long, for `empty_removed`.

        A task's time begins with the first call that finds it unassigned, is kept in its folder over restarts, and is
        forgotten when the task comes back. What was in quarantine of a task without a folder goes after the same time.

        Returns:
            Whether there is something to remove.
        """
        found = {task: folder for folder in self.path.glob("*_*") if (task := _task_of(folder.name)) is not None}
        for task, folder in found.items():
            note = folder / _UNASSIGNED
            if task in held:
                note.unlink(missing_ok=True)
            elif (since_ms := _read_ms(note)) is None or since_ms > now_ms:
                note.write_text(str(now_ms))
            elif now_ms - since_ms > after_ms:
                self._set_aside(folder)
        for path in (self.path / _QUARANTINE).glob("*"):
            named = _ASIDE.fullmatch(path.name)
            if named is None or TaskId.parse(named[2]) in found.keys() | held:
                continue
            if now_ms - int(named[1]) // 1_000_000 > after_ms:
                self._set_aside(path)
        return (self.path / _REMOVED).is_dir()

    def empty_removed(self) -> None:
        """Remove what was set aside; as long as it takes. What cannot be removed stays for the next time."""
        shutil.rmtree(self.path / _REMOVED, ignore_errors=True)

    def clear(self) -> tuple[Path, ...]:
        """Remove everything of the application; for a reset, when nothing of it runs here.

        Returns:
            What lies in its folder and is not its own: left as it is, with the folder.
        """
        own = [path for path in self.path.glob("*") if path.name in (_QUARANTINE, _REMOVED) or _task_of(path.name)]
        for path in own:
            shutil.rmtree(path)
        left = tuple(sorted(self.path.glob("*")))
        if self.path.is_dir() and not left:
            self.path.rmdir()
        return left

    def _set_aside(self, folder: Path) -> None:
        target = self.path / _REMOVED / f"{time.time_ns()}-{folder.name}"
        target.parent.mkdir(exist_ok=True)
        folder.rename(target)


def _task_of(name: str) -> TaskId | None:
    try:
        return TaskId.parse(name)
    except ConfigurationError:
        return None


def _read_ms(note: Path) -> int | None:
    try:
        return int(note.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _read_text(note: Path) -> str | None:
    try:
        return note.read_text()
    except FileNotFoundError:
        return None
