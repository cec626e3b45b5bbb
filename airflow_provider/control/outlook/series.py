"""Single figures over time, taken from an application's metrics: pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.forecast import Point
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics
from airflow_provider.control.records.status import Role


def disk_series(records: Iterable[MetricsRecord]) -> Mapping[str, Sequence[Point]]:
    """By instance, what its disk had left, in bytes, the oldest first.

    A process, a host and the set of its tasks make a run: with each of them the free space may jump. What is written
    while a store is restored is no growth, and left out.
    """
    points: dict[str, list[Point]] = {}
    for record in _in_order(records):
        series = points.setdefault(record.instance, [])
        if record.disk_free_bytes is not None and not any(task.restoring for task in record.tasks):
            run = (record.incarnation, record.host, frozenset(task.task for task in record.tasks))
            series.append(Point(record.at_ms, record.disk_free_bytes, run))
    return points


def store_series(records: Iterable[MetricsRecord]) -> Mapping[TaskId, Sequence[Point]]:
    """By task, what the store of its active takes on disk, in bytes, the oldest first.

    Each owner makes a run, because what RocksDB has compacted differs.
    """
    points: defaultdict[TaskId, list[Point]] = defaultdict(list)
    for record, task in _of_owners(records):
        if task.store_bytes is not None and not task.restoring:
            run = (record.instance, record.incarnation, task.generation)
            points[task.task].append(Point(record.at_ms, task.store_bytes, run))
    return points


def changelog_series(records: Iterable[MetricsRecord]) -> Mapping[TaskId, Sequence[Point]]:
    """By task, the end of its changelog, in offsets, the oldest first: one run over all owners, since it is one log.

    What lies before a changelog that was created anew, which begins at 0 again, is left out.
    """
    points: defaultdict[TaskId, list[Point]] = defaultdict(list)
    for record, task in _of_owners(records):
        series = points[task.task]
        if task.changelog_end is not None:
            if series and task.changelog_end < series[-1].value:
                series.clear()
            series.append(Point(record.at_ms, task.changelog_end))
    return points


def _of_owners(records: Iterable[MetricsRecord]) -> Iterator[tuple[MetricsRecord, TaskMetrics]]:
    """What actives said; not what an earlier one says after the next has begun."""
    newest: defaultdict[TaskId, int] = defaultdict(int)
    for record in _in_order(records):
        for task in record.tasks:
            if task.role is Role.ACTIVE and task.generation >= newest[task.task]:
                newest[task.task] = task.generation
                yield record, task


def _in_order(records: Iterable[MetricsRecord]) -> Sequence[MetricsRecord]:
    return sorted(records, key=lambda record: record.at_ms)
