"""What failovers really cost, by task: a pure function of the history."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.record import HistoryKind, HistoryRecord

__all__ = ["measured_rto_ms"]

_KINDS = frozenset({HistoryKind.DRILL, HistoryKind.FAILOVER})


def measured_rto_ms(history: Iterable[HistoryRecord]) -> dict[TaskId, int]:
    """By task, the RTO of the newest failover that moved it and was measured: that of the last of its tasks.

    Args:
        history: the oldest first.
    """
    return {
        task: record.rto.total_ms
        for record in history
        if record.kind in _KINDS and record.rto.total_ms is not None
        for task in record.tasks
    }
