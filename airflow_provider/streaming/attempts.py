"""How often a worker died in the middle of the same batch: a record that kills its worker must not do so for ever."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["Attempts"]


class Attempts:
    """Notes, outside the worker, what the worker is about to process.

    A batch that raises is answered where it raises; one that ends the process (a crash in a library, or an end by
    whoever waited too long) leaves only this note. Kept in the folder of one incarnation; a note that cannot be written
    or read counts as none, because a full disk must not stop what needs no disk.

    Args:
        folder: where the notes lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, task: int, generation: int, source_offset: int | None) -> int:
        """Note that a task goes on from an offset.

        Returns:
            How many attempts at the same place did not come to an end.
        """
        note, place = self._note(task), f"{generation} {source_offset}"
        died = 0
        with contextlib.suppress(OSError, ValueError):
            found, _, count = note.read_text().rpartition(" ")
            died = int(count) if found == place else 0
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            note.write_text(f"{place} {died + 1}")
        return died

    def end(self, task: int) -> None:
        """The attempt came to an end, good or bad."""
        with contextlib.suppress(OSError):
            self._note(task).unlink(missing_ok=True)

    def _note(self, task: int) -> Path:
        return self._folder / f"attempt-{task}"
