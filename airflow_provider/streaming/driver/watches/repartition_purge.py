"""Deletes what was processed of the topics between a job's stages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import InstanceStatus, Role, TaskState
from airflow_provider.streaming.planner.compiled_job import CompiledJob

log = logging.getLogger(__name__)

_EVERY_S: Final = 30.0


class RecordDeletion(Protocol):
    """What is needed here of a `TopicAdmin`."""

    def delete_records(self, name: str, before: Mapping[int, int]) -> None:
        """Delete the records of a topic's partitions before an offset."""


class RepartitionPurge:
    """Looks each half minute, in a thread of its own, at what the instance's tasks have committed.

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
        interval_s: float = _EVERY_S,
    ) -> None:
        self._admin, self._status, self._interval_s = admin, status, interval_s
        self._topics = {stage.number: stage.source.topic for stage in job.stages if stage.source.from_stage}
        self._seen: Mapping[TaskId, int] = {}
        self._deleted: dict[TaskId, int] = {}
        self._logged = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="repartition-purge", daemon=True)

    def start(self) -> None:
        """Begin to look; a job of one stage has nothing to look at."""
        if self._topics:
            self._thread.start()

    def stop(self) -> None:
        """Look no more; returns at once."""
        self._stop.set()

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

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self.look()
                self._logged = ""
            except Exception as error:
                # Nothing waits for it; the topics only grow meanwhile.
                if repr(error) != self._logged:
                    self._logged = repr(error)
                    log.warning("what was processed of the repartition topics is not deleted for now: %s", error)


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
