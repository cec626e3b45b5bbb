"""Tables of what tasks' copies do: the standbys one by one, or the sums of many tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from airflow_provider.cli.text import listed
from airflow_provider.common.causes import causes, listed_names
from airflow_provider.common.table import ago, seconds, table, utc_cell
from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.outlook.predicted_rto import PredictedRto
from airflow_provider.control.overview.standbys import StandbyRow, age_ms
from airflow_provider.control.records.status import Role, TaskStatus


def certified(task: TaskStatus, sent_at_ms: int) -> str:
    """A word or two on a task's certificate: ``-`` for an active; for a standby how long ago, ``no``, ``no commit``."""
    if task.role is not Role.STANDBY:
        return "-"
    age = age_ms(sent_at_ms, task.certificate.at_ms)
    # Without a commit there is nothing yet that a store could be compared with.
    never = "no commit" if task.committed_generation is None else "no"
    words = [never if age is None else f"{ago(age)} ago"]
    words += [f"differed {task.certificate.divergences}x"] if task.certificate.divergences else []
    return ", ".join(words)


def standby_table(rows: Sequence[StandbyRow]) -> str:
    """A line for each, times in UTC, and below them what is wrong, whole, by its cause."""
    header = ("task", "instance", "state", "lag", "lag s", "certified at", "ago", "differed", "snapshot")
    wrong = causes(
        (f"task {row.task}: on {row.instance}: {' '.join(row.error.split())}" for row in rows if row.error),
        {row.instance for row in rows},
    )
    return "\n\n".join(
        [table(header, [_cells(row) for row in rows]), *([listed("errors of standbys:", wrong)] if wrong else [])]
    )


def _cells(row: StandbyRow) -> Sequence[str]:
    at_ms = row.certified_at_ms
    return (
        str(row.task),
        row.instance,
        row.state,
        "-" if row.lag_records is None else f"{row.lag_records:,}",
        "-" if row.lag_s is None else f"{row.lag_s:.1f}",
        "-" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}",
        "-" if row.certified_age_ms is None else ago(row.certified_age_ms),
        str(row.divergences),
        "-" if row.snapshot_age_ms is None else f"{ago(row.snapshot_age_ms)} ago",
    )


_NAMES = 4


def task_totals(
    copies: Iterable[tuple[TaskStatus, str, str]],
    predicted: Mapping[TaskId, PredictedRto],
    measured_ms: Mapping[TaskId, int],
) -> str:
    """The sums of what is counted, the greatest of lags and RTOs; ``-`` where none is known.

    Args:
        copies: of all tasks in their order, each with its instance and its state in a word.
    """
    groups: dict[tuple[str, Role, str], list[TaskStatus]] = {}
    for task, instance, state in copies:
        groups.setdefault((instance, task.role, state), []).append(task)
    rows = []
    for (instance, role, state), tasks in sorted(groups.items(), key=lambda group: (group[0][0], group[0][1].value)):
        active = tasks if role is Role.ACTIVE else []
        lag_s = [task.lag_s for task in tasks if task.lag_s is not None]
        rto = [one.total_ms for task in active if (one := predicted.get(task.task)) and one.total_ms is not None]
        rows.append(
            (
                instance,
                role.value,
                state,
                str(len(tasks)),
                _most(task.lag_records for task in tasks),
                f"{max(lag_s):.1f}" if lag_s else "-",
                _sum(active, lambda task: task.source.lag_records),
                _sum(active, lambda task: task.processed_records),
                _sum(active, lambda task: sum(task.filtered_records.values())),
                _sum(active, lambda task: task.failed_records),
                _sum(active, lambda task: task.late_records),
                _sum(active, lambda task: task.lost_records),
                _sum(active, lambda task: round(task.records_per_s)),
                seconds(max(rto, default=None), 1),
                seconds(max((measured_ms[task.task] for task in active if task.task in measured_ms), default=None), 1),
                listed_names([str(task.task) for task in tasks], _NAMES),
            )
        )
    header = (
        "instance", "role", "state", "tasks", "lag", "lag s", "source lag", "processed", "filtered", "left out", "late",
        "lost", "records/s", "predicted RTO", "last RTO", "which",
    )  # fmt: skip
    return table(header, rows)


def timer_table(timers: Sequence[tuple[TaskId, Mapping[str, TimerCount]]], *, by_stage: bool) -> str:
    """How many timers are set, and when the first is due: the next one of event time by the watermark.

    Args:
        timers: by task and kind, in the order of the tasks.
        by_stage: a line for each stage, not each task.
    """
    rows: dict[tuple[str, str], list[TimerCount]] = {}
    for task, kinds in timers:
        for kind, count in kinds.items():
            where = f"{task.stage}_*" if by_stage else str(task)
            rows.setdefault((where, "event time" if kind == "timers" else kind), []).append(count)
    summed_up = {of: TimerCount.sum_of(counts) for of, counts in rows.items()}
    cells = [(*of, f"{one.number:,}", _due(one.next_ms)) for of, one in summed_up.items()]
    return table(("task", "timers of", "set", "next (UTC)"), cells)


def store_table(tasks: Iterable[TaskStatus]) -> str:
    """What keeps the stores that are not in RocksDB, by stage; the memory of the largest copy, and of all."""
    found: dict[tuple[str, str], list[TaskStatus]] = {}
    for task in tasks:
        found.setdefault((f"{task.task.stage}_*", task.store_kind), []).append(task)
    rows = [
        (*of, str(len(copies)), _most(one.memory_bytes for one in copies), _sum(copies, lambda one: one.memory_bytes))
        for of, copies in sorted(found.items())
    ]
    return table(("task", "store in", "copies", "most bytes", "bytes"), rows)


def _due(at_ms: int | None) -> str:
    return "-" if at_ms is None else utc_cell(at_ms)


def _sum(tasks: Sequence[TaskStatus], number: Callable[[TaskStatus], int | None]) -> str:
    known = [found for task in tasks if (found := number(task)) is not None]
    return f"{sum(known):,}" if known else "-"


def _most(numbers: Iterable[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return f"{max(known):,}" if known else "-"
