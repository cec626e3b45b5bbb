"""Tells the instance's status: each heartbeat interval, and at once when a state changes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import threading
import time
from pathlib import Path

from airflow_provider.control.status import InstanceState, InstanceStatus, TaskStatus
from airflow_provider.control.writer import ControlWriter
from airflow_provider.streaming.settings import InstanceSettings

__all__ = ["Heartbeat"]

_DISK_EVERY = 10
_LAST_BEAT_S = 10.0


class Heartbeat:
    """Owns what is told of this instance.

    Args:
        settings: of the instance.
    """

    def __init__(self, settings: InstanceSettings) -> None:
        self._settings = settings
        self._writer = ControlWriter(settings.connection, settings.application_id)
        self._lock = threading.Lock()
        self._now = threading.Event()
        self._ended = False
        self._slots: dict[int, tuple[TaskStatus, ...]] = {}
        self._processed: dict[int, tuple[float, int]] = {}
        self._status = InstanceStatus(
            settings.application_id,
            settings.instance,
            settings.incarnation,
            InstanceState.STARTING,
            host=os.uname().nodename,
            pid=os.getpid(),
            state_dir=settings.state_dir,
            heartbeat_interval_s=settings.heartbeat_interval_s,
            log_file=settings.log_file,
        )
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Send the first one and go on."""
        self._thread.start()

    def change(self, state: InstanceState) -> None:
        """The instance's state changed."""
        self._update(state=state)

    def trouble(self, error: str | None) -> None:
        """What is wrong although the instance works; None for nothing."""
        self._update(error=error)

    def obeyed(self, generation: int) -> None:
        """An assignment was read and handed to the slots."""
        self._update(generation=generation)

    def carried_out(self, command: str) -> None:
        """A command was carried out."""
        self._update(last_command=command)

    def report(self, slot: int, tasks: tuple[TaskStatus, ...]) -> None:
        """A slot told the status of its tasks; a changed state is sent on at once."""
        with self._lock:
            before = {t.task: _told_at_once(t) for t in self._slots.get(slot, ())}
            self._slots[slot] = tasks
        if before != {t.task: _told_at_once(t) for t in tasks}:
            self._now.set()

    def end(self, state: InstanceState, error: str | None) -> None:
        """The last one: stored before this returns.

        Raises:
            BrokerUnreachableError: it could not be stored.
        """
        self._ended = True
        self._now.set()
        self._thread.join(_LAST_BEAT_S)
        with self._lock:
            self._slots.clear()
        self._status = dataclasses.replace(self._status, state=state, error=error)
        self._writer.write(self._current())
        self._writer.close()

    def _update(self, **changes: object) -> None:
        with self._lock:
            before, self._status = self._status, dataclasses.replace(self._status, **changes)  # type: ignore[arg-type]
        if self._status != before:
            self._now.set()

    def _run(self) -> None:
        beats = 0
        while not self._ended:
            if beats % _DISK_EVERY == 0:
                # A disk that cannot even be measured must not silence the instance.
                with contextlib.suppress(OSError):
                    self._measure_disk()
            self._writer.send(self._current())
            beats += 1
            self._now.wait(self._settings.heartbeat_interval_s)
            self._now.clear()

    def _current(self) -> InstanceStatus:
        with self._lock:
            tasks = sorted((t for slot in self._slots.values() for t in slot), key=lambda t: t.task)
            return dataclasses.replace(
                self._status,
                sent_at_ms=time.time_ns() // 1_000_000,
                tasks=tuple(dataclasses.replace(t, records_per_s=self._rate(t)) for t in tasks),
            )

    def _rate(self, task: TaskStatus) -> float:
        now = time.monotonic()
        then, processed = self._processed.get(task.task, (now, task.processed_records))
        if task.processed_records < processed:
            then, processed = now, task.processed_records
        if now - then > 5 or task.task not in self._processed:
            self._processed[task.task] = (now, task.processed_records)
        return round((task.processed_records - processed) / (now - then), 1) if now > then else 0.0

    def _measure_disk(self) -> None:
        path = Path(self._settings.state_dir)
        path.mkdir(parents=True, exist_ok=True)
        used = 0
        for folder, _, files in os.walk(path):
            for name in files:
                try:
                    used += (Path(folder) / name).stat().st_size
                except FileNotFoundError:  # compacted away meanwhile
                    continue
        free = shutil.disk_usage(path).free
        with self._lock:
            self._status = dataclasses.replace(self._status, disk_bytes=used, free_disk_bytes=free)


def _told_at_once(task: TaskStatus) -> tuple[object, ...]:
    # Whether it is at the end, and whether it has committed, are what a failover waits for.
    return task.state, task.role, task.generation, task.error, task.lag_records == 0, task.first_commit_at_ms is None
