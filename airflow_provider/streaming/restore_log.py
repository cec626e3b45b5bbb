"""What the instance's log says of its restores."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from airflow_provider.control.progress import progress_line
from airflow_provider.control.status import TaskStatus

__all__ = ["RestoreLog"]

log = logging.getLogger(__name__)

_EVERY_S = 5.0


class RestoreLog:
    """A line for each task every few seconds while it restores, and one when it is done."""

    def __init__(self) -> None:
        self._told: dict[int, float] = {}

    def tell(self, tasks: Iterable[TaskStatus]) -> None:
        """Learn the newest statuses."""
        now = time.monotonic()
        for task in tasks:
            line = progress_line(task)
            if line is not None and now - self._told.get(task.task, 0.0) > _EVERY_S:
                self._told[task.task] = now
                log.info("task %d restores, %s", task.task, line)
            elif task.restore_phase is None and self._told.pop(task.task, None) is not None:
                log.info(
                    "task %d is restored: %s records, %s bytes in %.1f s",
                    *(task.task, f"{task.restored_records:,}", f"{task.restored_bytes:,}", task.restore_s),
                )
