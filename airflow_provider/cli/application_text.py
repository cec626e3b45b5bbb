"""What an application does, as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_provider.cli.task_tables import certified, standby_table, store_table, task_totals, timer_table
from airflow_provider.cli.text import listed, shortened
from airflow_provider.common.causes import causes
from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.common.table import number, seconds, table
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.open_problems import watched_by
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.standbys import standby_rows
from airflow_provider.control.records.status import InstanceStatus, Role, TaskStatus

_TASK_COLUMNS: Final = (
    "task", "instance", "role", "state", "lag", "lag s", "certified", "source lag", "processed", "filtered",
    "left out", "late", "lost", "records/s", "predicted RTO", "last RTO",
)  # fmt: skip
_MOST_ROWS: Final = 16
"""Of a table, so that all fits a screen."""


def state_text(state: ApplicationState, *, standbys: bool = False, everything: bool = False) -> str:
    """Tables, what waits for event time, open incidents and an uneven load where there are any, and the problems.

    It fits a screen: many tasks are summed up by instance, and what is wrong stands there by its cause.

    Args:
        standbys: a table of the standbys instead of those of instances and tasks.
        everything: a line for each stage, task, incident and problem, whole, however many they are.
    """

    def below(title: str, sentences: Sequence[str]) -> str:
        if everything:
            return listed(title, sentences)
        return shortened(title, causes(sentences, state.instance_names), "all of it: --all")

    incidents = state.open_incidents if everything else state.open_causes
    problems, uneven = state.problems, state.uneven_load
    generation = state.view.assignment.generation if state.view.assignment else "none"
    watching = watched_by(state.view.watcher, watched=state.watched)
    parts = [
        f"{state.view.application_id}, generation {generation}, {watching}",
        *_stages(state, everything=everything),
        *(
            [standby_table(standby_rows(state.view, state.silent))]
            if standbys
            else _tables(state, everything=everything)
        ),
        *_timers(state, everything=everything),
        *_stores(state),
        *([below("time that waits:", state.held_time)] if state.held_time else []),
        *([below("open incidents:", incidents)] if incidents else []),
        *([listed("uneven load:", [uneven])] if uneven else []),
        below("problems:", problems) if problems else "no other problems" if incidents else "no problems",
    ]
    return "\n\n".join(parts)


def _timers(state: ApplicationState, *, everything: bool) -> list[str]:
    """The timers of the active tasks; of many tasks, of each stage."""
    found = [(task.task, task.timers) for task, _ in state.copies if task.role is Role.ACTIVE and task.timers]
    return [timer_table(found, by_stage=len(found) > _MOST_ROWS and not everything)] if found else []


def _stores(state: ApplicationState) -> list[str]:
    """The stores that are not kept by RocksDB, where there are any."""
    found = [task for task, _ in state.copies if task.store_kind != ROCKSDB]
    return [store_table(found)] if found else []


def _stages(state: ApplicationState, *, everything: bool) -> list[str]:
    """What the first number of a task's name stands for, where there are several."""
    stages = state.view.job.stages if state.view.job else ()
    if len(stages) > _MOST_ROWS and not everything:
        return [f"{len(stages)} stages: describe {state.view.application_id} names them, and so does --all"]
    rows = [(str(stage.number), stage.name, stage.source, stage.store or "-") for stage in stages]
    return [table(("stage", "name", "reads", "store"), rows)] if len(rows) > 1 else []


def _tables(state: ApplicationState, *, everything: bool) -> list[str]:
    copies = state.copies
    summed_up = len(copies) > _MOST_ROWS and not everything
    return [
        table(("instance", "state", "incarnation", "generation", "host", "pid"), _instance_rows(state)),
        _totals(state, copies) if summed_up else table(_TASK_COLUMNS, [_task_row(state, *copy) for copy in copies]),
    ]


def _totals(state: ApplicationState, copies: Sequence[tuple[TaskStatus, InstanceStatus]]) -> str:
    summed_up = [(task, status.instance, state.task_word(task, status)) for task, status in copies]
    return task_totals(summed_up, state.predicted, state.measured_ms)


def _instance_rows(state: ApplicationState) -> list[Sequence[str]]:
    return [
        (
            name,
            state.instance_word(name),
            str(status.incarnation),
            str(status.generation),
            _hosts(status),
            str(status.process.pid or "-"),
        )
        for name, status in sorted(state.view.statuses.items())
    ]


def _task_row(state: ApplicationState, task: TaskStatus, status: InstanceStatus) -> Sequence[str]:
    of_active = (
        number(task.source.lag_records),
        number(task.processed_records),
        number(sum(task.filtered_records.values())),
        number(task.failed_records),
        number(task.late_records),
        number(task.lost_records),
        f"{task.records_per_s:,.0f}",
        *_rto(state, task.task),
    )
    return (
        str(task.task),
        status.instance,
        task.role.value,
        state.task_word(task, status),
        number(task.lag_records),
        "-" if task.lag_s is None else f"{task.lag_s:.1f}",
        certified(task, status.sent_at_ms),
        *(of_active if task.role is Role.ACTIVE else "-" * len(of_active)),
    )


def _rto(state: ApplicationState, task_id: TaskId) -> tuple[str, str]:
    """As predicted, and as it was the last time."""
    one = state.predicted.get(task_id)
    by_default = one is not None and one.total_ms is not None and not one.measured
    predicted = f"{'~' if by_default else ''}{seconds(one.total_ms if one else None, 1)}"
    return predicted, seconds(state.measured_ms.get(task_id), 1)


def _hosts(status: InstanceStatus) -> str:
    """Where the driver runs, and on a Spark cluster where the stores lie."""
    driver = status.process.host or "-"
    return driver if status.stores_host in ("", driver) else f"{driver}, stores on {status.stores_host}"
