"""An instance's main: reads the assignment, obeys it, tells how it is."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.status import InstanceState, Role
from airflow_provider.control.view import ControlView
from airflow_provider.errors import StatefulStreamsError
from airflow_provider.names import changelog_topic
from airflow_provider.streaming.heartbeat import Heartbeat
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.plan import JobSpec, TaskPlan
from airflow_provider.streaming.settings import EXIT_TOLD, InstanceSettings
from airflow_provider.streaming.slot_runner import SlotRunner, idle_settings
from airflow_provider.streaming.topic_watch import TopicWatch
from airflow_provider.topics import TopicAdmin, TopicSpec, changelog_spec, control_specs

__all__ = ["Instance"]

log = logging.getLogger(__name__)

_CONTROL_POLL_S: Final = 0.1


class Instance:
    """One running PySpark application that works for an application.

    Args:
        job: complete.
        settings: of this process.
    """

    def __init__(self, job: StatefulJob, settings: InstanceSettings) -> None:
        self._job, self._settings = job, settings
        self._stop = threading.Event()
        self._heartbeat = Heartbeat(settings)
        self._slots: list[SlotRunner] = []
        self._paused = False
        self._replays: dict[int, str] = {}
        self._commands_done: set[str] = set()

    def run(self) -> int:
        """Work until asked to stop.

        Returns:
            The process's exit status: 0 only after the goodbye is stored, `EXIT_TOLD` only after its error is. Whoever
            waits for the process may take any other status for an end without a word.
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
            self._heartbeat.end(InstanceState.ENDED, f"{type(error).__name__}: {error}")
            return EXIT_TOLD
        self._heartbeat.end(InstanceState.STOPPED, None)
        return 0

    def _work(self) -> None:
        spec, topics = self._verified()
        with ControlReader(self._settings.connection, self._job.application_id, statuses=False) as control:
            control.read_to_end()
            # A command that lies there from before was for an earlier process, unless it names this one.
            self._commands_done = {
                c.id for c in control.view.commands.values() if c.incarnation != self._settings.incarnation
            }
            spark = _session(self._settings)
            try:
                self._start_slots(spark, spec)
                topics.start()
                self._heartbeat.change(InstanceState.RUNNING)
                log.info("%s runs, %d slots", self._settings.instance, len(self._slots))
                self._obey(control.view)
                while not self._stop.is_set():
                    if control.poll(_CONTROL_POLL_S):
                        self._obey(control.view)
                    topics.check()
                    for slot in self._slots:
                        slot.check()
                self._heartbeat.change(InstanceState.STOPPING)
            finally:
                topics.stop()
                for slot in self._slots:
                    slot.stop()
        spark.stop()
        shutil.rmtree(Path(self._settings.run_dir) / "checkpoint", ignore_errors=True)

    def _verified(self) -> tuple[JobSpec, TopicWatch]:
        """Refuse to start rather than run lossy, and end rather than go on so."""
        job, admin = self._job, TopicAdmin(self._settings.connection)
        num_tasks = admin.partitions(str(job.source_topic))
        changelog = changelog_spec(job.application_id, job.store, num_tasks)
        source = TopicSpec(str(job.source_topic), num_tasks, required=frozenset())
        topics = TopicWatch(
            admin, [source, changelog, *control_specs(job.application_id)], self._settings.verify_interval_s
        )
        admin.verify([TopicSpec(name, None) for name in (job.sink_topic, job.error_policy.topic) if name])
        found = admin.describe(changelog_topic(job.application_id, job.store))
        retention = found.config.get("delete.retention.ms", "86400000") if found else "86400000"
        assert job.operation is not None, "checked() came first"
        spec = JobSpec(
            job.application_id,
            str(job.source_topic),
            job.sink_topic,
            job.store,
            str(job.key),
            job.operation,
            job.filters,
            num_tasks,
            dataclasses.replace(
                job.rocksdb,
                bulk_write_buffer_bytes=job.restore.write_buffer_bytes,
                bulk_max_write_buffers=job.restore.max_write_buffers,
            ),
            int(retention),
            job.transaction_timeout_ms,
            job.error_policy,
            job.decoder,
            job.certify_interval_s,
            job.snapshot_settings,
            job.restore,
        )
        return spec, topics

    def _start_slots(self, spark: SparkSession, spec: JobSpec) -> None:
        for number in range(max(1, min(spark.sparkContext.defaultParallelism, spec.num_tasks))):
            slot = SlotRunner(
                spark,
                self._job,
                spec,
                self._settings,
                number,
                self._settings.round_interval_s,
                self._heartbeat.report,
            )
            self._slots.append(slot)
            slot.start()

    def _obey(self, view: ControlView) -> None:
        command = view.commands.get(self._settings.instance)
        if command is not None and command.id not in self._commands_done:
            self._commands_done.add(command.id)
            if command.incarnation in (None, self._settings.incarnation):
                self._carry_out(command)
        self._heartbeat.trouble(_unreadable(view))
        assignment, instance = view.assignment, self._settings.instance
        if assignment is None or self._stop.is_set():
            return
        plans = [
            TaskPlan(
                task,
                Role.ACTIVE,
                assignment.tasks[task].active_since,
                self._replays.get(task),
                bool(assignment.tasks[task].standbys),
            )
            for task in assignment.active_on(instance)
        ]
        plans += [
            TaskPlan(task, Role.STANDBY, assignment.generation, self._replays.get(task))
            for task in assignment.standby_on(instance)
        ]
        for number, slot in enumerate(self._slots):
            slot.obey([plan for plan in plans if plan.task % len(self._slots) == number], self._paused)
        self._heartbeat.obeyed(assignment.generation)

    def _carry_out(self, command: Command) -> None:
        log.info("command %s: %s", command.id, command.kind.value)
        match command.kind:
            case CommandKind.STOP:
                self._stop.set()
            case CommandKind.PAUSE:
                self._paused = True
            case CommandKind.RESUME:
                self._paused = False
            case CommandKind.REPLAY:
                self._replays.update(dict.fromkeys(command.tasks, command.id))
            case CommandKind.KILL:
                os.killpg(os.getpgrp(), signal.SIGKILL)
        self._heartbeat.carried_out(command.id)


def _unreadable(view: ControlView) -> str | None:
    if not view.unreadable:
        return None
    told = "; ".join(f"{key!r}: {why}" for key, why in view.unreadable.items())
    return f"records of the assignment topic cannot be read and are not obeyed ({told})"


def _session(settings: InstanceSettings) -> SparkSession:
    # Workers run the interpreter that runs the driver, whatever the environment of the host says.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.appName(f"{settings.application_id}-{settings.instance}")
        .config(map=idle_settings(settings.call_timeout_s))
        .config("spark.python.worker.reuse", "true")
        # Pieces that the worker decodes while the JVM prepares the next one.
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "25000")
        # Spark's word for no bound: else it adds up the size of the batch with every row, a tenth of all its work.
        .config("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
        .config("spark.sql.streaming.minBatchesToRetain", "2")
        # The checkpoint is scratch: no checksums of its files, each of which costs a `chmod` in a process of its own.
        .config("spark.hadoop.fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.RawLocalFs")
        .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        .config("spark.sql.streaming.pollingDelay", "10ms")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .getOrCreate()
    )
