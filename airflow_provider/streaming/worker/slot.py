"""A Python worker's side of a slot: it makes the tasks what the plan says, processes rows, follows, reports."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyarrow as pa

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskStatus
from airflow_provider.control.records.task_state import Role, TaskState
from airflow_provider.failpoint import FailPoints
from airflow_provider.streaming.worker.standby.changelog_follower import ChangelogFollower
from airflow_provider.streaming.worker.standby.standby_duties import StandbyDuties
from airflow_provider.streaming.worker.step.arrival import drained, no_collection, rows_by_partition
from airflow_provider.streaming.worker.step.batch_processor import BatchProcessor, CrashCounter
from airflow_provider.streaming.worker.step.idle_time import MAX_GAP_S, IdleTime
from airflow_provider.streaming.worker.step.source_reader import SourceReader, WaitingReader
from airflow_provider.streaming.worker.task_registry import TaskRegistry
from airflow_provider.streaming.worker.tasks.handover import Handover
from airflow_provider.streaming.worker.tasks.kafka_clients import ClusterClients, KafkaClients, RestoreConsumer
from airflow_provider.streaming.worker.tasks.key_lookup import look_up
from airflow_provider.streaming.worker.tasks.lost_input import LostRecords
from airflow_provider.streaming.worker.tasks.plan import KeyLookup, LookedUp, SlotPlan, SlotWork, TaskPlan
from airflow_provider.streaming.worker.tasks.task import Task

_LOOK_UP_S: Final = 0.1
"""For so long a call looks keys up: the stream waits for it."""


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
        self._stages = stages
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
        self.lost = LostRecords()
        """What tasks have gone on without in the sources that the worker reads itself."""

        open_consumer = functools.partial(kafka.open_source, settings.application_id)
        of_each = registry.tasks, registry.isolating_source, open_consumer, self.lost
        at_once = {stage: source for stage, source in plan.sources.items() if not source.waits}
        # One for each, or what waits would keep the others from being read.
        self._waiting = {
            stage: WaitingReader({stage: source}, *of_each) for stage, source in plan.sources.items() if source.waits
        }
        self._readers = [SourceReader(at_once, *of_each), *self._waiting.values()]
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

    def call(self, plan: SlotWork, rows: Iterable[pa.RecordBatch], attempts_left: bool) -> tuple[TaskStatus, ...]:
        """Do what a call from the driver asks for; returns the status of every task of the plan.

        Args:
            rows: of this slot's active tasks, in pieces as they arrive; none in a round.
            attempts_left: whether Spark would try again, so that a bad record may raise instead of failing the task.

        Raises:
            StatefulStreamsError: something that another attempt may get past.
        """
        with self._lock:
            # 1. be what the plan says
            self._execution.apply_plan(plan.tasks, plan.number)
            if not self._registry.tasks and not plan.rows_of:
                self._duties.wait(plan.budget_s)
            # 2. process
            # The rows are of one stage. None where none of them may be processed.
            of = plan.rows_of
            parts = rows_by_partition(self._stages[next(iter(of)).stage], rows) if of else drained(rows)
            skipped = self._processor.process(parts, of, attempts_left, plan.max_crashes, plan.clock_ms)
            self._idle.tick(plan.idle, plan.clock_ms)
            # 3. restore and follow
            with no_collection():
                self._follower.follow(time.monotonic() + plan.budget_s)
            # 4. report
            return self.report(plan, skipped)

    def read_sources(self, work: SlotWork, clock_ms: int | None, on_rows: Callable[[], None]) -> bool:
        """Process what has come from the sources that the worker reads itself; returns whether more may have come.

        Args:
            work: what was asked for last; its tasks are what it says.
            clock_ms: the time of the micro-batch, epoch ms; None where it has none.
            on_rows: called before rows are processed.

        Raises:
            StatefulStreamsError: something that another attempt may get past.
        """
        with self._lock:
            more = False
            for reader in self._readers:
                read, more_of_it = reader.read(work.reads)
                more |= more_of_it
                for stage, rows in read:
                    on_rows()
                    of = {task: at for task, at in reader.began_at.items() if task.stage == stage}
                    parts = rows_by_partition(self._stages[stage], [rows])
                    skipped = self._processor.process(parts, of, False, work.max_crashes, clock_ms)
                    reader.handed_on(stage, rows, skipped)
            return more

    @property
    def ready(self) -> Collection[int]:
        """File descriptors of which one can be read once something has come from a source."""
        return [ready for reader in self._readers if (ready := reader.ready) is not None]

    @property
    def held(self) -> Collection[int]:
        """The stages of which something was read that waits for a table."""
        return [stage for stage, reader in self._waiting.items() if reader.held]

    def let_through(self, stage: int) -> None:
        """What was read of a stage waits no longer."""
        self._waiting[stage].let_through()

    def report(self, work: SlotWork, skipped: Collection[TaskId] = ()) -> tuple[TaskStatus, ...]:
        """The status of every task.

        Args:
            skipped: those whose rows were not processed.
        """
        return tuple(self._report(task, task.task in skipped) for task in work.tasks)

    def look_up(self, lookups: Sequence[KeyLookup]) -> tuple[LookedUp, ...]:
        """What the open stores hold of some keys; what is not looked up in time says so."""
        with self._lock:
            until = time.monotonic() + _LOOK_UP_S
            return tuple(
                LookedUp(of.question, tuple(look_up(task, of.group, until) for task in self._of_stage(of.stage)))
                for of in lookups
            )

    def _of_stage(self, stage: int) -> Iterator[Task]:
        return (task for task in self.tasks.values() if task.id.stage == stage)

    def close(self) -> None:
        """Close every store, and what else is open."""
        with self._lock:
            self._registry.close_all()
            for reader in self._readers:
                reader.close()
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


_FENCE_AGAIN_S = 5.0
_LOOK_S = 1.0
"""After which a plan is looked at again that was carried out: the files of a store may be gone meanwhile."""


class PlanExecution:
    """Takes steps 1 and 2 of a promotion (`Task`), and the demotions."""

    def __init__(self, registry: TaskRegistry, reader: RestoreConsumer, duties: StandbyDuties) -> None:
        self._registry, self._reader, self._duties = registry, reader, duties
        self._applied: tuple[int | None, float] = (None, 0.0)

    def apply_plan(self, plans: Sequence[TaskPlan], number: int | None = None) -> None:
        """Hold what the plans name, in its roles, and nothing else.

        Where they were carried out there is nothing to do: a batch does not pay for what a promotion needs.

        Args:
            plans: one per task; the newest is the truth, whatever was held before.
        """
        now, (applied, at) = time.monotonic(), self._applied
        if number is not None and number == applied and now - at < _LOOK_S and self._registry.settled:
            return
        self._applied = None, 0.0  # until all of it is done
        self._registry.begin_call(plans)
        for plan in plans:
            with self._registry.isolating(plan.task):
                task = self._registry.open(plan)
                if task is not None:
                    self._change_role(task, plan)
        for task in self._registry.tasks.values():
            if task.fenced_for_s > _FENCE_AGAIN_S:
                # The one that fenced it was outdated: by now a newer assignment would have come.
                task.promote(task.plan)
        self._fence([task for task in self._registry.tasks.values() if task.state is TaskState.OWNING])
        self._applied = number, now

    def _change_role(self, task: Task, plan: TaskPlan) -> None:
        """A newer generation is a further try for a task that failed, of whichever role; so is time (`FailedTasks`)."""
        again, due = task.state is TaskState.FAILED, self._registry.is_tried_again(task, plan)
        same = plan.same_ownership(task.plan) and not due
        if same or (plan.role is task.plan.role is Role.STANDBY and not again):
            task.plan = plan
        elif plan.role is Role.ACTIVE:
            task.promote(plan, renew_digest=self._duties.end(task.id))
        else:
            task.demote(plan)
            self._reader.remove(task.changelog_partition)  # it is read again from where the store stands

    def own_again(self, task: Task) -> None:
        """Fence for an owner that has given its producer up, without waiting for the next plan."""
        self._fence([task])

    def _fence(self, tasks: Sequence[Task]) -> None:
        """For several tasks at once: each waits for the brokers to abort what a dead owner left open."""
        if not tasks:
            return
        with ThreadPoolExecutor(len(tasks)) as pool:
            fenced = [(task, pool.submit(task.fence)) for task in tasks]
        for task, done in fenced:
            with self._registry.isolating(task.id):
                done.result()
                # It is read again, up to the end that is the last from now on.
                self._reader.remove(task.changelog_partition)
