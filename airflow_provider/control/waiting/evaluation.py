"""What a condition is, what it is evaluated on, its answer, and how a wait for it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any

import msgspec

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.metrics_forecasts import ChangelogGrowth
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.status import InstanceStatus, TaskStatus, progress_line
from airflow_provider.control.topics.liveness import Liveness, Timeouts, liveness
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, DeadlineError, InstanceError, TopicMissingError


@dataclass(frozen=True)
class Observation:
    """One look at an application.

    Args:
        silent_for_s: seconds since each instance's last heartbeat, by the observer's monotonic clock; empty when
            the observer does not know.
        heard: instances that sent a heartbeat since the observer reads; None when it only had one look.
        now_ms: when it was, epoch ms; 0 when the observer does not say.
        history: what the application went through, the oldest first, where the condition needs it.
        growths: by task, how fast its changelog grows, where the condition needs it.
    """

    view: ControlView
    _: KW_ONLY
    silent_for_s: Mapping[str, float] = field(default_factory=dict)
    heard: frozenset[str] | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    now_ms: int = 0
    history: Sequence[HistoryRecord] = ()
    growths: Mapping[TaskId, ChangelogGrowth] = field(default_factory=dict)

    def living(self, instance: str) -> InstanceStatus | None:
        """The status of an instance that is known to live; None otherwise."""
        status = self.view.statuses.get(instance)
        if status is None or self.liveness(status) is not Liveness.ALIVE:
            return None
        if self.heard is not None and instance not in self.heard:
            return None
        return status

    def liveness(self, status: InstanceStatus) -> Liveness:
        """What the observer may take an instance for."""
        return liveness(status, self.silent_for_s.get(status.instance, 0.0), self.timeouts)


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a condition looks at besides the control topics.

    Args:
        growth_s: for how many seconds back it looks at the growth of changelogs; None for not at all.
    """

    history: bool = False
    growth_s: float | None = None


class Outcome(Enum):
    """What became of waiting."""

    WAITING = "waiting"
    MET = "met"
    FAILED = "failed"
    """It cannot be met any more."""


@dataclass(frozen=True)
class Evaluation:
    """A condition's answer to one observation.

    Args:
        result: plain values for the task that waited, when it is met.
    """

    outcome: Outcome
    seen: str
    result: dict[str, Any] = field(default_factory=dict)


def met_unless(waiting: Sequence[str], seen: str, result: dict[str, Any]) -> Evaluation:
    """Met, once nothing is waited for any more."""
    if waiting:
        return Evaluation(Outcome.WAITING, "; ".join(waiting))
    return Evaluation(Outcome.MET, seen, result)


class Condition(msgspec.Struct, frozen=True, tag=True, tag_field="kind"):
    """Something to wait for. ``str()`` of it says what, in one line; its plain form names its class as ``kind``."""

    def needs(self) -> Needs:
        """What an observation has to hold besides the control topics."""
        return Needs()

    def evaluate(self, seen: Observation) -> Evaluation:
        """Whether it is met by what was seen."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class WaitResult:
    """What a trigger hands to the task that waited. Crosses from a triggerer to a worker as plain values.

    Args:
        outcome: `Outcome.WAITING` when the time was over first.
        result: plain values of the condition, when it was met.
        missing: which control topic the brokers did not know at last, as an error's text; None where they knew all.
        refused: what the connection is not good for, as an error's text; None where it is good.
    """

    outcome: Outcome
    waited_for: str
    waited_s: float
    seen: str
    result: dict[str, Any] = field(default_factory=dict)
    missing: str | None = None
    refused: str | None = None

    def value(self, limit: str = "timeout_s") -> dict[str, Any]:
        """The condition's result.

        Args:
            limit: what says how long the wait may last, over all tries.

        Raises:
            ConfigurationError: the connection cannot be used, or lacks a right.
            TopicMissingError: the application has no control topics.
            InstanceError: what was waited for cannot happen any more.
            DeadlineError: the time was over; says what was waited for and what was last seen.
        """
        if self.outcome is Outcome.FAILED and self.refused is not None:
            raise ConfigurationError(self.refused)
        if self.outcome is Outcome.FAILED and self.missing is not None:
            raise TopicMissingError(self.missing)
        match self.outcome:
            case Outcome.MET:
                return self.result
            case Outcome.FAILED:
                raise InstanceError(
                    f"Waited for {self.waited_for}, which cannot happen any more: {self.seen}. "
                    "Correct the cause, then clear the Airflow task."
                )
            case Outcome.WAITING:
                raise DeadlineError(
                    f"Waited {self.waited_s:g} s for {self.waited_for}, the last of what all tries may take together "
                    f"({limit}). Last seen: {self.seen}. Look at the instances' logs, or allow more with "
                    f"{limit.partition('=')[0]}."
                )


def active_line(assignment: Assignment, task_id: TaskId, task: TaskStatus | None) -> str:
    """How a task stands with its active one."""
    owner = assignment.tasks[task_id].active
    if owner is None:
        return f"task {task_id} has no active instance"
    if task is None:
        return f"task {task_id} has not begun on {owner} yet"
    failure = "" if task.error is None else f", {task.error_kind}: {task.error}"
    return f"task {task_id} is {task.state.value} on {owner}{failure}"


def copy_line(task: TaskStatus | None) -> str:
    """How a copy stands."""
    if task is None:
        return "no heartbeat"
    lag = "lag unknown" if task.lag_records is None else f"lag {task.lag_records}"
    lag += "" if task.lag_s is None else f" ({task.lag_s:.1f} s)"
    certified = "" if task.certificate.position is None else f", certified at {task.certificate.position}"
    failure = "" if task.error is None else f", {task.error_kind}: {task.error}"
    progress = progress_line(task)
    return f"{task.state.value}, {lag}{'' if progress is None else f', {progress}'}{certified}{failure}"


def instance_line(status: InstanceStatus) -> str:
    """How an instance stands."""
    return f"{status.instance} is {status.state.value}, generation {status.generation}"


def end_of(status: InstanceStatus, seen: Observation) -> str:
    """How an instance ended, or how long it has been silent."""
    if status.state.alive:
        silent = seen.silent_for_s.get(status.instance, 0.0)
        return f"{status.instance} is {status.state.value} and has sent no heartbeat for {silent:.1f} s"
    how = "" if status.error is None else f": {status.error}"
    log = f" (log: {status.process.log_file} on {status.process.host})" if status.process.log_file else ""
    return f"{status.instance} is {status.state.value}{how}{log}"


def task_list(task_ids: Iterable[TaskId]) -> str:
    """Tasks."""
    return f"task(s) {', '.join(map(str, task_ids))}"
