"""What many tasks do, as a table that fits a screen: a line for those of one instance, role and state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.cli.causes import listed_names
from airflow_provider.cli.text import seconds
from airflow_provider.common.table import table
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.predicted_rto import PredictedRto
from airflow_provider.control.records.status import Role, TaskStatus

_NAMES = 4


@dataclass(frozen=True)
class TaskCopy:
    """A task on an instance.

    Args:
        status: as it was reported.
        state: in a word.
    """

    status: TaskStatus
    instance: str
    state: str


def task_totals(
    copies: Iterable[TaskCopy], predicted: Mapping[TaskId, PredictedRto], measured_ms: Mapping[TaskId, int]
) -> str:
    """The sums of what is counted, the greatest of lags and RTOs; ``-`` where none is known.

    Args:
        copies: of all tasks, in their order.
        predicted: by task, the RTO.
        measured_ms: by task, its last one.
    """
    groups: dict[tuple[str, Role, str], list[TaskStatus]] = {}
    for copy in copies:
        groups.setdefault((copy.instance, copy.status.role, copy.state), []).append(copy.status)
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
                seconds(max(rto, default=None)),
                seconds(max((measured_ms[task.task] for task in active if task.task in measured_ms), default=None)),
                listed_names([str(task.task) for task in tasks], _NAMES),
            )
        )
    header = (
        "instance", "role", "state", "tasks", "lag", "lag s", "source lag", "processed", "filtered", "left out", "late",
        "lost", "records/s", "predicted RTO", "last RTO", "which",
    )  # fmt: skip
    return table(header, rows)


def _sum(tasks: Sequence[TaskStatus], number: Callable[[TaskStatus], int | None]) -> str:
    known = [found for task in tasks if (found := number(task)) is not None]
    return f"{sum(known):,}" if known else "-"


def _most(numbers: Iterable[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return f"{max(known):,}" if known else "-"
