"""The one loop that restores and follows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.reader import Source
from airflow_provider.changelog.throttle import Throttle
from airflow_provider.control.status import TaskState
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.streaming.holdings import Holdings
from airflow_provider.streaming.task import Task

__all__ = ["Following"]

_POLL_S = 0.02
_REFRESH_TIMEOUT_S = 1.0


class Following:
    """Applies the changelogs of a slot's tasks.

    Args:
        held: the tasks.
    """

    def __init__(self, held: Holdings) -> None:
        self._held = held
        self._throttle = Throttle(held.job.restore.max_bytes_per_s)
        self._record_bytes: float | None = None

    def follow(self, until: float) -> None:
        """Apply what the changelogs hold, for standbys for ever and for actives up to their end."""
        for task in list(self._held.tasks.values()):
            with self._held.own_trouble(task.number):
                self._refresh(task)
        while any(task.state in (TaskState.FOLLOWING, TaskState.RESTORING) for task in self._held.tasks.values()):
            self._finish_restored()
            batches = self._read(until)
            by_source = {task.source: task for task in self._held.tasks.values()}
            for source, batch in batches.items():
                task = by_source[source]
                with self._held.own_trouble(task.number):
                    task.replica.apply(batch)
                    task.check()
                    if task.state is TaskState.FAILED:
                        self._held.reader.remove(source)
            self._finish_restored()
            self._certify()
            self._take_snapshots()
            behind = any(not task.replica.reached_end for task in self._following())
            if not behind and self._held.set_aside:
                self._prune()
            if time.monotonic() >= until or not behind:
                return

    def _read(self, until: float) -> Mapping[Source, ChangelogBatch]:
        """As many records as the memory and the rate allow, for `_POLL_S` at the most beside a pause."""
        now = time.monotonic()
        if (pause_s := self._throttle.wait_s(now)) > 0:
            time.sleep(max(0.0, min(pause_s, until - now)))
            if pause_s > until - now:
                return {}
        batches = self._held.reader.read(self._held.job.restore.poll_records(self._record_bytes), _POLL_S)
        records = sum(batch.records for batch in batches.values())
        if records:
            size = sum(batch.record_bytes for batch in batches.values())
            self._record_bytes = size / records
            self._throttle.took(size, time.monotonic())
        return batches

    def _certify(self) -> None:
        """Compare the standbys' stores with their actives', one at a time."""
        if (interval_s := self._held.job.certify_interval_s) is None:
            return
        certifications = self._held.certifications
        for task in self._following():
            checking = any(certification.checking for certification in certifications.values())
            if task.state is TaskState.FOLLOWING:
                with self._held.own_trouble(task.number):
                    certifications[task.number].mind(task, interval_s, may_begin=not checking)

    def _take_snapshots(self) -> None:
        """Copy the standbys' stores elsewhere: those that were certified, or whose active's digest is not known."""
        if (settings := self._held.job.snapshots) is None:
            return
        for task in [task for task in self._following() if task.state is TaskState.FOLLOWING]:
            with self._held.own_trouble(task.number):
                certification, record = self._held.certifications[task.number], task.commit_record
                checked = self._held.job.certify_interval_s is not None and record is not None and record.digest
                trustworthy = certification.certified if checked else not certification.diverged
                self._held.snapshots_of(task.number).mind(task, settings, trustworthy)

    def _prune(self) -> None:
        """Every successor is whole: what they replaced need no longer all be kept."""
        settings = self._held.settings
        whole = [(number, self._held.job.store) for number in self._held.tasks]
        self._held.directory.prune(whole, settings.quarantine_max_stores, settings.quarantine_max_bytes)
        self._held.set_aside = False

    def _following(self) -> list[Task]:
        return [t for t in self._held.tasks.values() if t.state in (TaskState.FOLLOWING, TaskState.RESTORING)]

    def _finish_restored(self) -> None:
        for task in list(self._held.tasks.values()):
            # Owned, so the end cannot move: at the end means all of it.
            if task.state is TaskState.RESTORING and task.replica.reached_end and task.replica.lag_records == 0:
                with self._held.own_trouble(task.number):
                    task.run()
                    self._held.reader.remove(task.source)

    def _refresh(self, task: Task) -> None:
        """Tell a quiet store from one that slept: while its changelog holds nothing more, it is as if just applied."""
        if not task.replica.quiet:
            return
        with contextlib.suppress(BrokerUnreachableError):
            _, end = self._held.reader.bounds(task.source, timeout_s=_REFRESH_TIMEOUT_S)
            # Behind the last commit of a running task lies that commit's marker.
            if end <= task.replica.offset + (task.state is TaskState.RUNNING):
                task.replica.refresh()
