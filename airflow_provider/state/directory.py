"""Where an instance's stores lie, and where bad ones are put."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Collection
from pathlib import Path

__all__ = ["StateDirectory"]


_QUARANTINE = "quarantine"
_ASIDE = re.compile(r".+-task-(\d+)-(.+)")


class StateDirectory:
    """The folders of one application on one host.

    ::

        <root>/<application id>/task-<i>/<store>/            RocksDB
        <root>/<application id>/task-<i>/<store>.replay      the last replay that was obeyed
        <root>/<application id>/task-<i>/<store>.ranges/     table files on their way into the store
        <root>/<application id>/quarantine/<when>-task-<i>-<store>/

    Args:
        root: the instance's state folder.
        application_id: the application.
    """

    def __init__(self, root: Path, application_id: str) -> None:
        self.path = root / application_id

    def store(self, task: int, store: str) -> Path:
        """The folder of a task's store."""
        return self.path / f"task-{task}" / store

    def ranges(self, task: int, store: str) -> Path:
        """The folder for table files on their way into a task's store; on its disk, so that they need not be copied."""
        return self.path / f"task-{task}" / f"{store}.ranges"

    def replayed(self, task: int, store: str) -> str | None:
        """The last replay that was obeyed, whichever worker did; None before any."""
        try:
            return self._replay_note(task, store).read_text()
        except FileNotFoundError:
            return None

    def note_replay(self, task: int, store: str, replay: str) -> None:
        """Remember that a replay was obeyed, so that a worker that comes later does not begin it again."""
        self._replay_note(task, store).write_text(replay)

    def _replay_note(self, task: int, store: str) -> Path:
        return self.path / f"task-{task}" / f"{store}.replay"

    def quarantine(self, task: int, store: str) -> Path | None:
        """Move a store aside, for people to look at; it is never destroyed in place.

        Returns:
            Where it lies now; None when there was nothing.
        """
        source = self.store(task, store)
        if not source.exists():
            return None
        target = self.path / _QUARANTINE / f"{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns()}-task-{task}-{store}"
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        return target

    def prune(self, whole: Collection[tuple[int, str]], max_stores: int, max_bytes: int) -> tuple[Path, ...]:
        """Destroy the oldest stores in quarantine until the bounds are kept.

        Args:
            whole: tasks and stores whose successor is whole; what others left is kept, whatever the bounds.
            max_stores: how many may stay.
            max_bytes: how large they may be together.

        Returns:
            What was destroyed.
        """
        aside = sorted((self.path / _QUARANTINE).glob("*"), key=lambda path: path.name)
        sizes = {path: _size(path) for path in aside}
        destroyed: list[Path] = []
        for path in aside:
            if len(sizes) <= max_stores and sum(sizes.values()) <= max_bytes:
                break
            named = _ASIDE.fullmatch(path.name)
            if named and (int(named[1]), named[2]) in whole:
                shutil.rmtree(path)
                del sizes[path]
                destroyed.append(path)
        return tuple(destroyed)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
