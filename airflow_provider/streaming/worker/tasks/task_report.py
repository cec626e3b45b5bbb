"""What the heartbeat says of a task, open or not."""

from __future__ import annotations

import dataclasses

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.replica import Replica
from airflow_provider.control.records.status import FailureStatus, RestorePhase, RestoreStatus, TaskState, TaskStatus
from airflow_provider.error_text import error_text
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from airflow_provider.streaming.worker.tasks.task_memory import Ownership


def open_task_status(
    *,
    plan: TaskPlan,
    state: TaskState,
    error: Exception | None,
    replica: Replica,
    ownership: Ownership,
    record: CommitRecord | None,
    job: StageSpec,
) -> TaskStatus:
    """The status of a task whose store is open.

    Args:
        plan: what it is to be.
        state: where it is in its life.
        error: why it stopped; None where it did not.
        replica: the store.
        ownership: what it did as the active one.
        record: the last commit; None before the first, and where it is not the application's.
        job: the stage, of whose source the status gives the offset.
    """
    running, meter, position = state is TaskState.RUNNING, replica.meter, replica.position
    lag = 0 if running else replica.lag_records
    status = TaskStatus(
        task=plan.task,
        role=plan.role,
        state=state,
        generation=plan.generation,
        position=None if position is None else position.offset,
        end=position.offset if running and position is not None else replica.end,
        lag_records=lag,
        lag_s=0.0 if running else replica.lag_s,
        restore=RestoreStatus(
            phase=None if running or replica.restored else RestorePhase.CHANGELOG,
            records=meter.records,
            bytes=meter.bytes,
            bytes_left=0 if running else meter.bytes_left(lag),
            records_per_s=round(meter.records_per_s, 1),
            took_s=round(meter.elapsed_s, 3),
            remaining_s=0.0 if running else meter.caught_up_in_s(lag),
        ),
        failure=None if error is None else FailureStatus.of(error),
    )
    return with_ownership(status, ownership, record, job)


def with_ownership(status: TaskStatus, ownership: Ownership, record: CommitRecord | None, job: StageSpec) -> TaskStatus:
    """A status with what the task did as the active one.

    Args:
        status: of the task, whose store may be open or not.
        ownership: what it did.
        record: the last commit; None before the first, and where it is not the application's.
        job: the stage, of whose source the status gives the offset.
    """
    return dataclasses.replace(
        status,
        source_offset=None if record is None else record.source_offset(job.input.topic),
        resumed_offset=ownership.resumed_offset,
        committed_generation=None if record is None else record.generation,
        processed_records=ownership.processed,
        filtered_records={} if record is None else record.filtered,
        failed_records=0 if record is None else record.failed,
        late_records=0 if record is None else record.late,
        stream_time_ms=None if record is None else record.stream_time_ms,
        time=job.operation.time_status(StreamTime.after(record), job.input.sides),
        first_commit_at_ms=ownership.first_commit_at_ms,
        owned_at_ms=ownership.owned_at_ms,
    )


def unopened_task_status(plan: TaskPlan) -> TaskStatus:
    """The status of a task whose store is not open yet."""
    return TaskStatus(task=plan.task, role=plan.role, state=TaskState.initial(plan.role), generation=plan.generation)


def failed_task_status(plan: TaskPlan, error: Exception, what_next: str = "") -> TaskStatus:
    """The status of a task that has failed and whose store is not open.

    Args:
        plan: what it is to be.
        what_next: is added to the error's text.
    """
    return TaskStatus(
        task=plan.task,
        role=plan.role,
        state=TaskState.FAILED,
        generation=plan.generation,
        failure=FailureStatus(type(error).__name__, f"{error_text(error)}{what_next}"),
    )
