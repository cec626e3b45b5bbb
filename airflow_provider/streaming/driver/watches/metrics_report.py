"""Keeps the instance's figures for a week: a record a minute."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.metrics import MetricsRecord, metrics_record
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.launch.instance_settings import InstanceSettings

log = logging.getLogger(__name__)


class RecordWriter(Protocol):
    """What is needed here of a `MetricsWriter`."""

    def send(self, record: MetricsRecord) -> None:
        """Send without waiting for it to be stored."""

    def close(self) -> None:
        """Send what is left."""


class MetricsReport:
    """Writes what the last heartbeat said, and how large each store is, in a thread of its own.

    It asks no worker, no JVM and no task. Whatever goes wrong is a line in the log, once until it changes, and the
    next record is tried.

    Args:
        status: its last heartbeat; None before the first.
        store_bytes: what a task's store takes on disk; None where that is not known.
        connect: makes the writer; called by the thread, and again where that failed.
    """

    def __init__(
        self,
        settings: InstanceSettings,
        status: Callable[[], InstanceStatus | None],
        store_bytes: Callable[[TaskId], int | None],
        connect: Callable[[], RecordWriter],
    ) -> None:
        self._interval_s = settings.metrics_interval_s
        self._status = status
        self._store_bytes = store_bytes
        self._connect = connect
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin; the first record is written when the interval is over."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more; returns at once."""
        self._stop.set()

    def _run(self) -> None:
        writer: RecordWriter | None = None
        logged = ""
        while not self._stop.wait(self._interval_s):
            try:
                writer = writer or self._connect()
                self._report(writer)
                logged = ""
            except Exception as error:  # whatever it is: figures are not worth an instance
                if str(error) != logged:
                    logged = str(error)
                    log.warning("the figures of this minute are not kept: %s: %s", type(error).__name__, error)
        if writer is not None:
            writer.close()

    def _report(self, writer: RecordWriter) -> None:
        status = self._status()
        if status is None:
            return
        sizes = {task.task: size for task in status.tasks if (size := self._store_bytes(task.task)) is not None}
        writer.send(metrics_record(status, sizes, now_ms()))
