"""What the instance's log says of its restores."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.progress import progress_line
from airflow_provider.control.status import TaskStatus

__all__ = ["RestoreLog"]

log = logging.getLogger(__name__)

_EVERY_S = 5.0


class RestoreLog:
    """A line for each task every few seconds while it restores, and one when it is done."""

    def __init__(self) -> None:
        self._logged_at: dict[TaskId, float] = {}

    def update(self, tasks: Iterable[TaskStatus]) -> None:
        """Log what is new in the newest statuses."""
        now = time.monotonic()
        for task in tasks:
            line = progress_line(task)
            if line is not None and now - self._logged_at.get(task.task, 0.0) > _EVERY_S:
                self._logged_at[task.task] = now
                log.info("task %s restores, %s", task.task, line)
            elif task.restore.phase is None and self._logged_at.pop(task.task, None) is not None:
                log.info(
                    "task %s is restored: %s records, %s bytes in %.1f s",
                    *(task.task, f"{task.restore.records:,}", f"{task.restore.bytes:,}", task.restore.took_s),
                )
