"""Standbys one by one, and those that are missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import RESTART
from airflow_provider.control.records.status import InstanceState, InstanceStatus, Role
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
                    certified_age_ms=age_ms(status.sent_at_ms, certificate.at_ms),
                    divergences=certificate.divergences,
                    snapshot_position=snapshot.position,
                    snapshot_at_ms=snapshot.at_ms,
                    snapshot_age_ms=age_ms(status.sent_at_ms, snapshot.at_ms),
                    error=task.error or snapshot.error,
                )


def age_ms(now_ms: int, at_ms: int | None) -> int | None:
    """How long ago something was; None where it never was."""
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
    why = f"{', '.join(away)} not running" if away else f"{', '.join(instances)} run"
    if view.unresolved_incidents:
        why += ", and a failover's repair is not over: where no run of it is under way, run the deploy DAG"
    elif away:
        why += ": an upgrade or a start may be under way; if none is, run the deploy DAG"
    else:
        why += ": run the deploy DAG, or assign"
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
