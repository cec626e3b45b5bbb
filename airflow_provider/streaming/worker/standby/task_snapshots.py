"""Snapshots of one task: taken of its standby, restored into its empty store, both beside the slot's work."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import shutil
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Final, cast

from airflow_provider.common.clock import now_ms
from airflow_provider.common.in_thread import in_thread
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import RestorePhase, SnapshotStatus, TaskStatus
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.snapshot.download import ChangelogBounds, Downloaded, download
from airflow_provider.snapshot.manifest import MANIFEST_FORMAT, FileHashes, Manifest
from airflow_provider.snapshot.remote import place_of
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.snapshot.upload import Uploaded, clear_abandoned, upload
from airflow_provider.state.store import Store
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer
from airflow_provider.streaming.worker.tasks.task import Task

log = logging.getLogger(__name__)

_INCOMING: Final = "incoming"
_OUTGOING: Final = "outgoing"
_WHOLE: Final = "whole"


class TaskSnapshots:
    """What a slot knows of one task's snapshots. Nothing here stops a task: the changelog restores without it."""

    def __init__(self, connection: KafkaConnection, instance: str, task_id: TaskId) -> None:
        self._connection, self._instance, self._task_id = connection, instance, task_id
        self._upload: Future[Uploaded] | None = None
        self._download: Future[Downloaded] | None = None
        self._tried: set[str] = set()
        self._hashes = FileHashes()
        self._due = 0.0
        self._newest: Manifest | None = None
        self._error: str | None = None
        self._asked_by: str | None = None
        self._restored_from: str | None = None

    # -- restoring -----------------------------------------------------------------------------------------------

    def restoring(self, job: StageSpec, path: Path, reader: RestoreConsumer) -> bool:
        """Whether the store has to wait for a snapshot. Begins to fetch one where the store's folder is not there.

        Raises:
            StatefulStreamsError: the changelog's bounds are not known.
        """
        if job.snapshots is None:
            return False
        if self._download is None:
            if path.exists():
                return False
            changelog = job.changelog
            low, high = reader.bounds((changelog, self._task_id.partition))
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
        self, job: StageSpec, settings: SnapshotSettings, path: Path, changelog: str, low: int, high: int
    ) -> Future[Downloaded]:
        remote = place_of(settings, job.application_id, job.store.name, self._task_id)
        _remove_left_behind(path)
        folder, tried = _own_folder(path, _INCOMING) / _WHOLE, frozenset(self._tried)

        def work() -> Downloaded:
            bounds = ChangelogBounds(
                application_id=job.application_id,
                task=self._task_id,
                store=job.store.name,
                changelog=changelog,
                topic_id=TopicAdmin(self._connection).ids([changelog])[changelog],
                low=low,
                high=high,
                delete_retention_ms=job.store.delete_retention_ms,
            )
            return download(remote, bounds, now_ms(), settings, folder, tried)

        return in_thread(work, f"snapshot-restore-{self._task_id}")

    def _take(self, done: Future[Downloaded], path: Path) -> None:
        try:
            found = done.result()
            if found.manifest is not None and found.path is not None:
                # If RocksDB refuses it all the same, the next restore takes another.
                self._tried.add(found.path)
                (_own_folder(path, _INCOMING) / _WHOLE).rename(path)
            self._restored_from, level = str(found), logging.WARNING if found.reasons else logging.INFO
        except Exception as error:  # whatever it is, the changelog restores the store
            self._restored_from, level = f"the changelog ({type(error).__name__}: {error})", logging.WARNING
        shutil.rmtree(_own_folder(path, _INCOMING), ignore_errors=True)
        log.log(level, "task %s: the store is restored from %s", self._task_id, self._restored_from)

    def not_used(self, why: str) -> None:
        """An empty store is restored from the changelog alone, by choice."""
        self._restored_from = f"the changelog ({why})"

    # -- taking --------------------------------------------------------------------------------------------------

    def tick(self, task: Task, settings: SnapshotSettings, trustworthy: bool, asked_by: str | None = None) -> None:
        """Finish a snapshot that is sent, take one that is due.

        Args:
            trustworthy: whether nothing speaks against the store: a wrong one must not be spread.
            asked_by: id of the command that asks for one now, due or not; each asks for one. None for none.

        Raises:
            StateError: the store cannot be copied.
        """
        if self._upload is not None:
            if self._upload.done():
                sent, self._upload = self._upload, None
                self._judge(sent)
            return
        store = cast("Store", task.replica.store)  # of others no job has snapshots
        position = store.position
        # At the end, so that the age of what was applied last says since when deletions may be missing.
        asked = asked_by is not None and asked_by != self._asked_by
        due = asked or time.monotonic() >= self._due
        if not trustworthy or not task.replica.reached_end or position is None or not due:
            return
        offsets = {changelog: at.offset for changelog, at in position.changelogs.items()}
        newest = None if asked else self._newest
        if newest is not None and offsets == {c: at.offset for c, at in newest.changelogs.items()}:
            age_ms = now_ms() - newest.taken_at_ms
            if age_ms < task.job.store.delete_retention_ms / 4:
                return  # nothing is new, and what is there does not get too old yet
        self._due, self._asked_by = time.monotonic() + settings.interval_s, asked_by
        _remove_left_behind(store.path)
        folder = _own_folder(store.path, _OUTGOING)
        shutil.rmtree(folder, ignore_errors=True)
        store.checkpoint(folder)
        place = place_of(settings, task.job.application_id, task.job.store.name, self._task_id)
        # All but the topics' ids, which a broker is asked for beside the slot's work.
        manifest = functools.partial(
            Manifest,
            format=MANIFEST_FORMAT,
            application_id=task.job.application_id,
            task=self._task_id,
            instance=self._instance,
            commit=None if position.commit is None else position.commit.decode(),
            taken_at_ms=now_ms(),
            keys={task.job.store.name: store.estimate_num_keys(task.job.store.name)},
        )
        retention_ms = task.job.store.delete_retention_ms

        def work() -> Uploaded:
            try:
                ids = TopicAdmin(self._connection).ids([*position.changelogs])
                changelogs = {
                    changelog: dataclasses.replace(at, topic_id=ids[changelog])
                    for changelog, at in position.changelogs.items()
                }
                sent = upload(
                    folder, manifest(changelogs=changelogs), place.below(self._instance), self._hashes, settings.keep
                )
                clear_abandoned(place, self._instance, now_ms(), retention_ms)
                return sent
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        self._upload = in_thread(work, f"snapshot-{self._task_id}")

    def _judge(self, sent: Future[Uploaded]) -> None:
        try:
            uploaded = sent.result()
        except Exception as error:  # whatever it is, the standby goes on
            self._error = f"{type(error).__name__}: {error}"
            log.warning("task %s: no snapshot was sent: %s", self._task_id, self._error)
            return
        self._newest, self._error = uploaded.manifest, None
        log.info(
            "task %s: a snapshot at %d was sent, %d of its %d files new, %d of its %d bytes",
            self._task_id,
            uploaded.manifest.offset,
            len(uploaded.sent),
            len(uploaded.manifest.files),
            sum(file.size for file in uploaded.sent),
            uploaded.manifest.total_bytes,
        )

    def with_snapshot_status(self, status: TaskStatus) -> TaskStatus:
        """A status with what is known."""
        newest = self._newest
        return dataclasses.replace(
            status,
            snapshot=SnapshotStatus(
                None if newest is None else newest.offset, None if newest is None else newest.taken_at_ms, self._error
            ),
            restore=dataclasses.replace(
                status.restore,
                source=self._restored_from,
                phase=status.restore.phase if self._download is None else RestorePhase.SNAPSHOT,
            ),
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
