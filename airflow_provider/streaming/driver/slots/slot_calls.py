"""Calls into a slot's worker, one at a time."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskStatus, progress_line
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.driver.slots.slot_decisions import Brought, SlotGoal, round_budget_s, tasks_that_go_on
from airflow_provider.streaming.driver.slots.slot_report import SlotReport
from airflow_provider.streaming.driver.slots.waiting_lookups import WaitingLookups
from airflow_provider.streaming.driver.slots.worker_stay import DriverDoor, StayOverError, WorkerStay, stay_of
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
from airflow_provider.streaming.worker.tasks.line import Door
from airflow_provider.streaming.worker.tasks.lost_input import LostRecords
from airflow_provider.streaming.worker.tasks.plan import CallReport, LookedUp, SlotPlan, SlotWork, Stay, WorkerSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_EVERY_S = 5.0
_BATCH_BUDGET_S: Final = 0.02
_POLL_S: Final = 0.02
_MAX_CRASHES: Final = 3
_MAX_REFUSED_LINES: Final = 3


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

    A lock lets one call in at a time, from whatever thread. All that changes here changes under it, or in the case of
    the reports under one of their own; `report` and `called_for_s` may be read at any time.

    Where the worker reads sources itself, it stays after a round (`WorkerStay`), and the next round is a call over its
    line. Spark brings no micro-batch then.

    Args:
        goal: gives the newest goal of the slot; asked under the lock, so that no call carries an older one than the
            call before.
        on_report: gets the status of the slot's tasks after every call, under the lock.
        idle: gives the tasks of the instance whose sources hold nothing new.
        sources: by stage, all of which the worker reads itself, and it stays between rounds; none where Spark reads.
        open_door: opens where a worker that stays is awaited.
        on_stay_over: called when a worker that stayed has returned, or failed, so that the next round comes soon.
        wait_for_tables: returns once rows of some tasks may be processed; False where that was given up
            (`TableWait.wait`).
        on_looked_up: gets what lookups found, by the thread that called or that listens to a worker that stays.
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
        sources: Mapping[int, WorkerSource] = MappingProxyType({}),
        open_door: Callable[[], DriverDoor] = Door.local,
        on_stay_over: Callable[[], None] = lambda: None,
        wait_for_tables: Callable[[Collection[TaskId], Callable[[], bool]], bool] = lambda _, __: True,
        on_looked_up: Callable[[Sequence[LookedUp]], None] = lambda _: None,
    ) -> None:
        self._spark = spark
        self._stages = stages
        self._settings = settings
        self._slot = slot
        self._goal = goal
        self._on_report = on_report
        self._idle = idle
        self._sources, self._open_door = sources, open_door
        self._on_stay_over, self._wait_for_tables = on_stay_over, wait_for_tables
        self._on_looked_up = on_looked_up
        self.lookups = WaitingLookups()
        """What stores are asked for, and goes with the next calls."""
        self._stay: WorkerStay | None = None
        self._stay_error: Exception | None = None
        self._lines_refused = 0
        self._number = 0
        self.lost = LostRecords()
        """What tasks have gone on without."""
        self._max_failures = max_task_failures(spark)
        self._lock = threading.Lock()
        self._reporting = threading.Lock()
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
        """When the processing of a micro-batch that is under way began, in monotonic seconds; None without one."""
        stay = self._stay
        return self._batch_since if stay is None else stay.busy_since

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
            goal, budget_s, began = self._goal(), round_budget_s(self._report.statuses.values()), time.monotonic()
            if (error := self._stay_error) is not None:
                self._stay_error = None
                raise error
            if self._sources:
                self._call_staying(goal, budget_s)
                if goal.stopping:
                    self._end_stay()
            else:
                self._call(self._no_rows(), goal, budget_s, {})
            self.lookups.called(began, time.monotonic())

    def reads(self, task: TaskId) -> bool:
        """Whether the worker reads a task's source itself."""
        return task.stage in self._sources

    def batch(
        self,
        rows: DataFrame,
        tasks: Mapping[TaskId, Brought],
        abandoned: Callable[[], bool],
    ) -> Mapping[TaskId, Brought]:
        """Call the worker with a micro-batch's rows, once no other call is under way and the slot is not paused.

        Args:
            tasks: of the query; what may leave a gap is left to the next one.
            abandoned: whether the query is to end; then a micro-batch that still waits is left to the next one, too.

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
            generations = {plan.task: plan.generation for plan in goal.tasks}
            tasks = {task: of for task, of in tasks.items() if of.generation == generations.get(task)}
            if self._chooses_bound:
                # In the query's own session, which is a copy of the instance's as that was when the query began.
                rows.sparkSession.conf.set(MAX_BYTES_PER_BATCH, str(arrow_batch_bytes(self._bytes_per_row)))
            self._batch_since = time.monotonic()
            rows_of = {task: tasks[task].source_offset for task in sorted(tasks.keys() & goal.active)}
            self._call(rows, goal, _BATCH_BUDGET_S, rows_of)
            return tasks_that_go_on(tasks, goal, self._report)
        finally:
            self._batch_since = None
            self._lock.release()

    def at_rest(self, action: Callable[[], None]) -> None:
        """Act while no call is under way: the worker has its stores open, and does nothing with them."""
        with self._lock:
            self._end_stay()
            action()

    def report_error(self, error: Exception) -> None:
        """Report an error that keeps the slot from its goal with each of its tasks; the next call replaces it."""
        with self._lock, self._reporting:
            self._report = self._report.failed(self._goal().tasks, error)
            self._on_report(tuple(self._report.statuses.values()))

    def _no_rows(self) -> DataFrame:
        return self._spark.range(1).withColumnRenamed("id", ROUND_COLUMN).coalesce(1)

    def _work(self, goal: SlotGoal, budget_s: float, rows_of: Mapping[TaskId, int | None]) -> SlotWork:
        self._number += 1
        return SlotWork(
            tasks=goal.tasks,
            budget_s=budget_s,
            number=goal.number,
            call=self._number,
            rows_of=rows_of,
            # Holding micro-batches back is what pauses.
            reads=() if goal.paused else tuple(sorted(task for task in goal.active if self.reads(task))),
            # Who holds micro-batches back means that time stands still, too.
            idle=frozenset() if goal.paused else self._idle(),
            clock_ms=None if goal.paused else now_ms(),
            max_crashes=self._max_crashes,
            lookups=self.lookups.take(),
        )

    def _run(self, rows: DataFrame, work: SlotWork, stay: Stay | None = None) -> CallReport:
        """Have Spark call the worker."""
        plan = SlotPlan(
            settings=self._settings,
            stages=self._stages,
            slot=self._slot,
            sources=self._sources,
            stay=stay,
            **vars(work),
        )
        with worker_pool(self._spark, f"{self._settings.instance}-{self._slot}"):
            reported = rows.mapInArrow(functools.partial(call, plan, self._max_failures), REPORT_SCHEMA)
        reports = [decode_report(bytes(row.report)) for row in reported.collect()]
        return reports[0] if len(reports) == 1 else CallReport(())

    def _call(self, rows: DataFrame, goal: SlotGoal, budget_s: float, rows_of: Mapping[TaskId, int | None]) -> None:
        with self._called():
            report = self._run(rows, self._work(goal, budget_s, rows_of))
        if report.rows:
            self._bytes_per_row = max(report.bytes / report.rows, self._bytes_per_row or 0.0)
        if rows_of:
            self._max_crashes = _MAX_CRASHES
        self._take(report)

    def _call_staying(self, goal: SlotGoal, budget_s: float) -> None:
        """A round of a worker that stays: it is called over its line, or begins to stay."""
        work = self._work(goal, budget_s, {})
        with self._called():
            if self._stay is not None:
                try:
                    self._take(self._stay.call(work))
                    return
                except StayOverError:
                    self._stay = None
                except Exception:
                    self._forget_stay()
                    raise
            self._take(self._begin_stay(work))

    def _begin_stay(self, work: SlotWork) -> CallReport:
        try:
            door = self._open_door()
        except OSError as error:
            log.warning("slot %d: no worker can be awaited here: %s", self._slot, error)
            self._note_refused_line()
            return self._run(self._no_rows(), work)
        stay = stay_of(door, self._settings.call_timeout_s)
        rows = self._no_rows()
        self._stay = begun = WorkerStay(door, partial(self._run, rows, work, stay), self)
        begun.begin()
        try:
            report = begun.answer_to(work.call)
        except Exception:
            self._forget_stay()
            raise
        if begun.connected:
            self._lines_refused = 0
        else:
            self._note_refused_line()
        return report

    def _note_refused_line(self) -> None:
        """The worker did not reach the driver, and did what it was called for all the same."""
        self._stay = None
        self._lines_refused += 1
        if self._lines_refused == _MAX_REFUSED_LINES:
            log.warning("slot %d: the worker does not reach the driver: Spark reads its sources", self._slot)
            self._sources = {}

    def _end_stay(self) -> None:
        """Have the worker return; what went wrong in its stay is the next round's to raise."""
        if self._stay is None:
            return
        with self._called():
            try:
                self._stay.end()
            except Exception as error:
                self._stay_error = error
        self._forget_stay()

    def _forget_stay(self) -> None:
        """A stay is over; where it took so long that Spark ended its worker, a hang is sure to come again."""
        stay, self._stay = self._stay, None
        if stay is not None and stay.failed and time.monotonic() - stay.began_at >= self._settings.call_timeout_s:
            self._max_crashes = 1

    @contextlib.contextmanager
    def _called(self) -> Iterator[None]:
        """Spark ends a worker that is silent for `call_timeout_s` (`idle_settings`); a hang is sure to come again."""
        self._called_since = time.monotonic()
        try:
            yield
        except Exception:
            if self.called_for_s >= self._settings.call_timeout_s:
                self._max_crashes = 1
            raise
        finally:
            self._called_since = None

    def _take(self, report: CallReport) -> None:
        """The answer to a call."""
        with self._reporting:
            self._report = self._report.after(report.statuses, time.monotonic())
            self._on_report(report.statuses)
        self._note(report)

    def _note(self, report: CallReport) -> None:
        for task, lost in report.lost:
            self.lost.count(task, lost)
        self._restore_log.update(report.statuses)
        if report.looked_up:
            self._on_looked_up(report.looked_up)

    # -- what a stay tells, in its threads -----------------------------------------------------------------------

    def told(self, report: CallReport) -> None:
        """A worker that stays says how its tasks are, and nothing about when to call it again."""
        with self._reporting:
            self._report = self._report.told(report.statuses)
            self._on_report(report.statuses)
        self._note(report)

    def batch_done(self) -> None:
        """A worker that stays got to the end of a micro-batch."""
        self._max_crashes = _MAX_CRASHES

    def wait_for_tables(self, stage: int, given_up: Callable[[], bool]) -> bool:
        """Wait until rows of a stage that a worker has read may be processed; False where that was given up."""
        return self._wait_for_tables([task for task in self._goal().active if task.stage == stage], given_up)

    def stay_over(self) -> None:
        """A worker that stayed has returned, or failed."""
        self._on_stay_over()
