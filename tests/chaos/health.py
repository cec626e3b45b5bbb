"""How far an application is from whole: a pure function of what its control topics hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import InstanceState, Role, TaskState
from airflow_provider.control.topics.view import ControlView


@dataclass(frozen=True)
class Health:
    """What keeps it from being whole, and by task the offset of the next input record."""

    lacking: tuple[str, ...]
    offsets: Mapping[TaskId, int]
    lag_records: int

    @property
    def whole(self) -> bool:
        return not self.lacking

    def beyond(self, marks: Mapping[TaskId, int]) -> bool:
        """Whether every task has committed all that lay before these offsets."""
        return all(self.offsets.get(task, 0) >= mark for task, mark in marks.items())


def health(view: ControlView, silent_for_s: Mapping[str, float], names: Collection[str]) -> Health:
    """Every task active on a living instance, with a warm standby on another."""
    if view.assignment is None:
        return Health(("an assignment",), {}, 0)
    lacking, offsets, lag = [], {}, 0
    statuses = {
        name: status
        for name, status in view.statuses.items()
        if status.state is InstanceState.RUNNING and silent_for_s.get(name, 0.0) < 3
    }
    lacking += [f"{name} does not run" for name in names if name not in statuses]
    for task_id, who in view.assignment.tasks.items():
        active = statuses[who.active].task(task_id) if who.active in statuses else None
        if active is not None and active.source_offset is not None:
            offsets[task_id] = active.source_offset
        if (
            active is None
            or active.role is not Role.ACTIVE
            or active.state is not TaskState.RUNNING
            or active.generation != who.active_since
        ):
            seen = f"{active.role.value}, {active.state.value}, {active.error}" if active else "not there"
            lacking.append(f"task {task_id} is not run by {who.active} ({seen})")
        if len(who.standbys) < min(1, len(names) - 1):
            lacking.append(f"task {task_id} has no standby")
        for name in who.standbys:
            standby = statuses[name].task(task_id) if name in statuses else None
            if standby is None or not standby.warm or standby.error is not None:
                lacking.append(f"task {task_id}'s standby on {name} is not warm ({standby.error if standby else '-'})")
            else:
                lag = max(lag, standby.lag_records or 0)
    return Health(tuple(lacking), offsets, lag)
