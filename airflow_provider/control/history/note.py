"""Noting in the history what was done, where that must not fail for want of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from airflow_provider.control.records.history import HistoryRecord

_WRITE_S: Final = 2.0


class WriteHistory(Protocol):
    """Writes records of an application, as `control.history.topic.write_history` does for a cluster."""

    def __call__(self, application_id: str, *records: HistoryRecord, timeout_s: float) -> None:
        """Store them, or raise."""


def note_history(
    write: WriteHistory, application_id: str, records: Iterable[HistoryRecord], *, warn: Callable[[str], object]
) -> bool:
    """Write into the history what was done; what cannot be written is a warning, soon, and fails nothing.

    Args:
        write: writes them.
        warn: is told, in one line, why they are not stored.

    Returns:
        Whether they are stored.
    """
    try:
        write(application_id, *records, timeout_s=_WRITE_S)
    except Exception as error:  # whatever it is: what was done is done
        warn(f"Not in the history of {application_id}: {type(error).__name__}: {error}")
        return False
    return True
