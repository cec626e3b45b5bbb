"""Opens a task's store, moving aside what must not be resumed."""

from __future__ import annotations

import time

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.start import start
from airflow_provider.errors import StatefulStreamsError, StoreCorruptedError
from airflow_provider.names import changelog_topic
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.store import Store
from airflow_provider.streaming.handover import open_store
from airflow_provider.streaming.plan import JobSpec

__all__ = ["open_replica"]


def open_replica(
    job: JobSpec, task: int, directory: StateDirectory, reader: ChangelogReader, address: str, fresh: bool
) -> Replica:
    """Open the store of a task and begin to read its changelog where the store stands.

    A store that RocksDB refuses, or that must not be resumed (`airflow_provider.changelog.start`), is moved to
    quarantine, and an empty one takes its place.

    Args:
        job: of the job.
        task: its number.
        directory: of the stores.
        reader: gets the changelog added.
        address: of this worker's handover.
        fresh: move aside whatever is there.

    Raises:
        StoreLockedError: another living process holds the store and does not let go.
        TopicMissingError: there is no changelog.
        BrokerUnreachableError: the changelog's bounds are not known.
    """
    path, changelog = directory.store(task, job.store), changelog_topic(job.application_id, job.store)

    def open_() -> Store:
        return open_store(lambda: Store(path, job.rocksdb), path, address)

    def open_afresh() -> Store:
        directory.quarantine(task, job.store)
        return open_()

    # The bounds first: what fails on the way must not leave a store open.
    low, high = reader.bounds((changelog, task))
    try:
        store = open_afresh() if fresh else open_()
    except StoreCorruptedError:
        store = open_afresh()
    try:
        if store.position is not None and store.position.offset > high:
            low, high = reader.bounds((changelog, task), store.position.offset)
    except StatefulStreamsError:
        store.close()
        raise
    verdict = start(store.position, changelog, low, high, time.time_ns() // 1_000_000, job.delete_retention_ms)
    if verdict.fresh:
        store.close()
        store = open_afresh()
    replica = Replica(store, changelog, task)
    replica.expect(high)
    reader.add((changelog, task), verdict.offset)
    return replica
