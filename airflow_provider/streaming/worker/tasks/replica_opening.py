"""Opens a task's store, moving aside what must not be resumed, and says whether a job may go on with its state.

Changes that no commit record follows are half of a transaction that was torn. They are undone where that can be.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.completeness import find_resume_point
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import ChangelogPartition, PartitionReader, read_range
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.common.clock import now_ms
from airflow_provider.common.store_signature import WAYS_OUT, StoreSignature
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError, StoreCorruptedError, StoreOutdatedError, TopicMismatchError
from airflow_provider.state.digest import DIGEST_MASK, digest_change
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.time_segments import time_prefix
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.handover import open_store
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer

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
        bounds: of its changelog: the first offset that it still has, and the one after its last.
        read_back: whether the last commit is to be seen in the changelog (`Replica.read_back`); false where it cannot
            be seen yet.

    Raises:
        StoreOutdatedError: it must not be resumed (`airflow_provider.changelog.completeness`).
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
        store = open_store(lambda: job.store.kind.open(path, job.store.name), path, address, instance, lock_timeout_s)
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


def continued_signature(job: StageSpec, last: CommitRecord | None) -> StoreSignature | None:
    """What the state of a task means from the job's next commit on; None where the job has no signature.

    Raises:
        ConfigurationError: another version of the job wrote the state; it meant something else by it, or read another
            topic.
        TopicMismatchError: the source was deleted and created again since.
    """
    now = job.store.signature
    if last is None:
        return now
    topic = job.input.topic
    last.check_source(topic, job.topic_ids.get(topic))
    changes = []
    if last.sources and list(last.sources) != [topic]:
        changes.append(f"source {', '.join(map(repr, sorted(last.sources)))} became {topic!r}")
    before = last.signature.get(job.store.name)
    if now is not None and before is not None:
        changes += before.changes_to(now)
    if changes:
        raise ConfigurationError(
            f"The state of task {last.task} was written by another version of the job, and this one would misread it: "
            f"{'; '.join(changes)}. Nothing was processed. {WAYS_OUT}"
        )
    return now if before is None or now is None else before.continued_by(now)


def refuse_state_of(stages: Mapping[int, StageSpec], commits: Mapping[TaskId, bytes | None]) -> None:
    """Refuse a job that one of its tasks could not go on with.

    Each task refuses by itself. But one without a commit has nothing to compare with: it would process what an earlier
    version left for it between two stages, and refuse that version when the change is undone.

    Args:
        stages: of the job, by number.
        commits: the last of each task, as it lies in its changelog; None for none.

    Raises:
        ConfigurationError: as `continued_signature`.
        TopicMismatchError: a topic between two stages was deleted and created again.
    """
    between = {topic for stage in stages.values() for topic in stage.outputs}
    for task, last in commits.items():
        if last is not None:
            _refuse_state_of(stages[task.stage], task, last, between)


def _refuse_state_of(stage: StageSpec, task: TaskId, last: bytes, between: Collection[str]) -> None:
    topic = stage.input.topic
    try:
        record = CommitRecord.from_bytes(last, stage.application_id, task, stage.changelog)
    except TopicMismatchError:
        return  # its own task says so, and holds up no other
    if not record.read_another(topic, stage.topic_ids.get(topic)):
        continued_signature(stage, record)
    elif topic in between:
        # The stages before would go on filling it. Of a source its own task says so.
        raise TopicMismatchError(
            f"{topic!r}, between two stages of {stage.application_id!r}, was deleted and created again, and what was "
            "on the way is lost with it. Nothing was processed. Reset the application, or deploy the job under another "
            "application id."
        )


def values_before(
    reader: PartitionReader, partition: ChangelogPartition, bounds: tuple[int, int], first: int, rate: RestoreSettings
) -> list[Change]:
    """What the keys held, by the changelog, that were changed from an offset on.

    Args:
        reader: that reads nothing else.
        bounds: the first offset that the changelog still has, and the one after its last.
        first: of the first change without a commit record.

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
        first: offset of the first change without a commit record.
        torn: the digest of the store as it is, and what it holds for the keys of `before`.

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
