"""The driver's side of one slot: its lock, its queries, its rounds."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider.control.status import Role, TaskState, TaskStatus
from airflow_provider.errors import InstanceError
from airflow_provider.streaming.arrival import ROUND_COLUMN
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.plan import JobSpec, SlotPlan, TaskPlan
from airflow_provider.streaming.range_restores import RangeRestores
from airflow_provider.streaming.restore_log import RestoreLog
from airflow_provider.streaming.settings import InstanceSettings
from airflow_provider.streaming.source_query import SourceQuery
from airflow_provider.streaming.worker import REPORT_SCHEMA, call, decode_report
from airflow_provider.streaming.worker_pool import worker_pool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["SlotRunner", "idle_settings"]

log = logging.getLogger(__name__)

_BATCH_BUDGET_S = 0.02
_ROUND_BUDGET_S = 0.25
_RESTORE_BUDGET_S = 1.0
_FAR_RECORDS = 500_000
_RETRY_S = 1.0
_POLL_S = 0.02
_MAX_DEATHS = 3
_STUCK_S = 60.0
_WELL_S = 5.0
"""A query that lives so long has got past what ended the one before."""


class SlotRunner:
    """Runs one slot: one Python worker at a time, through Spark, for batches and for rounds.

    The slot's environment differs from every other slot's, and Spark keeps a pool of workers for each environment: so
    the same worker gets every call of a slot, with its stores open.

    Args:
        spark: the session.
        job: the job.
        spec: the same for the workers.
        settings: of the instance.
        slot: its number.
        round_interval_s: how long the slot may be idle before a round follows the changelogs.
        on_report: told the status of the slot's tasks after every call.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: StatefulJob,
        spec: JobSpec,
        settings: InstanceSettings,
        slot: int,
        round_interval_s: float,
        on_report: Callable[[int, tuple[TaskStatus, ...]], None],
    ) -> None:
        self._spark, self._job, self._spec, self._settings, self._slot = spark, job, spec, settings, slot
        self._round_interval_s, self._on_report = round_interval_s, on_report
        self._max_failures = _max_failures(spark)
        self._call_lock = threading.Lock()
        self._wake = threading.Event()
        self._tasks: tuple[TaskPlan, ...] = ()
        self._queries: list[SourceQuery] = []
        self._started_queries = 0
        self._statuses: dict[int, TaskStatus] = {}
        self._restore_log = RestoreLog()
        self._ranges = RangeRestores(spark, spec, settings)
        self._paused = False
        self._stopping = False
        self._max_deaths = _MAX_DEATHS
        self._called_at: float | None = None
        self._acting_since: float | None = None
        self._query_errors: dict[int, str] = {}
        self._last_call = 0.0
        self._not_before = 0.0
        self._thread = threading.Thread(target=self._run, name=f"slot-{slot}", daemon=True)

    def start(self) -> None:
        """Begin to run rounds."""
        self._thread.start()

    def obey(self, tasks: Iterable[TaskPlan], paused: bool) -> None:
        """Take over what to be for each task of this slot; acted upon by the slot's thread at once."""
        self._tasks, self._paused = tuple(tasks), paused
        self._wake.set()

    def stop(self) -> None:
        """Finish the micro-batch, let go of every task, end. Returns when done, or when it is stuck."""
        self._tasks, self._stopping = (), True
        self._wake.set()
        deadline = time.monotonic() + self._longest_call_s
        while self._thread.is_alive() and time.monotonic() < deadline and self._called_for_s <= self._longest_call_s:
            self._thread.join(_RETRY_S)

    def check(self) -> None:
        """Whether calls come back, and queries end that were told to.

        Raises:
            InstanceError: one does not, although Spark was to end its worker long ago.
        """
        if (acting_for_s := _since(self._acting_since)) > 2 * self._longest_call_s:
            raise InstanceError(
                f"Slot {self._slot} has been waiting for Spark for {acting_for_s:.0f} s, to end a query or to begin "
                "one: the instance ends, so that the standbys take over. Look into its log."
            )
        if (called_for_s := self._called_for_s) > self._longest_call_s:
            raise InstanceError(
                f"A call into slot {self._slot} did not return for {called_for_s:.0f} s, although its worker was to be "
                f"ended after call_timeout_s ({self._settings.call_timeout_s:g} s): the instance ends, so that the "
                "standbys take over. Look for a process or a disk of this host that hangs."
            )

    @property
    def _called_for_s(self) -> float:
        return _since(self._called_at)

    @property
    def _longest_call_s(self) -> float:
        return self._settings.call_timeout_s + _STUCK_S

    # -- the slot's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            woken = self._wake.wait(self._pause_s)
            self._wake.clear()
            self._guarded(self._mind_queries)
            now = time.monotonic()
            due = now - self._last_call >= self._round_interval_s or self._settling
            if now >= self._not_before and (woken or due) and self._guarded(self._round):
                self._guarded(self._start_query)
        self._tasks = ()
        self._guarded(self._mind_queries)
        self._guarded(self._round)

    @property
    def _pause_s(self) -> float:
        pause = 0.0 if self._settling else self._round_interval_s / 2
        return max(pause, self._not_before - time.monotonic())

    @property
    def _round_budget_s(self) -> float:
        """Longer where all of it has far to go: nobody waits for this slot then, and a round costs its start."""
        far = [s.restore_phase is not None and (s.lag_records or 0) > _FAR_RECORDS for s in self._statuses.values()]
        return _RESTORE_BUDGET_S if far and all(far) else _ROUND_BUDGET_S

    @property
    def _settling(self) -> bool:
        """Whether a task is on its way: then rounds follow each other without a pause."""
        states = {status.state for status in self._statuses.values()}
        if states & {TaskState.OWNING, TaskState.RESTORING}:
            return True
        # A standby's restore takes every other quarter second beside an active task, and all of it where there is none.
        return TaskState.RUNNING not in states and any(s.restore_phase is not None for s in self._statuses.values())

    def _guarded(self, act: Callable[[], None]) -> bool:
        """The slot's thread outlives everything; says whether it went well."""
        self._acting_since = time.monotonic()
        try:
            act()
        except Exception as error:
            # A worker that died or a broker away: the next round begins anew from what is stored.
            self._not_before = time.monotonic() + _RETRY_S
            log.warning("slot %d: trouble, again in %g s: %s", self._slot, _RETRY_S, _first_lines(error))
            self._tell_trouble(error)
            return False
        finally:
            self._acting_since = None
        return True

    def _tell_trouble(self, error: Exception) -> None:
        known = self._statuses
        self._statuses = {
            plan.task: dataclasses.replace(
                known.get(plan.task, TaskStatus(plan.task, plan.role, TaskState.OWNING, plan.generation)),
                error=_first_lines(error),
                error_kind=type(error).__name__,
            )
            for plan in self._tasks
        }
        self._on_report(self._slot, tuple(self._statuses.values()))

    def _round(self) -> None:
        with self._call_lock:
            rows = self._spark.range(1).withColumnRenamed("id", ROUND_COLUMN).coalesce(1)
            self._call(rows, self._round_budget_s, ())

    def _call(self, rows: DataFrame, budget_s: float, rows_of: tuple[int, ...]) -> None:
        self._ranges.keep(task.task for task in self._tasks)
        tasks = tuple(map(self._ranges.plan, self._tasks))
        plan = SlotPlan(self._settings, self._spec, self._slot, tasks, budget_s, rows_of, self._max_deaths)
        with worker_pool(self._spark, f"{self._settings.instance}-{self._slot}"):
            reported = rows.mapInArrow(functools.partial(call, plan, self._max_failures), REPORT_SCHEMA)
        statuses = [s for row in self._bounded(reported.collect) for s in decode_report(bytes(row.report))]
        if rows_of:
            self._max_deaths = _MAX_DEATHS
        self._last_call = time.monotonic()
        statuses = [self._with_query_error(status) for status in statuses]
        self._statuses = {status.task: status for status in statuses}
        self._on_report(self._slot, tuple(statuses))
        self._restore_log.tell(statuses)
        self._ranges.learn(statuses)

    def _with_query_error(self, status: TaskStatus) -> TaskStatus:
        """A task that runs and gets no rows, because its query ends again and again, must not look well."""
        error = self._query_errors.get(status.task)
        if error is None or status.error is not None or status.role is not Role.ACTIVE:
            return status
        return dataclasses.replace(status, error=error, error_kind="StreamingQueryException")

    def _bounded(self, collect: Callable[[], list[Row]]) -> list[Row]:
        """Spark ends a worker that is silent for `call_timeout_s` (`idle_settings`); a hang is sure to come again."""
        self._called_at = time.monotonic()
        try:
            return collect()
        except Exception:
            if self._called_for_s >= self._settings.call_timeout_s:
                self._max_deaths = 1
            raise
        finally:
            self._called_at = None

    # -- queries -------------------------------------------------------------------------------------------------

    def _on_batch(self, query: SourceQuery, rows: DataFrame) -> None:
        # Holding the micro-batch back is what pauses; rounds go on meanwhile.
        while self._paused or not self._call_lock.acquire(timeout=_POLL_S):
            if query.leaving:
                return
            if self._paused:
                time.sleep(_POLL_S)
        try:
            active = {task.task for task in self._tasks if task.role is Role.ACTIVE}
            self._call(rows, _BATCH_BUDGET_S, tuple(sorted(query.tasks & active)))
            query.tasks &= active & {n for n, s in self._statuses.items() if s.state is TaskState.RUNNING}
        finally:
            self._call_lock.release()
        if not query.tasks:
            query.leave()
            self._wake.set()

    def _mind_queries(self) -> None:
        """End queries that have no task left or one too many; forget those that ended."""
        generations = {task.task: task for task in self._tasks}
        for query in list(self._queries):
            wanted = {t for t in query.tasks if t in generations and generations[t].role is Role.ACTIVE}
            if not query.active:
                self._queries.remove(query)
                if (error := query.error) is not None:
                    log.warning("slot %d: a query ended: %s", self._slot, error[:2000])
                    self._not_before = time.monotonic() + _RETRY_S
                    self._query_errors.update(dict.fromkeys(query.tasks, f"its query ended: {error[:500]}"))
            elif wanted != query.tasks or not wanted or self._stopping:
                query.end()
                self._queries.remove(query)
            elif query.active_for_s > _WELL_S:
                for task in query.tasks:
                    self._query_errors.pop(task, None)

    def _start_query(self) -> None:
        """One further query for the tasks that run and that no query reads yet."""
        read = {task for query in self._queries for task in query.tasks}
        wanted = {
            task.task: self._statuses[task.task].source_offset
            for task in self._tasks
            if task.role is Role.ACTIVE
            and task.task not in read
            and task.task in self._statuses
            and self._statuses[task.task].state is TaskState.RUNNING
            and self._statuses[task.task].generation == task.generation
        }
        if not wanted or self._stopping:
            return
        self._started_queries += 1
        checkpoint = Path(self._settings.run_dir) / "checkpoint" / f"slot-{self._slot}-{self._started_queries}"
        query = SourceQuery(self._spark, self._job, self._settings.connection, wanted, checkpoint, self._on_batch)
        query.start()
        self._queries.append(query)


def idle_settings(call_timeout_s: float) -> dict[str, bool | float | int | str | None]:
    """Spark's settings that end a worker in which a call takes longer: a thread that holds the GIL cannot do it."""
    seconds = str(max(1, math.ceil(call_timeout_s)))
    return {"spark.python.worker.idleTimeoutSeconds": seconds, "spark.python.worker.killOnIdleTimeout": "true"}


def _max_failures(spark: SparkSession) -> int:
    context = spark.sparkContext
    # local[N] tries once, local[N, F] F times; only a real cluster reads the setting.
    master = context.master or ""
    if master.startswith("local"):
        inside = master.partition("[")[2].rstrip("]").split(",")
        return int(inside[1]) if len(inside) > 1 else 1
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def _since(begun: float | None) -> float:
    return 0.0 if begun is None else time.monotonic() - begun


def _first_lines(error: Exception) -> str:
    return " / ".join(line.strip() for line in str(error).splitlines()[:4])
