"""How often a worker crashed in the middle of the same batch: no record may crash its workers without end."""

from __future__ import annotations

import contextlib
from pathlib import Path

from airflow_provider.common.task_id import TaskId

__all__ = ["CrashCounter"]


class CrashCounter:
    """Notes, outside the worker, what the worker is about to process.

    A batch that raises is answered where it raises; one that ends the process (a crash in a library, or an end by
    a caller that waited too long) leaves only this note. Kept in the folder of one incarnation. A note that cannot
    be written or read counts as none, because a full disk must not stop what needs no disk.

    Args:
        folder: where the notes lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, task: TaskId, generation: int, source_offset: int | None) -> int:
        """Note that a task goes on from an offset.

        Returns:
            How many attempts at the same place did not come to an end.
        """
        note, place = self._note(task), f"{generation} {source_offset}"
        crashes = 0
        with contextlib.suppress(OSError, ValueError):
            found, _, count = note.read_text().rpartition(" ")
            crashes = int(count) if found == place else 0
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            note.write_text(f"{place} {crashes + 1}")
        return crashes

    def end(self, task: TaskId) -> None:
        """The attempt came to an end, good or bad."""
        with contextlib.suppress(OSError):
            self._note(task).unlink(missing_ok=True)

    def _note(self, task: TaskId) -> Path:
        return self._folder / f"attempt-{task}"
