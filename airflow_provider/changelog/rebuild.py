"""A changelog that was lost, written again from a store that still holds the state and that no process has open."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.reader import ChangelogPartition, ChangelogReader, read_range
from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import StateError, StoreDivergedError, TopicMismatchError
from airflow_provider.state.digest import DIGEST_MASK, digest_of
from airflow_provider.state.kind import AnyStore
from airflow_provider.state.position import ChangelogPosition, Position


@dataclass(frozen=True)
class Copy:
    """A store that holds exactly what a commit of its task stands for."""

    commit: CommitRecord
    keys: int
    digest: int


def last_commit(store: AnyStore, application_id: str, task: TaskId, changelog: str) -> CommitRecord | None:
    """The commit that a store says that it stands for; None where it holds none.

    Raises:
        TopicMismatchError: it is another application's or task's.
    """
    raw = None if store.position is None else store.position.commit
    return None if raw is None else CommitRecord.from_bytes(raw, application_id, task, changelog)


def measure(store: AnyStore, name: str) -> tuple[int, int]:
    """How many keys a store holds, and the digest of all of them.

    Raises:
        StoreCorruptedError: it cannot be read.
    """
    digest = keys = 0
    for key, value in store.items(name):
        digest = (digest + digest_of((key,), (value,))) & DIGEST_MASK
        keys += 1
    return keys, digest


def look(store: AnyStore, name: str, application_id: str, task: TaskId, changelog: str) -> Copy:
    """Find out which commit a store stands for, and whether it holds exactly that.

    A store that was killed in the middle of a restore stands between two commits, and a changelog that is made of it
    would be wrong. The digest in the commit record tells.

    Raises:
        StateError: it holds no commit, or one without a digest.
        StoreDivergedError: it holds something else than its commit stands for.
        TopicMismatchError: its commit is another application's or task's.
        StoreCorruptedError: it cannot be read.
    """
    commit = last_commit(store, application_id, task, changelog)
    if commit is None:
        raise StateError(f"The store at {store.path} holds no commit: there is nothing to rebuild {changelog} from.")
    committed = commit.digests.get(name)
    if committed is None:
        raise StateError(
            f"The last commit of the store at {store.path} has no digest of {name!r}: whether the store holds what "
            "was committed cannot be known. Take another copy of the task."
        )
    keys, digest = measure(store, name)
    if digest != int(committed, 16):
        raise StoreDivergedError(
            f"The store at {store.path} has the digest {digest:016x}, its last commit had {committed}: it stands "
            "between two commits, or is damaged. Take another copy of the task."
        )
    return Copy(commit, keys, digest)


def rebuild(
    store: AnyStore,
    name: str,
    copy: Copy,
    partition: ChangelogPartition,
    topic_id: str,
    writer: TransactionalWriter,
    reader: ChangelogReader,
) -> CommitRecord:
    """Write a store's keys and its commit, with the next sequence, into an empty changelog; returns that commit.

    So the task goes on where it was.

    Args:
        partition: of the changelog: the topic exists, and the partition is empty.

    Raises:
        TopicMismatchError: the partition is not empty; nothing was written.
        StoreDivergedError: what was read back is not what the store holds.
        BrokerUnreachableError: the brokers did not answer in time.
    """
    # 1. no owner can write any more, and what one left open is aborted
    writer.fence()
    ends = reader.ends(partition)
    if ends.written > ends.low:
        raise TopicMismatchError(
            f"{partition[0]}[{partition[1]}] holds records already ({ends.low} to {ends.written - 1}): only an empty "
            "one is rebuilt. If it was rebuilt before, replay the task on this instance instead; if an instance has "
            "begun to write it, stop all instances, and delete and create the topic again."
        )
    # 2. all of it in one transaction: a part of a state is never to be taken for the whole
    commit = dataclasses.replace(
        copy.commit,
        sequence=copy.commit.sequence + 1,
        committed_at_ms=now_ms(),
        # The offsets of the lost topic say nothing of this one.
        segment_offsets={of: dict.fromkeys(offsets, 0) for of, offsets in copy.commit.segment_offsets.items()},
    )
    offset = writer.rewrite(partition[0], store.items(name), commit)
    # 3. read back, as the next owner will
    found = _digest_of(reader, partition, offset)
    if found != copy.digest:
        raise StoreDivergedError(
            f"{partition[0]}[{partition[1]}] was written with the digest {copy.digest:016x} and reads as {found:016x}: "
            "do not start the application on it. Find out what else writes into the topic, delete and create it again."
        )
    # 4. the store is of this topic from now on
    now = now_ms()
    at = ChangelogPosition(offset=offset, topic_id=topic_id, complete_at_ms=now)
    store.write({}, (store.position or Position()).moved(partition[0], at, commit.to_bytes()))
    return commit


def _digest_of(reader: ChangelogReader, partition: ChangelogPartition, end: int) -> int:
    """The digest of what an empty store would be restored to; each key has to be there once."""
    digest = 0
    for batch in read_range(reader, partition, 0, end, RestoreSettings(), await_end=True):
        values = [b"" if value is None else value for value in batch.values]
        digest = (digest + digest_of(batch.keys, values)) & DIGEST_MASK
    return digest
