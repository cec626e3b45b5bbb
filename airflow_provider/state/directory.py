"""Where an instance's stores lie, and where bad ones are put."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["StateDirectory"]


class StateDirectory:
    """The folders of one application on one host.

    ::

        <root>/<application id>/task-<i>/<store>/            RocksDB
        <root>/<application id>/task-<i>/<store>.replay      the last replay that was obeyed
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
        target = self.path / "quarantine" / f"{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns()}-task-{task}-{store}"
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
        return target
