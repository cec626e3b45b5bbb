"""A Python worker's side of a slot: it applies a plan, processes rows, follows changelogs, reports on its tasks."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.failpoint import FailPoints
from airflow_provider.streaming.worker.arrival import drained, rows_by_partition
from airflow_provider.streaming.worker.batch_processor import BatchProcessor, CrashCounter
from airflow_provider.streaming.worker.changelog_follower import ChangelogFollower
from airflow_provider.streaming.worker.gc_control import no_collection
from airflow_provider.streaming.worker.handover import Handover
from airflow_provider.streaming.worker.idle_time import MAX_GAP_S, IdleTime
from airflow_provider.streaming.worker.kafka_clients import ClusterClients, KafkaClients
from airflow_provider.streaming.worker.plan import SlotPlan, TaskPlan
from airflow_provider.streaming.worker.plan_execution import PlanExecution
from airflow_provider.streaming.worker.standby_duties import StandbyDuties
from airflow_provider.streaming.worker.task import Task
from airflow_provider.streaming.worker.task_registry import TaskRegistry

__all__ = ["Slot"]


class Slot:
    """Everything that one Python worker holds between calls.

    One call at a time: the driver sees to that, and a lock keeps another worker's request for a store out until then.

    Args:
        plan: of the first call; settings and stages are those of all calls.
        clients: makes its Kafka clients; None for those of the cluster that the settings name.
        idle_clock: by which sources are without records, in seconds; None for the host's, and no sign of it holds for
            longer than `idle_time.MAX_GAP_S`.
    """

    def __init__(
        self, plan: SlotPlan, clients: KafkaClients | None = None, idle_clock: Callable[[], float] | None = None
    ) -> None:
        settings, stages, job = plan.settings, plan.stages, plan.any_stage
        kafka = clients or ClusterClients(settings.connection)
        self._lock = threading.RLock()
        self._reader = kafka.open_reader(job)
        self._handover = Handover(self._release)
        self._duties = duties = StandbyDuties(settings, stages)
        # One for all: they count how often each place was passed.
        failpoints = FailPoints(settings.fail_points, Path(settings.run_dir))

        self._registry = registry = TaskRegistry(
            settings=settings,
            stages=stages,
            reader=self._reader,
            address=self._handover.address,
            duties=duties,
            kafka=kafka,
            failpoints=failpoints,
        )
        self._execution = PlanExecution(registry, self._reader, duties)
        self._follower = ChangelogFollower(
            reader=self._reader,
            open_reader=lambda: kafka.open_reader(job),
            tasks=registry.tasks,
            isolating=registry.isolating,
            restore=job.restore,
            on_applied=lambda tasks: duties.tick(tasks, registry.isolating),
            on_caught_up=registry.prune_quarantine,
        )
        self._processor = BatchProcessor(
            tasks=registry.tasks,
            isolating_batch=registry.isolating_batch,
            own_again=self._execution.own_again,
            catch_up=self._follower.follow,
            group=self._reader.consumer,
            crashes=CrashCounter(Path(settings.run_dir)),
            call_timeout_s=settings.call_timeout_s,
        )
        self._idle = IdleTime(
            tasks=registry.tasks,
            isolating_batch=registry.isolating_batch,
            group=self._reader.consumer,
            clock=idle_clock or time.monotonic,
            max_gap_s=MAX_GAP_S if idle_clock is None else math.inf,
        )

    @property
    def tasks(self) -> Mapping[TaskId, Task]:
        """The open tasks, to be looked at between two calls; a view."""
        return self._registry.tasks

    def error(self, task_id: TaskId) -> Exception | None:
        """Why a task stopped, or what went wrong with it in the last call; None where nothing did."""
        return self._registry.error(task_id)

    def call(self, plan: SlotPlan, rows: Iterable[pa.RecordBatch], attempts_left: bool) -> tuple[TaskStatus, ...]:
        """Do what a call from the driver asks for.

        Args:
            plan: the newest.
            rows: of this slot's active tasks, in pieces as they arrive; none in a round.
            attempts_left: whether Spark would try again, so that a bad record may raise instead of failing the task.

        Returns:
            The status of every task of the plan.

        Raises:
            StatefulStreamsError: something that another attempt may get past.
        """
        with self._lock:
            # 1. be what the plan says
            self._execution.apply_plan(plan.tasks, plan.number)
            if not self._registry.tasks and not plan.rows_of:
                self._duties.wait(plan.budget_s)
            # 2. process
            parts = _parts(plan, rows)
            skipped = self._processor.process(parts, plan.rows_of, attempts_left, plan.max_crashes)
            self._idle.tick(plan.idle)
            # 3. restore and follow
            with no_collection():
                self._follower.follow(time.monotonic() + plan.budget_s)
            # 4. report
            return tuple(self._report(task, task.task in skipped) for task in plan.tasks)

    def close(self) -> None:
        """Close every store, and what else is open."""
        with self._lock:
            self._registry.close_all()
            self._reader.close()
            self._handover.close()

    def _report(self, plan: TaskPlan, skipped: bool) -> TaskStatus:
        status = self._duties.with_status(self._registry.status(plan))
        if skipped and status.state is TaskState.RUNNING:
            # Restored just after its rows were skipped: if it were reported as running, the next would be a gap.
            status = dataclasses.replace(status, state=TaskState.RESTORING)
        return status

    def _release(self, folder: str) -> bool:
        with self._lock:
            return self._registry.release(folder)


def _parts(plan: SlotPlan, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows by partition; they are of one stage. None where none of them may be processed, or there are none."""
    if not plan.rows_of:
        return drained(rows)
    return rows_by_partition(plan.stages[plan.rows_of[0].stage], rows)
