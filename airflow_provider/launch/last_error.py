"""The error that a process wrote last, found in its log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.error_text import bounded

__all__ = ["LastError", "last_error"]

_RAISED: Final = re.compile(r"(?:\w+\.)*(?P<kind>[A-Z]\w*(?:Error|Exception|Interrupt))(?:: (?P<message>.*))?")


@dataclass(frozen=True)
class LastError:
    """What a Python process said last of why it ended.

    Args:
        kind: the name of the error's class, without its module.
        message: the first line of its text.
    """

    kind: str
    message: str

    def __str__(self) -> str:
        """As Python writes it, without the module."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


def last_error(log: str) -> LastError | None:
    """The last line with which Python ended a traceback; None where there is none.

    Args:
        log: the end of the process's output. Spark's own lines may stand around and below it.
    """
    before = ""
    found: LastError | None = None
    for line in log.splitlines():
        # Below the frames, which are indented. A syntax error has no headline above them.
        if before.startswith(" ") and (raised := _RAISED.fullmatch(line)) is not None:
            found = LastError(raised["kind"], bounded(raised["message"] or ""))
        before = line
    return found
