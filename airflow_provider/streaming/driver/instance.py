"""An instance's main: reads the assignment, applies it, reports its status."""

from __future__ import annotations

import functools
import logging
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.job_change import refuse_other_stages
from airflow_provider.control.application.job_topics import read_view_if_there
from airflow_provider.control.lookup.channel import LookupChannel
from airflow_provider.control.outlook.metrics_topic import MetricsWriter
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.status import InstanceState, TaskStatus
from airflow_provider.control.telemetry.metrics import InstanceFigures, Sample
from airflow_provider.control.telemetry.push import Stop, start_pushes
from airflow_provider.control.telemetry.settings import TelemetrySettings
from airflow_provider.control.topics.commits import CommitTopics, last_of_tasks
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.errors import AccessError, StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.launch.instance_settings import EXIT_REPORTED, InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.heartbeat import Heartbeat
from airflow_provider.streaming.driver.instance_controller import InstanceController, task_plans
from airflow_provider.streaming.driver.lookups import LookupService
from airflow_provider.streaming.driver.slots.slot_driver import SlotDriver
from airflow_provider.streaming.driver.slots.worker_stay import sources_of_workers
from airflow_provider.streaming.driver.spark.row_types import sql_session, types_of_source
from airflow_provider.streaming.driver.spark.single_executor import ExecutorWatch, StoreHost, open_door
from airflow_provider.streaming.driver.spark.spark_session import spark_session, warm_up_session
from airflow_provider.streaming.driver.spark.state_folder import DiskWatch, StateCleanup, check_state_folder
from airflow_provider.streaming.driver.watches.commit_positions import CommitPositions
from airflow_provider.streaming.driver.watches.last_heartbeat import MetricsReport, RepartitionPurge
from airflow_provider.streaming.driver.watches.progress_watch import ProgressWatch
from airflow_provider.streaming.driver.watches.source_ends import SourceEnds
from airflow_provider.streaming.driver.watches.table_wait import TableWait, stages_before
from airflow_provider.streaming.driver.watches.topic_verification import verify_topics
from airflow_provider.streaming.planner.compile import compile_job
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.worker.tasks.plan import LookedUp, WorkerSource
from airflow_provider.streaming.worker.tasks.replica_opening import refuse_state_of

log = logging.getLogger(__name__)

_CONTROL_POLL_S: Final = 0.1
_REFUSED_S: Final = 5.0
_AFTER_ERROR_S: Final = 10.0
"""For so long an instance that ends by an error waits for its micro-batches: until it says so, nobody takes over."""


def refuse_other_state(job: CompiledJob, connection: KafkaConnection, admin: TopicAdmin) -> None:
    """Refuse to run a job that would misread what a task left, before any task of it is opened (`refuse_state_of`).

    Raises:
        ConfigurationError: another version of the job wrote the state of a task, and this one would misread it.
        StatefulStreamsError: the commits cannot be read.
    """
    topics = CommitTopics({stage.number: stage.spec.store.changelog for stage in job.stages})
    ends: dict[TaskId, int] = {}
    for topic, tasks in topics.tasks_by_topic(job.tasks).items():
        # What is open there, or is committed from now on, is a running version's.
        found = admin.latest_offsets(topic, tasks, committed=True)
        ends |= {task: found[number] for number, task in tasks.items()}
    commits = last_of_tasks(connection, job.application_id, topics, ends, lambda record: record.value())
    refuse_state_of(job.specs, commits)


class Instance:
    """One running PySpark application that works for an application.

    Args:
        heartbeat: reports its status; started and ended here.
    """

    def __init__(self, job: StatefulJob, settings: InstanceSettings, heartbeat: Heartbeat) -> None:
        self._job = job
        self._settings = settings
        self._heartbeat = heartbeat
        self._stop = threading.Event()

    def run(self) -> int:
        """Work until asked to stop.

        Returns:
            The process's exit status: 0 only after the clean shutdown is reported and stored, `EXIT_REPORTED` only
            after the error that ended it is. Any other status means that neither was.
        """
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("py4j").setLevel(logging.WARNING)
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        signal.signal(signal.SIGINT, lambda *_: self._stop.set())
        self._heartbeat.start()
        try:
            self._work()
        except StatefulStreamsError as error:
            log.error("%s: %s", type(error).__name__, error)
            self._heartbeat.end(InstanceState.ENDED, error)
            return EXIT_REPORTED
        self._heartbeat.end(InstanceState.STOPPED, None)
        return 0

    def _work(self) -> None:
        admin = TopicAdmin(self._settings.connection)
        view = read_view_if_there(self._settings.connection, admin, self._job.application_id, statuses=False)
        if view is not None and view.job is not None:
            self._job = self._job.numbered(view.job.numbers)
        facts, topics = verify_topics(self._job, admin, self._settings.verify_interval_s)
        with ControlReader(
            self._settings.connection, self._job.application_id, statuses=False, follows=True
        ) as control:
            described = control.read_to_end().job
            refuse_other_stages(described, self._job.description())
            self._heartbeat.check()
            spark = spark_session(self._settings)
            host = StoreHost(spark, self._settings.instance)
            check_state_folder(host, self._settings)
            self._heartbeat.set_ui_url(spark.sparkContext.uiWebUrl)
            job = compile_job(self._job, facts, functools.partial(types_of_source, spark), sql_session(spark))
            if described is not None:
                refuse_other_state(job, self._settings.connection, admin)
            before = stages_before(job)
            read = {stage.number: stage for stages in before.values() for stage in stages}
            positions = CommitPositions(self._settings.connection, job.application_id, list(read.values()))
            tables = TableWait(before, positions, functools.partial(SourceEnds, self._settings.connection))
            faults = None
            if self._job.allow_faults:
                # Without them nothing of a drill is loaded.
                from airflow_provider.streaming.faults.fault_injector import FaultInjector

                faults = FaultInjector(
                    self._settings,
                    job.specs,
                    self._heartbeat,
                    host,
                    lambda: control.view.assignment,
                    lambda task: slots[controller.slot_of[task]],
                )
            report = self._heartbeat.report if faults is None else faults.report
            sources = sources_of_workers(job, before.keys()) if self._job.worker_reads else {}
            log.info("%s read the sources", "its workers" if sources else "Spark's queries")
            slots = self._slots(
                spark, job, admin, report, lambda: progress, tables, sources, lambda found: lookups.answered(found)
            )
            ask = self._settings.connection, self._settings.application_id
            lookups = LookupService(self._settings.instance, job.specs, slots, lambda: LookupChannel(*ask))
            progress = ProgressWatch(
                {stage.number: SourceEnds(self._settings.connection, stage.source.topic) for stage in job.stages},
                lambda: spark.sparkContext.defaultParallelism,
                lambda slot: slots[slot].batch_since,
                lambda slot, task: slots[slot].first_call(task),
                lambda slot: slots[slot].silent_for_s,
                self._settings.call_timeout_s,
                tables.of,
            )
            purge = RepartitionPurge(admin, job, lambda: self._heartbeat.last)
            disk = DiskWatch(host, self._settings, self._heartbeat.set_disk)
            to = self._settings.connection, self._settings.application_id, self._settings.metrics_interval_s
            metrics = MetricsReport(
                self._settings, lambda: self._heartbeat.last, disk.store_bytes, lambda: MetricsWriter(*to)
            )
            pushes = self._pushes(disk)
            controller = InstanceController(
                self._settings,
                slots,
                self._heartbeat,
                self._stop,
                at_start=control.view,
                faults=faults,
                takes_snapshots=self._job.snapshot_settings is not None,
            )
            executor, patience_s = ExecutorWatch.of(spark), _AFTER_ERROR_S
            try:
                for slot in slots:
                    slot.start()
                topics.start()
                positions.start()
                progress.start()
                disk.start()
                metrics.start()
                purge.start()
                lookups.start()
                self._heartbeat.set_seen(progress.seen)
                # One that could never report would be taken for silent. It has tried since Spark began to start.
                self._heartbeat.check()
                # Beside the rest: an instance that is to restore a task must not wait for it.
                if not sources:
                    in_thread(lambda: self._warm_up(spark, job), "session-warm-up")
                self._heartbeat.set_state(InstanceState.RUNNING)
                log.info("%s runs, %d slots", self._settings.instance, len(slots))
                checks = [
                    topics.check,
                    self._heartbeat.check,
                    executor.check,
                    *(slot.check for slot in slots),
                ]
                self._follow(control, controller, checks, self._cleanup(job, host))
                self._heartbeat.set_state(InstanceState.STOPPING)
                patience_s = math.inf
            finally:
                self._heartbeat.clear_plans()
                self._heartbeat.set_seen(None)
                progress.stop()
                disk.stop()
                metrics.stop()
                for push in pushes:
                    push.stop()
                purge.stop()
                lookups.stop()
                topics.stop()
                deadline = time.monotonic() + (0 if executor.lost else patience_s)
                for slot in slots:
                    slot.stop(deadline - time.monotonic())
                positions.stop()
                tables.close()
        spark.stop()
        shutil.rmtree(Path(self._settings.run_dir) / "checkpoint", ignore_errors=True)

    def _pushes(self, disk: DiskWatch) -> list[Stop]:
        def samples() -> list[Sample]:
            if (status := self._heartbeat.last) is None:
                return []
            sizes = {task.task: size for task in status.tasks if (size := disk.store_bytes(task.task)) is not None}
            return list(InstanceFigures(status, sizes).samples())

        try:
            return start_pushes(TelemetrySettings.from_environment(os.environ), samples)
        except Exception as error:  # nothing depends on figures
            log.warning("no figures are sent: %s", error)
            return []

    def _warm_up(self, spark: SparkSession, job: CompiledJob) -> None:
        checkpoint = Path(self._settings.run_dir) / "checkpoint" / "warm-up"
        for stage in job.stages:
            warm_up_session(spark, stage, self._settings.connection, checkpoint)

    def _slots(
        self,
        spark: SparkSession,
        job: CompiledJob,
        admin: TopicAdmin,
        report: Callable[[int, tuple[TaskStatus, ...]], None],
        progress: Callable[[], ProgressWatch],
        tables: TableWait,
        sources: Mapping[int, WorkerSource],
        on_looked_up: Callable[[Sequence[LookedUp]], None],
    ) -> list[SlotDriver]:
        numbers = range(num_slots(spark.sparkContext.defaultParallelism, len(job.tasks)))
        return [
            SlotDriver(
                spark,
                job,
                self._settings,
                number,
                report,
                admin.earliest_offsets,
                admin.latest_offsets,
                lambda: progress().idle,
                lambda: progress().fell_back,
                tables.wait,
                sources,
                functools.partial(open_door, spark),
                on_looked_up,
            )
            for number in numbers
        ]

    def _cleanup(self, job: CompiledJob, host: StoreHost) -> StateCleanup:
        directory = StateDirectory(Path(self._settings.state_dir), self._job.application_id)
        # After the changelogs' own time a store could not be resumed anyway.
        after_ms = self._job.state_cleanup_delay_ms
        longest_ms = max(spec.store.delete_retention_ms for spec in job.specs.values())
        return StateCleanup(host, directory, longest_ms if after_ms is None else after_ms)

    def _follow(
        self,
        control: ControlReader,
        controller: InstanceController,
        checks: Sequence[Callable[[], None]],
        cleanup: StateCleanup,
    ) -> None:
        """Apply what the control topics say until asked to stop; raise what one of the checks finds.

        What the brokers refuse is reported and no reason to end: it may be given back, and the next process would meet
        the same.
        """
        controller.apply(control.view)
        refused = ""
        while not self._stop.is_set():
            found, changed = "", False
            try:
                changed = control.poll(_CONTROL_POLL_S)
            except AccessError as error:
                found = str(error)
                self._stop.wait(_REFUSED_S)
            if changed:
                controller.apply(control.view)
            if (assignment := control.view.assignment) is not None:
                cleanup.tick(functools.partial(self._held, assignment))
            for check in checks:
                try:
                    check()
                except AccessError as error:
                    found = str(error)
            if found != refused:
                refused = found
                log.warning("%s", found or "nothing is refused any more")
                self._heartbeat.set_refused(found or None)

    def _held(self, assignment: Assignment) -> set[TaskId]:
        return {plan.task for plan in task_plans(assignment, self._settings.instance, {})}


def num_slots(cores: int, num_tasks: int) -> int:
    """How many Python workers share the tasks: one per core, and no more than tasks."""
    return max(1, min(cores, num_tasks))
