"""What is done with an instance's last heartbeat: its figures are kept, and what it has processed is deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from airflow_provider.common.clock import now_ms
from airflow_provider.common.in_thread import RepeatedLook
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.metrics import MetricsRecord, metrics_record
from airflow_provider.control.records.status import InstanceStatus, Role, TaskState
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.planner.compiled_job import CompiledJob


class RecordWriter(Protocol):
    """What is needed here of a `MetricsWriter`."""

    def send(self, record: MetricsRecord) -> None: ...
    def close(self) -> None: ...


class MetricsReport(RepeatedLook):
    """Writes what the last heartbeat said, and how large each store is: a record a minute, which is kept for a week.

    It asks no worker, no JVM and no task.

    Args:
        status: its last heartbeat; None before the first.
        store_bytes: what a task's store takes on disk; None where that is not known.
        connect: makes the writer; called by the thread, and again where that failed.
    """

    def __init__(
        self,
        settings: InstanceSettings,
        status: Callable[[], InstanceStatus | None],
        store_bytes: Callable[[TaskId], int | None],
        connect: Callable[[], RecordWriter],
    ) -> None:
        super().__init__("metrics", settings.metrics_interval_s, "the figures of this minute are not kept")
        self._status, self._store_bytes, self._connect = status, store_bytes, connect
        self._writer: RecordWriter | None = None

    def look(self) -> None:
        self._writer = self._writer or self._connect()
        status = self._status()
        if status is None:
            return
        sizes = {task.task: size for task in status.tasks if (size := self._store_bytes(task.task)) is not None}
        self._writer.send(metrics_record(status, sizes, now_ms()))

    def leave(self) -> None:
        if self._writer is not None:
            self._writer.close()


class RecordDeletion(Protocol):
    """What is needed here of a `TopicAdmin`."""

    def delete_records(self, name: str, before: Mapping[int, int]) -> None: ...


class RepartitionPurge(RepeatedLook):
    """Looks each half minute at what the instance's tasks have committed; a job of one stage has nothing to look at.

    A topic between two stages keeps its records for ever, so that none is lost that was not processed. Whoever runs the
    task deletes those before the task's committed position, as Kafka Streams does
    (``repartition.purge.interval.ms``). What cannot be deleted now is with the next look.

    Args:
        status: gives the instance's last heartbeat; None before the first.
    """

    def __init__(
        self,
        admin: RecordDeletion,
        job: CompiledJob,
        status: Callable[[], InstanceStatus | None],
        interval_s: float = 30.0,
    ) -> None:
        super().__init__("repartition-purge", interval_s, "what stages have processed is not deleted for now")
        self._admin, self._status = admin, status
        self._topics = {stage.number: stage.source.topic for stage in job.stages if stage.source.from_stage}
        self._seen: Mapping[TaskId, int] = {}
        self._deleted: dict[TaskId, int] = {}

    def start(self) -> None:
        if self._topics:
            super().start()

    def look(self) -> None:
        """Delete what was committed at the look before."""
        status = self._status()
        if status is None:
            return
        committed = {
            task.task: task.source_offset
            for task in status.tasks
            if task.task.stage in self._topics
            and task.role is Role.ACTIVE
            and task.state is TaskState.RUNNING
            and task.source_offset is not None
        }
        before, self._seen = self._seen, committed
        due = next_purge(before, committed, self._deleted)
        for stage in sorted({task.stage for task in due}):
            of_stage = {task.partition: offset for task, offset in due.items() if task.stage == stage}
            self._admin.delete_records(self._topics[stage], of_stage)
            self._deleted |= {TaskId(stage, partition): offset for partition, offset in of_stage.items()}


def next_purge(
    before: Mapping[TaskId, int], committed: Mapping[TaskId, int], deleted: Mapping[TaskId, int]
) -> dict[TaskId, int]:
    """By task, the offset before which its source's records are deleted now.

    Only what two looks found committed: brokers can lose a commit that they acknowledged (`Replica.read_back`), and the
    records are read again then. And the last record stays, because a query that begins with it waits without Spark
    (`slot_decisions.with_overlap`).

    Args:
        committed: source offsets now, of the tasks that run here.
    """
    due = {task: min(before[task], offset) - 1 for task, offset in committed.items() if task in before}
    return {task: offset for task, offset in due.items() if offset > deleted.get(task, 0)}
