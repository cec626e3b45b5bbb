"""An instance's state folder: whether it can be used, how much disk it takes, and what of it is not needed any more."""

from __future__ import annotations

import functools
import logging
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.files import folder_bytes
from airflow_provider.common.host_name import host_name
from airflow_provider.common.in_thread import RepeatedLook, in_thread
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import DiskStatus
from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.spark.single_executor import StoreHost

log = logging.getLogger(__name__)

_BEATS: Final = 10


def check_state_folder(host: StoreHost, settings: InstanceSettings) -> None:
    """Refuse a state folder that cannot be made or written to, before any task is opened in it."""
    found = host.call(functools.partial(_finding, settings.state_dir, settings.application_id))
    if found is not None:
        raise ConfigurationError(found)


def _finding(state_dir: str, application_id: str) -> str | None:
    try:
        StateDirectory(Path(state_dir), application_id).check()
    except ConfigurationError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class DiskFigures:
    """What was measured."""

    disk: DiskStatus
    store_bytes: Mapping[TaskId, int] = field(default_factory=dict)


def measure_disk(state_dir: str, application_id: str) -> DiskFigures:
    """Measure the disk of this host.

    Raises:
        OSError: it cannot be measured.
    """
    folder, directory = Path(state_dir), StateDirectory(Path(state_dir), application_id)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    sizes = {task: folder_bytes(directory.database(task)) for task in directory.tasks()}
    return DiskFigures(DiskStatus(state_dir, folder_bytes(folder), free, host_name()), sizes)


class DiskWatch(RepeatedLook):
    """Measures every ten heartbeats, in a thread of its own: a disk that hangs must not silence the instance."""

    def __init__(self, host: StoreHost, settings: InstanceSettings, report: Callable[[DiskStatus], None]) -> None:
        every_s = _BEATS * settings.heartbeat_interval_s
        super().__init__("disk-watch", every_s, "the disk of the stores cannot be measured")
        self._host, self._report = host, report
        self._measure = functools.partial(measure_disk, settings.state_dir, settings.application_id)
        self._figures = DiskFigures(DiskStatus(settings.state_dir))

    def start(self) -> None:
        """Look once, so that who is told that the instance runs knows the host of its stores, and go on in a thread."""
        self.attempt()
        super().start()

    def look(self) -> None:
        self._figures = self._host.call(self._measure)
        self._report(self._figures.disk)

    def store_bytes(self, task: TaskId) -> int | None:
        """What a task's database took at the last look; None where none was there."""
        return self._figures.store_bytes.get(task)


class StateCleanup:
    """Looks each minute.

    Belongs to the instance's thread, which also hands out tasks: so no task is given to a slot while it is set aside.
    What takes time is done in a thread of its own. On a cluster all of it is, because it waits for the executor: a task
    that is given back in the moment in which its store is set aside fails there, and is restored.

    Args:
        after_ms: how long a task may be unassigned before all that its folder holds is removed.
    """

    def __init__(self, host: StoreHost, directory: StateDirectory, after_ms: int, interval_s: float = 60.0) -> None:
        self._host = host
        self._directory = directory
        self._after_ms = after_ms
        self._interval_s = interval_s
        self._due = 0.0
        self._removal: Future[None] | None = None

    def tick(self, held: Callable[[], Collection[TaskId]]) -> None:
        """Look, when it is time."""
        now = time.monotonic()
        if now < self._due or (self._removal is not None and not self._removal.done()):
            return
        self._due = now + self._interval_s
        retire = functools.partial(_retire, self._directory, frozenset(held()), self._after_ms)
        if not self._host.is_here:
            self._removal = in_thread(functools.partial(self._remove, retire), "state-cleanup")
        elif self._attempt(retire):
            self._removal = in_thread(self._directory.empty_removed, "state-cleanup")

    def _remove(self, retire: Callable[[], bool]) -> None:
        if self._attempt(retire):
            self._host.call(self._directory.empty_removed)

    def _attempt(self, retire: Callable[[], bool]) -> bool:
        try:
            found = self._host.call(retire)
        except Exception as error:
            # A full or read-only disk is reported by the tasks that need it, a lost executor by the instance's end.
            log.warning("stores of tasks that are not given to this instance cannot be removed: %s", error)
            return False
        if found:
            log.info("removing stores of tasks that were not given to this instance for %d s", self._after_ms // 1000)
        return found


def _retire(directory: StateDirectory, held: Collection[TaskId], after_ms: int) -> bool:
    return directory.retire(held, after_ms, now_ms())
