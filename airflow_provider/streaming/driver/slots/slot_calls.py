"""Calls into a slot's worker, one at a time."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskStatus, progress_line
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.driver.slots.slot_decisions import SlotGoal, round_budget_s, tasks_that_go_on
from airflow_provider.streaming.driver.slots.slot_report import SlotReport
from airflow_provider.streaming.driver.spark.single_executor import worker_pool
from airflow_provider.streaming.driver.spark.spark_session import (
    ARROW_BATCH_BYTES,
    MAX_BYTES_PER_BATCH,
    arrow_batch_bytes,
    max_task_failures,
)
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.calls import REPORT_SCHEMA, call, decode_report
from airflow_provider.streaming.worker.step.arrival import ROUND_COLUMN
from airflow_provider.streaming.worker.tasks.plan import SlotPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_EVERY_S = 5.0
_BATCH_BUDGET_S: Final = 0.02
_POLL_S: Final = 0.02
_MAX_CRASHES: Final = 3


class RestoreLog:
    """A line for each task every few seconds while it restores, and one when it is done."""

    def __init__(self) -> None:
        self._logged_at: dict[TaskId, float] = {}

    def update(self, tasks: Iterable[TaskStatus]) -> None:
        """Log what is new in the newest statuses."""
        now = time.monotonic()
        for task in tasks:
            line = progress_line(task)
            if line is not None and now - self._logged_at.get(task.task, 0.0) > _EVERY_S:
                self._logged_at[task.task] = now
                log.info("task %s restores, %s", task.task, line)
            elif task.restore.phase is None and self._logged_at.pop(task.task, None) is not None:
                log.info(
                    "task %s is restored: %s records, %s bytes in %.1f s",
                    *(task.task, f"{task.restore.records:,}", f"{task.restore.bytes:,}", task.restore.took_s),
                )


class SlotCalls:
    """Calls one Python worker, through Spark, for rounds and for micro-batches.

    The slot's environment differs from every other slot's, and Spark keeps a pool of workers for each environment: so
    the same worker gets every call of a slot, with its stores open.

    A lock lets one call in at a time, from whatever thread. All that changes here changes under it; `report` and
    `called_for_s` may be read at any time.

    Args:
        goal: gives the newest goal of the slot; asked under the lock, so that no call carries an older one than the
            call before.
        on_report: gets the status of the slot's tasks after every call, under the lock.
        idle: gives the tasks of the instance whose sources hold nothing new.
    """

    def __init__(
        self,
        spark: SparkSession,
        stages: Mapping[int, StageSpec],
        settings: InstanceSettings,
        slot: int,
        goal: Callable[[], SlotGoal],
        on_report: Callable[[tuple[TaskStatus, ...]], None],
        idle: Callable[[], frozenset[TaskId]] = frozenset,
    ) -> None:
        self._spark = spark
        self._stages = stages
        self._settings = settings
        self._slot = slot
        self._goal = goal
        self._on_report = on_report
        self._idle = idle
        self._max_failures = max_task_failures(spark)
        self._lock = threading.Lock()
        self._report = SlotReport()
        self._restore_log = RestoreLog()
        self._max_crashes = _MAX_CRASHES
        self._bytes_per_row: float | None = None
        # Another bound is the user's.
        self._chooses_bound = spark.conf.get(MAX_BYTES_PER_BATCH) == str(ARROW_BATCH_BYTES)
        self._called_since: float | None = None
        self._batch_since: float | None = None

    @property
    def batch_since(self) -> float | None:
        """When the call with a micro-batch's rows that is under way began, in monotonic seconds; None without one."""
        return self._batch_since

    @property
    def report(self) -> SlotReport:
        """What the last call said."""
        return self._report

    @property
    def called_for_s(self) -> float:
        """For how long the call under way has not come back; 0 where there is none."""
        since = self._called_since
        return 0.0 if since is None else time.monotonic() - since

    def round(self) -> None:
        """Call the worker without rows: it takes the goal over and follows changelogs.

        Raises:
            Exception: of Spark or of the worker; the next call begins again from what is stored.
        """
        with self._lock:
            rows = self._spark.range(1).withColumnRenamed("id", ROUND_COLUMN).coalesce(1)
            self._call(rows, self._goal(), round_budget_s(self._report.statuses.values()), ())

    def batch(
        self,
        rows: DataFrame,
        tasks: frozenset[TaskId],
        abandoned: Callable[[], bool],
        began: Mapping[TaskId, int] | None = None,
    ) -> frozenset[TaskId]:
        """Call the worker with a micro-batch's rows, once no other call is under way and the slot is not paused.

        Args:
            abandoned: whether the query is to end; then a micro-batch that still waits is left to the next query.
            began: by task, the generation in which the query began; in another its rows may leave a gap, and are left
                to the next query. None for the newest.

        Returns:
            Those of the tasks whose next rows the query may bring too.

        Raises:
            Exception: of Spark or of the worker; what was not committed comes again with the next query.
        """
        # Holding the micro-batch back is what pauses; rounds go on.
        while self._goal().paused or not self._lock.acquire(timeout=_POLL_S):
            if abandoned():
                return tasks
            if self._goal().paused:
                time.sleep(_POLL_S)
        try:
            goal = self._goal()
            if began is not None:
                tasks = frozenset(p.task for p in goal.tasks if p.task in tasks and p.generation == began.get(p.task))
            if self._chooses_bound:
                # In the query's own session, which is a copy of the instance's as that was when the query began.
                rows.sparkSession.conf.set(MAX_BYTES_PER_BATCH, str(arrow_batch_bytes(self._bytes_per_row)))
            self._batch_since = time.monotonic()
            self._call(rows, goal, _BATCH_BUDGET_S, tuple(sorted(tasks & goal.active)))
            return tasks_that_go_on(tasks, goal, self._report)
        finally:
            self._batch_since = None
            self._lock.release()

    def at_rest(self, action: Callable[[], None]) -> None:
        """Act while no call is under way: the worker has its stores open, and does nothing with them."""
        with self._lock:
            action()

    def report_error(self, error: Exception) -> None:
        """Report an error that keeps the slot from its goal with each of its tasks; the next call replaces it."""
        with self._lock:
            self._report = self._report.failed(self._goal().tasks, error)
            self._on_report(tuple(self._report.statuses.values()))

    def _call(self, rows: DataFrame, goal: SlotGoal, budget_s: float, rows_of: tuple[TaskId, ...]) -> None:
        plan = SlotPlan(
            settings=self._settings,
            stages=self._stages,
            slot=self._slot,
            tasks=goal.tasks,
            budget_s=budget_s,
            number=goal.number,
            rows_of=rows_of,
            # Who holds micro-batches back means that time stands still, too.
            idle=frozenset() if goal.paused else self._idle(),
            clock_ms=None if goal.paused else now_ms(),
            max_crashes=self._max_crashes,
        )
        with worker_pool(self._spark, f"{self._settings.instance}-{self._slot}"):
            reported = rows.mapInArrow(functools.partial(call, plan, self._max_failures), REPORT_SCHEMA)
        statuses = self._collected(reported)
        if rows_of:
            self._max_crashes = _MAX_CRASHES
        self._report = self._report.after(statuses, time.monotonic())
        self._on_report(statuses)
        self._restore_log.update(statuses)

    def _collected(self, reported: DataFrame) -> tuple[TaskStatus, ...]:
        """Spark ends a worker that is silent for `call_timeout_s` (`idle_settings`); a hang is sure to come again."""
        self._called_since = time.monotonic()
        try:
            rows = reported.collect()
        except Exception:
            if self.called_for_s >= self._settings.call_timeout_s:
                self._max_crashes = 1
            raise
        finally:
            self._called_since = None
        reports = [decode_report(bytes(row.report)) for row in rows]
        if (number := sum(report.rows for report in reports)) > 0:
            seen = sum(report.bytes for report in reports) / number
            self._bytes_per_row = max(seen, self._bytes_per_row or 0.0)
        return tuple(status for report in reports for status in report.statuses)
