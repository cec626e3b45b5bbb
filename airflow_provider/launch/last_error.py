"""The error that a process wrote last, found in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.error_text import bounded

_RAISED: Final = re.compile(r"(?:\w+\.)*(?P<kind>[A-Z]\w*(?:Error|Exception|Interrupt))(?:: (?P<message>.*))?")
_FRAME: Final = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in ')
_TRACEBACK: Final = "Traceback (most recent call last):"


@dataclass(frozen=True)
class LastError:
    """What a Python process said last of why it ended.

    Args:
        kind: the name of the error's class, without its module.
        message: the first line of its text.
        line: the last one of the job file on the way to it; None where that is not known.
    """

    kind: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """As Python writes it, without the module."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


def last_error(log: str, file: str | None = None) -> LastError | None:
    """The last line with which Python ended a traceback; None where there is none.

    Args:
        log: the end of the process's output. Spark's own lines may stand around and below it.
        file: the job file, as Python was told to run it.
    """
    before = ""
    found: LastError | None = None
    at: int | None = None
    for line in log.splitlines():
        if line == _TRACEBACK:
            at = None
        elif file is not None and (frame := _FRAME.match(line)) is not None and _is_same(frame["file"], file):
            at = int(frame["line"])
        # Below the frames, which are indented. A syntax error has no headline above them.
        if before.startswith(" ") and (raised := _RAISED.fullmatch(line)) is not None:
            found = LastError(raised["kind"], bounded(raised["message"] or ""), at)
        before = line
    return found


def _is_same(one: str, other: str) -> bool:
    """Whether two paths of this host are one; Python may make the one absolute that it was given."""
    return Path(one).resolve() == Path(other).resolve()
