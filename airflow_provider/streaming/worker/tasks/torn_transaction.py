"""Changes that no commit record follows: half of a transaction that was torn. They are undone where that can be."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogPartition, PartitionReader, read_range
from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.errors import TopicMismatchError
from airflow_provider.state.digest import DIGEST_MASK, digest_change
from airflow_provider.state.time_segments import time_prefix


def values_before(
    reader: PartitionReader, partition: ChangelogPartition, bounds: tuple[int, int], first: int, rate: RestoreSettings
) -> list[Change]:
    """What the keys held, by the changelog, that were changed from an offset on.

    Args:
        reader: that reads nothing else.
        partition: topic and partition.
        bounds: the first offset that the changelog still has, and the one after its last.
        first: of the first change without a commit record.
        rate: how much of the machine may be used.

    Returns:
        Each key once; None where the log has no value of it.

    Raises:
        BrokerUnreachableError: nothing came for 30 s.
        StatefulStreamsError: the changelog cannot be read.
    """
    low, end = bounds
    before: dict[bytes, bytes | None] = {}
    for batch in read_range(reader, partition, first, end, rate):
        before |= dict.fromkeys(batch.keys)
    if low < first:
        for batch in read_range(reader, partition, low, first, rate):
            pairs = zip(batch.keys, batch.values, strict=True)
            before |= {key: value for key, value in pairs if key in before}
    return list(before.items())


def check_undo(
    partition: ChangelogPartition,
    first: int,
    store: str,
    commit: CommitRecord | None,
    torn: tuple[int, Sequence[bytes | None]],
    before: Sequence[Change],
) -> Sequence[Change]:
    """The changes that bring a store back to its last commit, once the commit's digest has proven it.

    Args:
        partition: topic and partition of the changelog.
        first: offset of the first change without a commit record.
        commit: the last one; None where there is none.
        torn: the digest of the store as it is, and what it holds for the keys of `before`.
        before: as `values_before` found it.

    Raises:
        TopicMismatchError: what the keys held cannot be known.
    """
    expired = None if commit is None else commit.expired_before_ms.get(store)
    if expired is not None:
        before = [(key, None if key < time_prefix(expired) else value) for key, value in before]
    digest, values = torn
    change = digest_change([key for key, _ in before], values, before)
    if commit is not None and commit.digests.get(store) == f"{(digest + change) & DIGEST_MASK:016x}":
        return before
    why = (
        "There is no commit of this task at all"
        if commit is None
        else "What these keys held before is not in the log any more, or its last commit has no digest to prove it by"
    )
    raise TopicMismatchError(
        f"{partition[0]}[{partition[1]}] holds changes of {len(before)} key(s), from offset {first} on, that no commit "
        "record follows: a transaction was torn (by a late request of an earlier version's client), or another program "
        f"writes into this changelog. {why}, so they cannot be undone: nothing was changed, and the task processes "
        "nothing. See 'Changes without a commit' in the runbook."
    )
