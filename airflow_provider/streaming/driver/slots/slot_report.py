"""How a slot's tasks are: what its worker said, and why the rows of a task do not come."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import FailureStatus, Role, TaskState, TaskStatus
from airflow_provider.error_decision import class_of_kind, is_permanent, retry_pause_s, stops_a_running_task
from airflow_provider.errors import ErrorClass, InputLostError, StepError
from airflow_provider.streaming.driver.spark.spark_error import Cause, cause_of
from airflow_provider.streaming.worker.tasks.plan import TaskPlan

_MAX_TRIES: Final = 5


@dataclass(frozen=True, kw_only=True)
class QueryFailure:
    """What ended the last query of a task, or kept it from starting.

    Args:
        generation: of the task's plan; a newer one is tried again.
        replay: of the task's plan; where another one is asked for, it is tried again too.
        tries: how many queries of the task ended so, one after the other.
        alone: whether the last of them read no other task.
        at: when it ended, in monotonic seconds.
    """

    cause: Cause
    generation: int
    replay: str | None = None
    tries: int = 1
    alone: bool = False
    at: float = 0.0

    @property
    def given_up(self) -> bool:
        """Whether the task fails: at once where every try meets the same, else after some of its own.

        It is failed until a query of it has run for a while.

        What a step cannot compute may be another task's record, until the query reads one alone.

        Brokers that do not answer are waited for without a limit: nothing else could be done without them.
        """
        match class_of_kind(self.cause.kind):
            case ErrorClass.TRANSIENT | ErrorClass.OWNER:
                return False
            case ErrorClass.JOB if self.cause.kind == StepError.__name__:
                return self.alone
            case ErrorClass.JOB | ErrorClass.ACCESS:
                return stops_a_running_task(self.cause.kind)
            case ErrorClass.RECORD:
                return True
            case _:
                return self.alone and self.tries >= _MAX_TRIES

    def waits(self, now: float) -> bool:
        """Whether no further query is started for the task: one that is given up is tried again where that may help."""
        if not self.given_up:
            return False
        free_tries = _MAX_TRIES - 1 if class_of_kind(self.cause.kind) is ErrorClass.HOST else 0
        pause_s = retry_pause_s(self.cause.kind, self.tries - free_tries)
        return pause_s is None or now < self.at + pause_s


@dataclass(frozen=True)
class SlotReport:
    """What the last call into a slot's worker said.

    Args:
        called_at: when the last call that came back did, in seconds of the monotonic clock; 0 before any.
        calm: how many calls in a row found every task where it is to be, and as the call before had left it.
    """

    statuses: Mapping[TaskId, TaskStatus] = field(default_factory=dict)
    called_at: float = 0.0
    calm: int = 0

    def after(self, statuses: Iterable[TaskStatus], now: float) -> SlotReport:
        """The next one."""
        found = {status.task: status for status in statuses}
        same = {task: _place(status) for task, status in found.items()} == {
            task: _place(status) for task, status in self.statuses.items()
        }
        calm = same and all(map(_is_calm, found.values()))
        return SlotReport(found, now, self.calm + 1 if calm else 0)

    def told(self, statuses: Iterable[TaskStatus]) -> SlotReport:
        """The next one after what the worker said without being called."""
        return dataclasses.replace(self, statuses={status.task: status for status in statuses})

    def failed(self, tasks: Iterable[TaskPlan], error: Exception) -> SlotReport:
        """The same after a call for these tasks did not succeed: each has the error, and is else as last known.

        An active one has failed where every call would meet the same error, until one does not; one that is only now
        to be active too (`as_planned`), because what it was before is no answer to its promotion.
        """
        known, cause = self.statuses, cause_of(error)
        failure, permanent = FailureStatus(cause.kind, cause.message), is_permanent(cause.kind)
        statuses = {}
        for plan in tasks:
            status = as_planned(known.get(plan.task), plan)
            state = TaskState.FAILED if permanent and plan.role is Role.ACTIVE else status.state
            statuses[plan.task] = dataclasses.replace(status, state=state, failure=failure, replay=plan.replay)
        return SlotReport(statuses, self.called_at)


def as_planned(known: TaskStatus | None, plan: TaskPlan) -> TaskStatus:
    """A task of this instance, by what its worker said of it last and by what it is to be.

    A worker that hangs says nothing of a task that it is to own: without this it would look like a standby that is
    well, for ever, and nobody would miss the owner.

    Args:
        known: what the worker said; None before it said anything.

    Returns:
        What was said, unless it is older than the plan of an active: that one is `OWNING`, in the plan's generation.
    """
    if known is None:
        state = TaskState.initial(plan.role)
        return TaskStatus(task=plan.task, role=plan.role, state=state, generation=plan.generation)
    if plan.role is not Role.ACTIVE or (known.role is Role.ACTIVE and known.generation >= plan.generation):
        return known
    return dataclasses.replace(
        known,
        role=Role.ACTIVE,
        state=TaskState.OWNING,
        generation=plan.generation,
        resumed_offset=None,
        owned_at_ms=None,
        first_commit_at_ms=None,
        failure=None,
    )


def _place(status: TaskStatus) -> tuple[object, ...]:
    return status.role, status.state, status.generation, status.position, status.end, status.source_offset


def _is_calm(status: TaskStatus) -> bool:
    if status.failure is not None:
        return False
    at_end = status.lag_records == 0 and status.restore.phase is None
    return status.state is TaskState.RUNNING or (status.state is TaskState.FOLLOWING and at_end)


def with_query_failures(
    statuses: Iterable[TaskStatus], failures: Mapping[TaskId, QueryFailure], lost_records: Mapping[TaskId, int]
) -> tuple[TaskStatus, ...]:
    """The statuses, with what is wrong with the queries that are to bring the active tasks their rows.

    A task that runs and gets no rows must not look well; one whose queries were given up has failed.
    """
    return tuple(_with(status, failures.get(status.task), lost_records.get(status.task, 0)) for status in statuses)


def _with(status: TaskStatus, failure: QueryFailure | None, lost_records: int) -> TaskStatus:
    if status.role is not Role.ACTIVE:
        return status
    if lost_records:
        status = dataclasses.replace(status, lost_records=lost_records)
    if failure is None or status.error is not None:
        return status
    if (failure.generation, failure.replay) != (status.generation, status.replay):
        return status
    own = failure.cause.kind == InputLostError.__name__  # which says by itself what became of the rows
    ended = FailureStatus(failure.cause.kind, f"{'' if own else 'its query ended: '}{failure.cause.message}")
    return dataclasses.replace(status, failure=ended, state=TaskState.FAILED if failure.given_up else status.state)
