"""The errors of the demo, as one tree.

::

    StatefulStreamsError
    └── DemoError               the demo cannot go on; says why and which log to read
        └── DemoFolderError     another demo is up on the folder, or none where one is needed
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider.errors import StatefulStreamsError

__all__ = ["DemoError", "DemoFolderError"]


class DemoError(StatefulStreamsError):
    """The demo cannot go on.

    Args:
        reason: what was found and what was needed, in one line.
        log_file: the log with the details; its last lines are shown.
    """

    def __init__(self, reason: str, log_file: Path | None = None) -> None:
        super().__init__(reason)
        self.log_file = log_file


class DemoFolderError(DemoError):
    """Another demo is up on the folder, or none is where one is needed."""
