"""The driver's side of one slot: a thread that makes rounds and keeps the queries."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.error_decision import class_of_kind, is_permanent
from airflow_provider.errors import ErrorClass, InstanceError, StatefulStreamsError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.driver.slots.input_wait import InputWait
from airflow_provider.streaming.driver.slots.slot_calls import SlotCalls
from airflow_provider.streaming.driver.slots.slot_decisions import (
    Brought,
    SlotGoal,
    SlotState,
    next_state,
    pause_s,
    round_is_due,
    wait_s,
    with_overlap,
)
from airflow_provider.streaming.driver.slots.slot_queries import SlotQueries
from airflow_provider.streaming.driver.slots.slot_report import with_query_failures
from airflow_provider.streaming.driver.slots.worker_stay import DriverDoor
from airflow_provider.streaming.driver.spark.source_query import SourceQuery
from airflow_provider.streaming.driver.spark.spark_error import cause_of
from airflow_provider.streaming.planner.compiled_job import CompiledJob, SourceSpec
from airflow_provider.streaming.worker.tasks.line import Door
from airflow_provider.streaming.worker.tasks.lost_input import LostInput, lost_input
from airflow_provider.streaming.worker.tasks.plan import KeyLookup, LookedUp, TaskPlan, WorkerSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_CALM_S: Final = 10.0
_MAX_FAILURES: Final = 20
_STUCK_S: Final = 60.0


class SlotDriver:
    """Runs one slot: one Python worker at a time, through Spark, for micro-batches and for rounds.

    The instance's thread writes the goal; the slot's own thread the state and the queries (`SlotQueries`); what a call
    changes, it changes under the calls' lock (`SlotCalls`).

    Args:
        on_report: gets the slot's number and the status of its tasks after every call.
        earliest_offsets: by partition of a topic, the first offset that its log still has.
        latest_offsets: by partition of a topic, the offset after the last record that its log has.
        idle: gives the tasks of the instance whose sources hold nothing new.
        fell_back: gives those whose source ended before what they have processed, and when that was seen
            (`ProgressWatch.fell_back`).
        wait_for_tables: returns once a micro-batch of some tasks may be processed; False where that was given up
            (`TableWait.wait`).
        sources: by stage that workers read themselves (`sources_of_workers`); no query is started for their tasks.
        open_door: opens where a worker that stays is awaited.
        on_looked_up: gets what lookups found.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: CompiledJob,
        settings: InstanceSettings,
        slot: int,
        on_report: Callable[[int, tuple[TaskStatus, ...]], None],
        earliest_offsets: Callable[[str, Collection[int]], Mapping[int, int]],
        latest_offsets: Callable[[str, Collection[int]], Mapping[int, int]],
        idle: Callable[[], frozenset[TaskId]] = frozenset,
        fell_back: Callable[[], tuple[float, Collection[TaskId]]] = lambda: (0.0, ()),
        wait_for_tables: Callable[[Collection[TaskId], Callable[[], bool]], bool] = lambda _, __: True,
        sources: Mapping[int, WorkerSource] = MappingProxyType({}),
        open_door: Callable[[], DriverDoor] = Door.local,
        on_looked_up: Callable[[Sequence[LookedUp]], None] = lambda _: None,
    ) -> None:
        self._spark = spark
        self._job = job
        self._settings = settings
        self._slot = slot
        self._on_report = on_report
        self._earliest_offsets, self._latest_offsets = earliest_offsets, latest_offsets
        self._wait_for_tables = wait_for_tables
        # Written by the instance's thread.
        self._goal = SlotGoal()
        self._wake = threading.Event()
        # Written by the slot's thread.
        self._state = SlotState.STEADY
        self._retry_at = 0.0
        self._pauses = 0
        self._acting_since: float | None = None
        self._failures = Counter[str]()
        self._failed_in_a_row = 0
        self._last_failure = ""
        # Written under their lock, by the thread that calls.
        self._calls = SlotCalls(
            spark,
            job.specs,
            settings,
            slot,
            lambda: self._goal,
            self._report,
            idle,
            sources,
            open_door,
            self._wake.set,
            wait_for_tables,
            on_looked_up,
        )
        self._queries = SlotQueries(
            slot,
            lambda task: job.stage(task.stage).source.topic,
            self._start_query,
            self._find_lost,
            goes_on=job.stages[0].source.goes_on_after_loss,
            overlap=self._overlap,
            lost=self._calls.lost,
            read_elsewhere=self._calls.reads,
            fell_back=fell_back,
        )
        # Written by the threads of the queries, and of a worker's reports, each for its own tasks.
        self._first_calls: dict[TaskId, tuple[int, float]] = {}
        self._thread = threading.Thread(target=self._run, name=f"slot-{slot}", daemon=True)

    # -- the instance's thread -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to make rounds."""
        self._thread.start()

    def apply_goal(self, tasks: Iterable[TaskPlan], paused: bool) -> None:
        """Set what to be for each task of this slot; acted upon by the slot's thread at once."""
        if not self._goal.stopping:
            self._goal = self._goal.followed_by(tuple(tasks), paused)
            self._wake.set()

    def stop(self, within_s: float = math.inf) -> None:
        """Finish the micro-batch, close every task, end. Returns when done, when it is stuck, or after that time.

        Args:
            within_s: seconds; 0 or less does not wait.
        """
        self._goal = self._goal.followed_by((), self._goal.paused, stopping=True)
        self._wake.set()
        deadline = time.monotonic() + min(within_s, self._longest_call_s)
        while self._thread.is_alive() and time.monotonic() < deadline and not self._call_is_stuck:
            self._thread.join(min(_RETRY_S, deadline - time.monotonic()))

    def look_up(self, lookup: KeyLookup) -> bool:
        """Have the slot's stores asked with one of the next calls; False where too much waits already."""
        return not any(plan.task.stage == lookup.stage for plan in self._goal.tasks) or self._calls.lookups.put(lookup)

    def at_rest(self, action: Callable[[], None]) -> None:
        """Act between two calls into the worker (`SlotCalls.at_rest`)."""
        self._calls.at_rest(action)

    @property
    def batch_since(self) -> float | None:
        """When the call with a micro-batch's rows that is under way began, in monotonic seconds; None without one."""
        return self._calls.batch_since

    @property
    def silent_for_s(self) -> float:
        """For how long the call under way has not come back, in seconds; 0 where there is none."""
        return self._calls.called_for_s

    def first_call(self, task: TaskStatus) -> float | None:
        """When an active task's rows could first come in its generation; None before."""
        generation, at = self._first_calls.get(task.task, (None, 0.0))
        return at if generation == task.generation else None

    def check(self) -> None:
        """Whether calls come back and do not always fail, and queries end that are to.

        Raises:
            InstanceError: one does not come back, although Spark was to end its worker long ago, or too many in a row
                failed.
        """
        if self._failed_in_a_row >= _MAX_FAILURES:
            raise InstanceError(
                f"Slot {self._slot} failed {self._failed_in_a_row} times in a row, the last time with "
                f"{self._last_failure}: the instance ends, so that the standbys take over. Look into its log."
            )
        if (acting_for_s := self._acting_for_s) > 2 * self._longest_call_s:
            raise InstanceError(
                f"Slot {self._slot} has been waiting for Spark for {acting_for_s:.0f} s, to end a query or to begin "
                "one: the instance ends, so that the standbys take over. Look into its log."
            )
        if self._call_is_stuck:
            raise InstanceError(
                f"A call into slot {self._slot} did not return for {self._calls.called_for_s:.0f} s, although its "
                f"worker was to be ended after call_timeout_s ({self._settings.call_timeout_s:g} s): the instance "
                "ends, so that the standbys take over. Look for a process or a disk of this host that hangs."
            )

    @property
    def _longest_call_s(self) -> float:
        return self._settings.call_timeout_s + _STUCK_S

    @property
    def _call_is_stuck(self) -> bool:
        return self._calls.called_for_s > self._longest_call_s

    @property
    def _acting_for_s(self) -> float:
        since = self._acting_since
        return 0.0 if since is None else time.monotonic() - since

    # -- the slot's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._state is not SlotState.STOPPING:
            self._step()
        self._attempt(self._tick_queries)
        self._attempt(self._calls.round)
        self._become(SlotState.STOPPED)

    def _step(self) -> None:
        interval_s = self._settings.round_interval_s
        woken = self._wake.wait(wait_s(self._calls.report, interval_s, time.monotonic(), self._retry_at))
        self._wake.clear()
        self._attempt(self._tick_queries)
        now = time.monotonic()
        goal = self._goal
        self._become(next_state(goal, self._calls.report, now, self._retry_at))
        asked = woken or self._calls.lookups.due(now)
        due = round_is_due(self._state, self._calls.report, asked, interval_s, now, self._retry_at)
        if due and self._attempt(self._calls.round):
            self._attempt(self._start_missing)

    def _become(self, state: SlotState) -> None:
        if state is not self._state:
            log.debug("slot %d: %s, was %s", self._slot, state.value, self._state.value)
        self._state = self._state.transition(state)

    def _attempt(self, action: Callable[[], None]) -> bool:
        """The slot's thread outlives every error, and counts those that no pause explains; returns whether none was."""
        name = action.__name__
        self._acting_since = time.monotonic()
        try:
            action()
        except Exception as error:
            # A worker that died, or a broker that is away: the next round begins again from what is stored.
            cause = cause_of(error)
            # What makes every round fail on any instance is reported as failed tasks, and left to a person.
            held = is_permanent(cause.kind) and action == self._calls.round
            if class_of_kind(cause.kind) is not ErrorClass.TRANSIENT and not held:
                self._failures[name] += 1
                self._last_failure = f"{cause.kind}: {cause.message}"
                self._failed_in_a_row = max(self._failures.values())
            wait = self._pause()
            log.warning("slot %d: failed, tried again in %g s: %s: %s", self._slot, wait, cause.kind, cause.message)
            self._calls.report_error(error)
            return False
        finally:
            self._acting_since = None
        self._failures[name] = 0
        self._failed_in_a_row = max(self._failures.values())
        return True

    def _pause(self) -> float:
        """Begin a pause, longer than the one before unless there was time enough between them; returns its seconds."""
        now = time.monotonic()
        self._pauses = self._pauses + 1 if now - self._retry_at < _CALM_S else 1
        wait = pause_s(self._pauses, _RETRY_S)
        self._retry_at = now + wait
        return wait

    def _tick_queries(self) -> None:
        if self._queries.tick(self._goal, lambda: self._calls.report):
            self._pause()

    def _start_missing(self) -> None:
        if self._queries.start_missing(self._goal, self._calls.report):
            self._pause()

    def _find_lost(self, tasks: Mapping[TaskId, int | None]) -> Mapping[TaskId, LostInput]:
        return lost_input(tasks, *self._ends_of_logs(tasks))

    def _overlap(self, tasks: Mapping[TaskId, int | None]) -> Mapping[TaskId, int | None]:
        try:
            return with_overlap(tasks, *self._ends_of_logs(tasks))
        except StatefulStreamsError as error:
            # It saves work, and no more: the query finds out by itself what the brokers do.
            log.info("slot %d: the source's offsets are not known: %s", self._slot, error)
            return tasks

    def _ends_of_logs(self, tasks: Collection[TaskId]) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """By partition, the first offset that the tasks' source still has, and the one after its last."""
        topic, partitions = self._source_of(tasks).topic, [task.partition for task in tasks]
        return self._earliest_offsets(topic, partitions), self._latest_offsets(topic, partitions)

    def _source_of(self, tasks: Iterable[TaskId]) -> SourceSpec:
        """The source of tasks of one stage."""
        return self._job.stage(next(iter(tasks)).stage).source

    def _start_query(
        self, number: int, tasks: Mapping[TaskId, int | None], brought: dict[TaskId, Brought]
    ) -> SourceQuery:
        source = self._source_of(tasks)
        checkpoint = Path(self._settings.run_dir) / "checkpoint" / f"slot-{self._slot}-{number}"
        query = SourceQuery(
            self._spark,
            source,
            self._settings.connection,
            tasks,
            checkpoint,
            partial(self._on_batch, brought),
            partial(InputWait, self._settings.connection, source.topic, self._settings.application_id),
        )
        query.start()
        return query

    # -- the thread that calls -----------------------------------------------------------------------------------

    def _on_batch(
        self, brought: dict[TaskId, Brought], query: SourceQuery, rows: DataFrame
    ) -> Mapping[int, int | None]:
        for plan in self._goal.tasks:
            if plan.task in query.tasks:
                self._note_first_call(plan.task, plan.generation)
        # Beside the slot's calls, or the table's own task might not get its turn.
        if not self._wait_for_tables(query.tasks, lambda: query.leaving):
            return {}
        going_on = {task: brought[task] for task in query.tasks}
        left = self._calls.batch(rows, going_on, lambda: query.leaving)
        brought |= left
        query.tasks = frozenset(left)
        if not query.tasks:
            query.leave()
            self._wake.set()
        return {task.partition: of.source_offset for task, of in left.items()}

    def _note_first_call(self, task: TaskId, generation: int) -> None:
        if self._first_calls.get(task, (None,))[0] != generation:
            self._first_calls[task] = (generation, time.monotonic())

    def _report(self, statuses: tuple[TaskStatus, ...]) -> None:
        for status in statuses:
            # A worker reads a source itself as soon as its task runs.
            if status.state is TaskState.RUNNING and self._calls.reads(status.task):
                self._note_first_call(status.task, status.generation)
        reported = with_query_failures(statuses, self._queries.failures, self._calls.lost.of_tasks)
        self._on_report(self._slot, reported)
