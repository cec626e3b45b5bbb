"""A Python worker's side of a slot: it obeys a plan, processes rows, follows changelogs, tells how its tasks are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pyarrow as pa

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.control.status import TaskStatus
from airflow_provider.streaming.arrival import rows_by_task
from airflow_provider.streaming.following import Following
from airflow_provider.streaming.garbage import no_collection
from airflow_provider.streaming.handover import Handover
from airflow_provider.streaming.holdings import Holdings
from airflow_provider.streaming.plan import SlotPlan
from airflow_provider.streaming.processing import Processing

__all__ = ["Slot"]


class Slot:
    """Everything that one Python worker holds between calls.

    One call at a time: the driver sees to that, and a lock keeps another worker's request for a store out meanwhile.

    Args:
        plan: of the first call; later ones are obeyed as they come.
    """

    def __init__(self, plan: SlotPlan) -> None:
        self._lock = threading.RLock()
        self._reader = ChangelogReader(plan.settings.connection, plan.job.application_id, plan.job.restore)
        self._handover = Handover(self._release)
        self._held = Holdings(plan, self._reader, self._handover.address)
        self._following = Following(self._held)
        self._processing = Processing(self._held, self._following)

    def call(
        self, plan: SlotPlan, rows: pa.Table | Iterable[pa.RecordBatch] | None, attempts_left: bool
    ) -> tuple[TaskStatus, ...]:
        """Do what a call from the driver asks for: obey the plan, process the rows, follow the changelogs.

        Args:
            plan: the newest.
            rows: of this slot's active tasks, all of them or in pieces as they arrive; None for a round without rows.
            attempts_left: whether Spark would try again, so that a bad record may raise instead of failing the task.

        Returns:
            The status of every task of the plan.

        Raises:
            StatefulStreamsError: something that another attempt may mend.
        """
        with self._lock:
            self._held.obey(plan)
            if rows is None and not self._held.tasks:
                self._held.await_snapshots(plan.budget_s)
            pieces = rows.to_batches() if isinstance(rows, pa.Table) else rows or ()
            passed_over = self._processing.process(rows_by_task(plan.job, pieces), plan, attempts_left)
            with no_collection():
                self._following.follow(time.monotonic() + plan.budget_s)
            return tuple(self._held.status(task, task.task in passed_over) for task in plan.tasks)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            for number in list(self._held.tasks):
                self._held.let_go(number)
            self._reader.close()
            self._handover.close()

    def _release(self, folder: str) -> bool:
        with self._lock:
            return self._held.release(folder)
