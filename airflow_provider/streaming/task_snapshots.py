"""Snapshots of one task: taken of its standby, restored into its empty store, both beside the slot's work."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Final

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.connection import KafkaConnection
from airflow_provider.control.status import RestorePhase, TaskStatus
from airflow_provider.names import changelog_topic
from airflow_provider.snapshot.background import in_background
from airflow_provider.snapshot.choice import ChangelogBounds
from airflow_provider.snapshot.clearing import clear_abandoned
from airflow_provider.snapshot.download import Downloaded, download
from airflow_provider.snapshot.hashes import FileHashes
from airflow_provider.snapshot.manifest import MANIFEST_FORMAT, Manifest
from airflow_provider.snapshot.place import place_of
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.snapshot.upload import Uploaded, upload
from airflow_provider.streaming.plan import JobSpec
from airflow_provider.streaming.task import Task
from airflow_provider.topics import TopicAdmin

__all__ = ["TaskSnapshots"]

log = logging.getLogger(__name__)

_INCOMING: Final = "incoming"
_OUTGOING: Final = "outgoing"


class TaskSnapshots:
    """What a slot knows of one task's snapshots. Nothing here stops a task: the changelog restores without it.

    Args:
        connection: the cluster, for the changelog's id.
        instance: this instance's name.
        number: the task's.
    """

    def __init__(self, connection: KafkaConnection, instance: str, number: int) -> None:
        self._connection, self._instance, self._number = connection, instance, number
        self._upload: Future[Uploaded] | None = None
        self._download: Future[Downloaded] | None = None
        self._tried: set[str] = set()
        self._hashes = FileHashes()
        self._due = 0.0
        self._newest: Manifest | None = None
        self._error: str | None = None
        self._restored_from: str | None = None

    # -- restoring -----------------------------------------------------------------------------------------------

    def restoring(self, job: JobSpec, path: Path, reader: ChangelogReader) -> bool:
        """Whether the store has to wait for a snapshot. Begins to fetch one where the store's folder is not there.

        Args:
            job: of the job.
            path: the store's folder, which nobody has open.
            reader: tells the changelog's bounds.

        Raises:
            StatefulStreamsError: the changelog's bounds are not known.
        """
        if job.snapshots is None:
            return False
        if self._download is None:
            if path.exists():
                return False
            changelog = changelog_topic(job.application_id, job.store)
            low, high = reader.bounds((changelog, self._number))
            if high <= low:
                return False
            self._download = self._begin_download(job, job.snapshots, path, changelog, low, high)
        if not self._download.done():
            return True
        download, self._download = self._download, None
        self._take(download, path)
        return False

    def wait(self, seconds: float) -> None:
        """Wait for what is fetched, because there is nothing else to do."""
        if self._download is not None:
            wait([self._download], seconds)

    def _begin_download(
        self, job: JobSpec, settings: SnapshotSettings, path: Path, changelog: str, low: int, high: int
    ) -> Future[Downloaded]:
        remote = place_of(settings, job.application_id, job.store, self._number)
        _remove_left_behind(path)
        folder, tried = _own_folder(path, _INCOMING), frozenset(self._tried)

        def work() -> Downloaded:
            bounds = ChangelogBounds(
                job.application_id,
                self._number,
                job.store,
                changelog,
                TopicAdmin(self._connection).ids([changelog])[changelog],
                low,
                high,
                job.delete_retention_ms,
            )
            return download(remote, bounds, _now_ms(), settings, folder, tried)

        return in_background(f"snapshot-restore-{self._number}", work)

    def _take(self, done: Future[Downloaded], path: Path) -> None:
        try:
            found = done.result()
            if found.manifest is not None and found.path is not None:
                # If RocksDB refuses it all the same, the next restore takes another.
                self._tried.add(found.path)
                _own_folder(path, _INCOMING).rename(path)
            self._restored_from, level = str(found), logging.WARNING if found.reasons else logging.INFO
        except Exception as error:  # whatever it is, the changelog restores the store
            self._restored_from, level = f"the changelog ({type(error).__name__}: {error})", logging.WARNING
        log.log(level, "task %d: the store is restored from %s", self._number, self._restored_from)

    def not_used(self, why: str) -> None:
        """An empty store is restored from the changelog alone, by choice."""
        self._restored_from = f"the changelog ({why})"

    # -- taking --------------------------------------------------------------------------------------------------

    def mind(self, task: Task, settings: SnapshotSettings, trustworthy: bool) -> None:
        """Finish a snapshot that is sent, take one that is due.

        Args:
            task: a standby.
            settings: where to, how often.
            trustworthy: whether nothing speaks against the store: a wrong one must not be spread.

        Raises:
            StateError: the store cannot be copied.
        """
        if self._upload is not None:
            if self._upload.done():
                sent, self._upload = self._upload, None
                self._judge(sent)
            return
        position = task.replica.store.position
        # At the end, so that the age of what was applied last says since when deletions may be missing.
        if not trustworthy or not task.replica.reached_end or position is None or time.monotonic() < self._due:
            return
        if self._newest is not None and self._newest.offset == position.offset:
            age_ms = _now_ms() - self._newest.taken_at_ms
            if age_ms < task.job.delete_retention_ms / 4:
                return  # nothing is new, and what is there does not get too old yet
        self._due = time.monotonic() + settings.interval_s
        _remove_left_behind(task.path)
        folder = _own_folder(task.path, _OUTGOING)
        shutil.rmtree(folder, ignore_errors=True)
        task.replica.store.checkpoint(folder)
        place = place_of(settings, task.job.application_id, task.job.store, self._number)
        manifest = Manifest(
            MANIFEST_FORMAT,
            task.job.application_id,
            self._number,
            task.job.store,
            task.changelog,
            "",
            self._instance,
            position.offset,
            None if position.commit is None else position.commit.decode(),
            position.timestamp_ms,
            position.applied_at_ms,
            _now_ms(),
            task.replica.store.about_keys(),
        )
        changelog, retention_ms = task.changelog, task.job.delete_retention_ms

        def work() -> Uploaded:
            try:
                incarnation = TopicAdmin(self._connection).ids([changelog])[changelog]
                named = dataclasses.replace(manifest, incarnation=incarnation)
                sent = upload(folder, named, place.below(self._instance), self._hashes, settings.keep)
                clear_abandoned(place, self._instance, _now_ms(), retention_ms)
                return sent
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        self._upload = in_background(f"snapshot-{self._number}", work)

    def _judge(self, sent: Future[Uploaded]) -> None:
        try:
            uploaded = sent.result()
        except Exception as error:  # whatever it is, the standby goes on
            self._error = f"{type(error).__name__}: {error}"
            log.warning("task %d: no snapshot was sent: %s", self._number, self._error)
            return
        self._newest, self._error = uploaded.manifest, None
        log.info(
            "task %d: a snapshot at %d was sent, %d of its %d files new, %d of its %d bytes",
            self._number,
            uploaded.manifest.offset,
            len(uploaded.sent),
            len(uploaded.manifest.files),
            sum(file.size for file in uploaded.sent),
            uploaded.manifest.total_bytes,
        )

    def told(self, status: TaskStatus) -> TaskStatus:
        """A status with what is known."""
        newest = self._newest
        return dataclasses.replace(
            status,
            snapshot_position=None if newest is None else newest.offset,
            snapshot_at_ms=None if newest is None else newest.taken_at_ms,
            snapshot_error=self._error,
            restored_from=self._restored_from,
            restore_phase=status.restore_phase if self._download is None else RestorePhase.SNAPSHOT,
        )


def _own_folder(path: Path, kind: str) -> Path:
    """Beside the store, on its disk; this process's own, because another worker may just have had the store."""
    return path.with_name(f"{path.name}.{kind}-{os.getpid()}")


def _remove_left_behind(path: Path) -> None:
    """What processes that are gone were fetching or sending."""
    for folder in [f for kind in (_INCOMING, _OUTGOING) for f in path.parent.glob(f"{path.name}.{kind}-*")]:
        pid = int(folder.name.rpartition("-")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # another user's: it lives
            continue


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
