"""How fast changelogs grow: pure functions of an application's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.metrics.record import MetricsRecord
from airflow_provider.control.outlook.forecast import DAY_S, too_few
from airflow_provider.control.outlook.series import changelog_series, store_series
from airflow_provider.control.outlook.trend import Point, trend

__all__ = ["ChangelogGrowth", "changelog_growths"]


@dataclass(frozen=True, kw_only=True)
class ChangelogGrowth:
    """How fast the changelog of a task grows.

    Args:
        task: which one.
        end: offset after its last record; None where it was not seen.
        records_per_day: offsets that it gains in a day, before compaction; None where that is not known.
        store_bytes: what the active's store takes: about what is left after compaction; None where it is not known.
        store_bytes_per_day: what that gains in a day; None where that is not known.
        why: what is missing where ``records_per_day`` is None; empty otherwise.
    """

    task: TaskId
    end: int | None
    records_per_day: float | None
    store_bytes: int | None
    store_bytes_per_day: float | None
    why: str = ""


def changelog_growths(records: Sequence[MetricsRecord], now_ms: int) -> dict[TaskId, ChangelogGrowth]:
    """By task, how fast its changelog grows.

    Args:
        records: the oldest first.
        now_ms: epoch ms.
    """
    sizes = store_series(records)
    return {
        task_id: _growth(task_id, ends, sizes.get(task_id, ()), now_ms)
        for task_id, ends in sorted(changelog_series(records).items())
    }


def _growth(task_id: TaskId, ends: Sequence[Point], sizes: Sequence[Point], now_ms: int) -> ChangelogGrowth:
    why = too_few(ends, now_ms)
    growing = None if why is not None else trend(ends)
    size = None if too_few(sizes, now_ms) is not None else trend(sizes)
    return ChangelogGrowth(
        task=task_id,
        end=int(ends[-1].value) if ends else None,
        records_per_day=None if growing is None else growing.per_s * DAY_S,
        store_bytes=int(sizes[-1].value) if sizes else None,
        store_bytes_per_day=None if size is None else size.per_s * DAY_S,
        why="" if growing is not None else why or "no process ran for long enough",
    )
