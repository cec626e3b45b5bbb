"""The errors of the demo, and what of a log stands in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider.common.files import file_end
from airflow_provider.errors import StatefulStreamsError


class DemoError(StatefulStreamsError):
    """The demo cannot go on."""

    def __init__(self, reason: str, log_file: Path | None = None) -> None:
        super().__init__(reason)
        self.log_file = log_file


class DemoFolderError(DemoError):
    """Another demo is up on the folder, or none is where one is needed."""


def last_lines(log_file: Path, count: int = 20) -> str:
    """The last lines of a log, those of Airflow's tasks without their JSON."""
    if not log_file.is_file():
        return "(nothing was logged)"
    lines = [line for entry in file_end(log_file).splitlines() for line in _plain(entry).splitlines()]
    return "\n".join(lines[-count:])


def _plain(entry: str) -> str:
    try:
        note: Any = json.loads(entry)
    except ValueError:
        return entry
    if not isinstance(note, dict) or "event" not in note:
        return entry
    if str(note["event"]).startswith(("::group::", "::endgroup::")):
        return ""
    text = f"{str(note.get('timestamp', ''))[11:19]} {str(note.get('level', '')).upper()} {note['event']}"
    causes = [f"\n  {e.get('exc_type')}: {e.get('exc_value')}" for e in note.get("error_detail") or ()]
    return text + "".join(causes)
