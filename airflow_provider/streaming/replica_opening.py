"""Opens a task's store, moving aside what must not be resumed."""

from __future__ import annotations

import time

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.start import start
from airflow_provider.errors import StoreCorruptedError, StoreOutdatedError
from airflow_provider.names import changelog_topic
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.store import Store
from airflow_provider.streaming.handover import open_store
from airflow_provider.streaming.plan import JobSpec

__all__ = ["open_replica", "where_to_start"]


def where_to_start(replica: Replica, reader: ChangelogReader, delete_retention_ms: int) -> int:
    """The offset from which an open store is to be brought up to date.

    Raises:
        StoreOutdatedError: it must not be resumed (`airflow_provider.changelog.start`).
        TopicMissingError: there is no changelog.
        BrokerUnreachableError: the changelog's bounds are not known.
    """
    position, source = replica.store.position, (replica.changelog, replica.partition)
    low, high = reader.bounds(source, None if position is None else position.offset)
    verdict = start(position, replica.changelog, low, high, time.time_ns() // 1_000_000, delete_retention_ms)
    if verdict.fresh:
        raise StoreOutdatedError(f"The store at {replica.store.path} is not resumed: {verdict.reason}.")
    replica.expect(high)
    return verdict.offset


def open_replica(
    job: JobSpec,
    task: int,
    directory: StateDirectory,
    reader: ChangelogReader,
    address: str,
    fresh: bool = False,
    strict: bool = False,
    lock_timeout_s: float = 20.0,
) -> Replica:
    """Open the store of a task and begin to read its changelog where the store stands.

    A store that RocksDB refuses, or that must not be resumed, is moved to quarantine, and an empty one takes its place.

    Args:
        job: of the job.
        task: its number.
        directory: of the stores.
        reader: gets the changelog added.
        address: of this worker's handover.
        fresh: move aside whatever is there.
        strict: raise instead of putting an empty store in the place of a bad one.
        lock_timeout_s: how long a living holder of the store is asked to let go.

    Raises:
        StoreCorruptedError: (strict) RocksDB refuses the store.
        StoreOutdatedError: (strict) the store must not be resumed.
        StoreLockedError: another living process holds the store and does not let go.
        TopicMissingError: there is no changelog.
        BrokerUnreachableError: the changelog's bounds are not known.
    """
    path, changelog = directory.store(task, job.store), changelog_topic(job.application_id, job.store)

    def open_(moving_aside: bool) -> tuple[Replica, int]:
        if moving_aside:
            directory.quarantine(task, job.store)
        store = open_store(lambda: Store(path, job.rocksdb), path, address, lock_timeout_s)
        replica = Replica(store, changelog, task)
        try:
            return replica, where_to_start(replica, reader, job.delete_retention_ms)
        except BaseException:
            store.close()
            raise

    try:
        replica, offset = open_(fresh)
    except (StoreCorruptedError, StoreOutdatedError):
        if strict:
            raise
        replica, offset = open_(moving_aside=True)
    reader.add((changelog, task), offset)
    return replica
