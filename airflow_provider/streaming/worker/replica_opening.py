"""Opens a task's store, moving aside what must not be resumed."""

from __future__ import annotations

import logging

from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.resume_point import find_resume_point
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import StoreCorruptedError, StoreOutdatedError
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.store import Store
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.handover import open_store
from airflow_provider.streaming.worker.kafka_clients import RestoreConsumer

__all__ = ["open_replica", "resume_offset"]

log = logging.getLogger(__name__)


def resume_offset(
    replica: Replica,
    bounds: tuple[int, int],
    delete_retention_ms: int,
    *,
    read_back: bool = True,
) -> int:
    """The offset from which an open store is to be brought up to date.

    Args:
        replica: of the store.
        bounds: of its changelog: the first offset that it still has, and the one after its last.
        delete_retention_ms: how long the changelog keeps deletions.
        read_back: whether the last commit is to be seen in the changelog (`Replica.read_back`); false where it cannot
            be seen yet.

    Raises:
        StoreOutdatedError: it must not be resumed (`airflow_provider.changelog.resume_point`).
        TopicMismatchError: the changelog is not the topic that the store was applied from.
    """
    (low, high), at, store = bounds, replica.position, replica.store
    replica.check_topic()
    found = find_resume_point(
        store.position,
        replica.changelog,
        low,
        high,
        now_ms(),
        delete_retention_ms,
        holds_data=at is None and store.holds_data(replica.name),
    )
    if found.fresh:
        raise StoreOutdatedError(f"The store at {store.path} is not resumed: {found.reason}.")
    return replica.read_back(found.offset, low) if read_back else found.offset


def open_replica(
    job: StageSpec,
    task: TaskId,
    directory: StateDirectory,
    reader: RestoreConsumer,
    address: str,
    instance: str,
    fresh: bool = False,
    strict: bool = False,
    lock_timeout_s: float = 20.0,
) -> Replica:
    """Open the store of a task and begin to read its changelog where the store stands.

    A store that RocksDB refuses, or that must not be resumed, is moved to quarantine, and an empty one takes its place.

    Args:
        job: of the job.
        task: which one.
        directory: of the stores.
        reader: gets the changelog added.
        address: of this worker's handover.
        instance: whose worker this is.
        fresh: move aside whatever is there.
        strict: raise instead of putting an empty store in the place of a bad one.
        lock_timeout_s: how long a living holder of the store is asked to release it.

    Raises:
        StoreCorruptedError: (strict) RocksDB refuses the store.
        StoreOutdatedError: (strict) the store must not be resumed.
        StoreLockedError: another living process holds the store and does not release it.
        TopicMismatchError: the changelog is not the topic that the store was applied from.
        TopicMissingError: there is no changelog.
        BrokerUnreachableError: the changelog's bounds are not known.
    """
    path = directory.database(task)
    partition = job.changelog, task.partition

    def open_(moving_aside: bool) -> tuple[Replica, int]:
        if moving_aside:
            directory.quarantine(task)
        store = open_store(
            lambda: Store(path, [job.store.name], job.store.rocksdb), path, address, instance, lock_timeout_s
        )
        if store.unknown_stores:
            log.warning("%s holds stores that the job does not name, they are kept: %s", path, store.unknown_stores)
        replica = Replica(
            store, job.store.name, partition[0], job.topic_ids.get(partition[0]), job.store.delete_retention_ms
        )
        try:
            bounds = reader.bounds(partition, replica.offset)
            offset = resume_offset(replica, bounds, job.store.delete_retention_ms)
        except BaseException:
            store.close()
            raise
        replica.await_end(bounds[1])
        return replica, offset

    try:
        replica, offset = open_(fresh)
    except (StoreCorruptedError, StoreOutdatedError):
        if strict:
            raise
        replica, offset = open_(moving_aside=True)
    reader.add(partition, offset)
    return replica
