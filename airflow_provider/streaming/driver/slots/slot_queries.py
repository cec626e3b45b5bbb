"""The queries that bring a slot its rows, and the input that they cannot bring any more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import StatefulStreamsError, StepError
from airflow_provider.streaming.driver.slots.slot_decisions import Brought, SlotGoal, query_must_end, tasks_to_query
from airflow_provider.streaming.driver.slots.slot_report import QueryFailure, SlotReport
from airflow_provider.streaming.driver.spark.spark_error import Cause, cause_in, cause_of
from airflow_provider.streaming.worker.tasks.lost_input import LostInput, LostRecords
from airflow_provider.streaming.worker.tasks.plan import TaskPlan

log = logging.getLogger(__name__)


_SURPLUS_S: Final = 300.0
_WELL_S: Final = 5.0
"""A query that lives so long has got past what ended the one before."""


class Query(Protocol):
    """What is needed here of a `SourceQuery`."""

    @property
    def tasks(self) -> frozenset[TaskId]: ...
    @property
    def active(self) -> bool: ...
    @property
    def active_for_s(self) -> float: ...
    @property
    def error(self) -> str | None: ...
    def end(self) -> None: ...


@dataclass
class _Running:
    """A query, and what it was begun for.

    Args:
        brought: by task that it began with, how far it has brought its rows.
        surplus_since: since when it reads a partition for nobody, monotonic seconds; None while it does not.
    """

    query: Query
    brought: Mapping[TaskId, Brought]
    surplus_since: float | None = None


class SlotQueries:
    """Starts a query for tasks that run, ends one that has no task left, forgets one that ended.

    One that reads for a task that was given away goes on for the others, and is replaced later: the next has to get
    ready first, which takes long on a busy host, and moves often follow each other.

    The tasks of a query that ended with an error get one each, so that the one that ends it stops no other; a task
    whose own queries end again and again is given up, until a newer generation names it, or its cause may be gone
    (`retry_pause_s`).

    Belongs to the slot's thread; `failures` may be read from any.

    Args:
        start: starts a query; gets its number, from 1, by task the offset to begin at, and by task where its store
            stands, to be kept up to date by whom the query brings its rows.
        find_lost: by task, the input that was deleted before it was read, or that it would skip; gets by task the
            offset to begin at. Asked only for tasks whose last query ended with an error: when it ends, so that this is
            the first that is said of it, and before the next one begins.
        overlap: by task, where to begin instead, so that a micro-batch comes at once (`with_overlap`); not asked for
            tasks whose last query ended with an error.
        clock: monotonic seconds, by which a task that was given up is tried again.
        lost: counts what is gone on without.
        read_elsewhere: whether a task's source is read without a query.
        fell_back: whose source ended before what they have processed, and when that was seen, in monotonic seconds.
    """

    def __init__(
        self,
        slot: int,
        topic_of: Callable[[TaskId], str],
        start: Callable[[int, Mapping[TaskId, int | None], dict[TaskId, Brought]], Query],
        find_lost: Callable[[Mapping[TaskId, int | None]], Mapping[TaskId, LostInput]],
        goes_on: bool = False,
        overlap: Callable[[Mapping[TaskId, int | None]], Mapping[TaskId, int | None]] = dict,
        clock: Callable[[], float] = time.monotonic,
        lost: LostRecords | None = None,
        read_elsewhere: Callable[[TaskId], bool] = lambda _: False,
        fell_back: Callable[[], tuple[float, Collection[TaskId]]] = lambda: (0.0, ()),
    ) -> None:
        self._slot = slot
        self._topic_of = topic_of
        self._start = start
        self._find_lost = find_lost
        self._goes_on = goes_on
        self._overlap = overlap
        self._clock = clock
        self._started = 0
        self._queries: list[_Running] = []
        self.failures: Mapping[TaskId, QueryFailure] = {}
        """By task, why its query ended by itself; until one has run for a while. Replaced, never changed."""
        self.lost = lost or LostRecords()
        self._read_elsewhere = read_elsewhere
        self._fell_back = fell_back

    def tick(self, goal: SlotGoal, newest: Callable[[], SlotReport]) -> bool:
        """End the queries that may not go on, or read long for one too many; forget those that ended.

        Args:
            newest: gives what the worker said last.

        Returns:
            Whether one ended by itself with an error, so that the next one has to wait a moment.
        """
        failed = False
        plans = {plan.task: plan for plan in goal.tasks if plan.task in goal.active}
        self.failures = {
            task: failure
            for task, failure in self.failures.items()
            if task in plans and (plans[task].generation, plans[task].replay) == (failure.generation, failure.replay)
        }
        for running in list(self._queries):
            query = running.query
            if not query.active:
                self._queries.remove(running)
                if (error := query.error) is not None:
                    failed = True
                    self._note_end(query.tasks, cause_in(error), plans, newest())
                query.end()
            elif self._must_end(running, goal, newest):
                query.end()
                self._queries.remove(running)
            elif self.failures and query.active_for_s > _WELL_S:  # asking costs a call into the JVM
                self.failures = {t: failure for t, failure in self.failures.items() if t not in query.tasks}
        return failed

    def start_missing(self, goal: SlotGoal, report: SlotReport) -> bool:
        """One further query per stage, for the tasks that run and that no query reads yet.

        Returns:
            Whether one could not be started, so that the next try has to wait a moment.
        """
        plans = {plan.task: plan for plan in goal.tasks}
        queried = {task for running in self._queries for task in running.query.tasks}
        queried |= {task for task in plans if self._read_elsewhere(task)}
        now = self._clock()
        waiting = {task for task, failure in self.failures.items() if failure.waits(now)}
        failed = False
        for tasks in tasks_to_query(goal, report, queried | waiting, alone=self.failures.keys()):
            try:
                begin = self._without_lost(tasks, plans)
                if begin:
                    self._started += 1
                    stands = {task: report.statuses[task].source_offset for task in begin}
                    brought = {task: Brought(plans[task].generation, stands[task]) for task in begin}
                    self._queries.append(_Running(self._start(self._started, begin, brought), brought))
            except Exception as error:
                self._note(tasks.keys(), cause_of(error), plans)
                failed = True
        return failed

    def _must_end(self, running: _Running, goal: SlotGoal, newest: Callable[[], SlotReport]) -> bool:
        # Looked at first: a micro-batch that ends in between has brought no task further than the report says.
        brought = dict(running.brought)
        return (
            query_must_end(running.query.tasks, goal, brought, newest())
            or self._reads_in_front_of_a_cut(running.query)
            or self._has_long_read_for_nobody(running, goal)
        )

    def _reads_in_front_of_a_cut(self, query: Query) -> bool:
        """Whether a source has fallen back, and nobody would say so: the query began one record early (`overlap`).

        The next one is refused, as every query is that begins where the log has not got to.
        """
        seen_at, tasks = self._fell_back()
        return not query.tasks.isdisjoint(tasks) and self._clock() - seen_at < query.active_for_s

    def _has_long_read_for_nobody(self, running: _Running, goal: SlotGoal) -> bool:
        if running.brought.keys() <= running.query.tasks & goal.active:
            running.surplus_since = None
            return False
        now = self._clock()
        if running.surplus_since is None:
            running.surplus_since = now
        return now - running.surplus_since > _SURPLUS_S

    def _without_lost(
        self, tasks: Mapping[TaskId, int | None], plans: Mapping[TaskId, TaskPlan]
    ) -> Mapping[TaskId, int | None]:
        """The offsets to begin at; where the policy is to fail, less the tasks whose input is lost."""
        if self.failures.keys().isdisjoint(tasks):
            return self._overlap(tasks)
        begin = dict(tasks)
        for task, lost in self._find_lost(tasks).items():
            if self._goes_on:
                log.warning("task %s %s", task, lost.told(self._topic_of(task), task.partition))
                begin[task] = lost.goes_on_at
                self.lost.count(task, lost)
            else:
                error = lost.error(self._topic_of(task), task.partition)
                self._note([task], Cause(type(error).__name__, str(error)), plans)
                del begin[task]
        return begin

    def _note_end(
        self, tasks: Collection[TaskId], cause: Cause, plans: Mapping[TaskId, TaskPlan], report: SlotReport
    ) -> None:
        """Where it ended for want of input that is lost, of whose tasks; what Spark says of that names no way out."""
        lost = {} if self._goes_on else self._look_for_lost(tasks, report)
        for task, of_task in lost.items():
            error = of_task.error(self._topic_of(task), task.partition)
            self._note([task], Cause(type(error).__name__, str(error)), plans)
        if not lost:
            self._note(tasks, cause, plans)

    def _look_for_lost(self, tasks: Collection[TaskId], report: SlotReport) -> Mapping[TaskId, LostInput]:
        known = {task: report.statuses[task].source_offset for task in tasks if task in report.statuses}
        try:
            return self._find_lost(known) if known else {}
        except StatefulStreamsError as error:
            log.info("slot %d: whether input is lost is not known: %s", self._slot, error)
            return {}

    def _note(self, tasks: Collection[TaskId], cause: Cause, plans: Mapping[TaskId, TaskPlan]) -> None:
        listed = ", ".join(map(str, sorted(tasks))) or "no task"
        log.warning("slot %d: the query of %s ended: %s: %s", self._slot, listed, cause.kind, cause.message)
        failures = dict(self.failures)
        for task in tasks:
            if task in plans:
                before = failures.get(task)
                tries = 1 if before is None else before.tries + 1
                failures[task] = QueryFailure(
                    cause=self._of_task(cause, task),
                    generation=plans[task].generation,
                    replay=plans[task].replay,
                    tries=tries,
                    alone=len(tasks) == 1,
                    at=self._clock(),
                )
        self.failures = failures

    def _of_task(self, cause: Cause, task: TaskId) -> Cause:
        """With the partition whose record it was, which Spark does not say."""
        if cause.kind != StepError.__name__:
            return cause
        return Cause(cause.kind, f"{self._topic_of(task)}[{task.partition}]: {cause.message}")
