"""Tables of what tasks' copies do: the standbys one by one, or the sums of many tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_provider.cli.text import ago, causes, listed, listed_names
from airflow_provider.common.table import seconds, table, utc_cell
from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.outlook.predicted_rto import PredictedRto
from airflow_provider.control.records.command import RESTART
from airflow_provider.control.records.status import InstanceState, InstanceStatus, Role, TaskStatus
from airflow_provider.control.topics.view import ControlView


@dataclass(frozen=True, kw_only=True)
class StandbyRow:
    """One standby. Ages are by the clock of its host, as of its last heartbeat.

    Args:
        state: ``warm``, a `TaskState`, ``silent`` where its instance sends no heartbeat any more, or ``no copy`` where
            the instance is assigned the task and reports none of it.
        certified_position: the changelog offset at which its store was last found to hold what its active's did; None
            before.
        divergences: how often it was found to hold something else, since its process began.
        snapshot_position: the changelog offset of its last snapshot; None before the first.
        error: what is wrong with it, or why no snapshot could be sent; None for nothing.
    """

    task: TaskId
    instance: str
    state: str
    lag_records: int | None = None
    lag_s: float | None = None
    certified_position: int | None = None
    certified_at_ms: int | None = None
    certified_age_ms: int | None = None
    divergences: int = 0
    snapshot_position: int | None = None
    snapshot_at_ms: int | None = None
    snapshot_age_ms: int | None = None
    error: str | None = None


def standby_rows(view: ControlView, silent: Collection[str] = ()) -> list[StandbyRow]:
    """Those that living instances report, and those that are assigned, by task and instance.

    Args:
        silent: the instances that reported no end and send no heartbeat: what they said last is over.
    """
    found = {(row.task, row.instance): row for row in _reported(view) if row.instance not in silent}
    lost = {(row.task, row.instance): row for row in _reported(view) if row.instance in silent}
    for task_id, given in view.assignment.tasks.items() if view.assignment else ():
        for name in given.standbys:
            key, missing = (task_id, name), StandbyRow(task=task_id, instance=name, state="no copy")
            found.setdefault(key, dataclasses.replace(lost[key], state="silent") if key in lost else missing)
    return [found[key] for key in sorted(found)]


def _reported(view: ControlView) -> Iterator[StandbyRow]:
    for name, status in view.statuses.items():
        for task in status.tasks if status.state.alive else ():
            if task.role is Role.STANDBY:
                certificate, snapshot = task.certificate, task.snapshot
                yield StandbyRow(
                    task=task.task,
                    instance=name,
                    state="warm" if task.warm else task.state.value,
                    lag_records=task.lag_records,
                    lag_s=task.lag_s,
                    certified_position=certificate.position,
                    certified_at_ms=certificate.at_ms,
                    certified_age_ms=_age(status.sent_at_ms, certificate.at_ms),
                    divergences=certificate.divergences,
                    snapshot_position=snapshot.position,
                    snapshot_at_ms=snapshot.at_ms,
                    snapshot_age_ms=_age(status.sent_at_ms, snapshot.at_ms),
                    error=task.error or snapshot.error,
                )


def certified(task: TaskStatus, sent_at_ms: int) -> str:
    """A word or two on a task's certificate: ``-`` for an active; for a standby how long ago, ``no``, ``no commit``."""
    if task.role is not Role.STANDBY:
        return "-"
    age_ms = _age(sent_at_ms, task.certificate.at_ms)
    # Without a commit there is nothing yet that a store could be compared with.
    never = "no commit" if task.committed_generation is None else "no"
    words = [never if age_ms is None else f"{ago(age_ms)} ago"]
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


def _age(now_ms: int, at_ms: int | None) -> int | None:
    return None if at_ms is None else now_ms - at_ms


def missing_standbys(view: ControlView, num_standby_replicas: int, silent: Collection[str] = ()) -> Iterator[str]:
    """A line for each task that is not assigned its standbys.

    As the assignor, it wants no more than there are instances beside the active. An instance counts until it was
    stopped on purpose, also while it starts, is restarted for an upgrade, or after it ended by itself: a single one has
    no standbys, and lacks none.
    """
    if view.assignment is None:
        return
    meant = {name for name, status in view.statuses.items() if _is_meant_to_run(status)}
    instances = sorted(meant.union(view.assignment.instances))
    wanted = min(num_standby_replicas, len(instances) - 1)
    away = [name for name in instances if name in silent or name not in view.statuses or not _runs(view.statuses[name])]
    if away:
        why = f"{', '.join(away)} not running: an upgrade or a start may be under way; if none is, run the deploy DAG"
    else:
        why = f"{', '.join(instances)} run: run the deploy DAG, or assign"
    for task_id, task in view.assignment.tasks.items():
        if len(task.standbys) < wanted:
            has = "no standby is" if not task.standbys else f"{len(task.standbys)} of {wanted} standbys are"
            yield f"task {task_id}: {has} assigned ({why})"


def _is_meant_to_run(status: InstanceStatus) -> bool:
    if status.state is InstanceState.STOPPED:
        return any(command.startswith(RESTART) for command in status.last_commands[-1:])
    return True


def _runs(status: InstanceStatus) -> bool:
    return status.state is InstanceState.RUNNING


_NAMES = 4
_YEAR_10000_MS = 253_402_300_800_000


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
    if at_ms is None:
        return "-"
    # A function may set a timer for any time.
    return utc_cell(at_ms) if 0 <= at_ms < _YEAR_10000_MS else f"{at_ms} ms"


def _sum(tasks: Sequence[TaskStatus], number: Callable[[TaskStatus], int | None]) -> str:
    known = [found for task in tasks if (found := number(task)) is not None]
    return f"{sum(known):,}" if known else "-"


def _most(numbers: Iterable[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return f"{max(known):,}" if known else "-"
