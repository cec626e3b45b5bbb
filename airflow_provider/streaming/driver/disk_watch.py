"""How much disk the stores take, and what it has left."""

from __future__ import annotations

import functools
import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider.common.folder_size import folder_bytes
from airflow_provider.common.host_name import host_name
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import DiskStatus
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.store_host import StoreHost

__all__ = ["DiskFigures", "DiskWatch", "measure_disk"]

log = logging.getLogger(__name__)

_BEATS: Final = 10


@dataclass(frozen=True)
class DiskFigures:
    """What was measured.

    Args:
        disk: of all stores.
        store_bytes: by task, what its database takes.
    """

    disk: DiskStatus
    store_bytes: Mapping[TaskId, int] = field(default_factory=dict)


def measure_disk(state_dir: str, application_id: str) -> DiskFigures:
    """Measure the disk of this host.

    Args:
        state_dir: of the instance.
        application_id: the application.

    Raises:
        OSError: it cannot be measured.
    """
    folder, directory = Path(state_dir), StateDirectory(Path(state_dir), application_id)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    sizes = {task: folder_bytes(directory.database(task)) for task in directory.tasks()}
    return DiskFigures(DiskStatus(state_dir, folder_bytes(folder), free, host_name()), sizes)


class DiskWatch:
    """Measures every ten heartbeats, in a thread of its own: a disk that hangs must not silence the instance.

    Args:
        host: where the stores lie.
        settings: of the instance.
        report: gets what was measured.
    """

    def __init__(self, host: StoreHost, settings: InstanceSettings, report: Callable[[DiskStatus], None]) -> None:
        self._host = host
        self._measure = functools.partial(measure_disk, settings.state_dir, settings.application_id)
        self._interval_s = _BEATS * settings.heartbeat_interval_s
        self._report = report
        self._figures = DiskFigures(DiskStatus(settings.state_dir))
        self._logged = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disk-watch", daemon=True)

    def start(self) -> None:
        """Look once, so that who is told that the instance runs knows the host of its stores, and go on in a thread."""
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """Look no more; returns at once."""
        self._stop.set()

    def store_bytes(self, task: TaskId) -> int | None:
        """What a task's database took at the last look; None where none was there."""
        return self._figures.store_bytes.get(task)

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._look()

    def _look(self) -> None:
        try:
            self._figures = self._host.call(self._measure)
            self._report(self._figures.disk)
            self._logged = ""
        except Exception as error:  # whatever it is: figures are not worth an instance
            if not self._stop.is_set() and str(error) != self._logged:
                self._logged = str(error)
                log.warning("the disk of the stores cannot be measured: %s: %s", type(error).__name__, error)
