"""Replays a task's changelog into a scratch folder beside its living store, for a drill, and throws it away.

A process of its own, at the lowest priority, so that it disturbs neither the driver nor the workers. Started by the
instance's driver (`airflow_provider.streaming.faults.fault_injector`); ends with it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.changelog.rebuild import last_commit, measure
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.restore_settings import RestoreSettings, Throttle
from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import FailureStatus
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.errors import BrokerUnreachableError, InstanceError, StatefulStreamsError, StoreDivergedError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.kind import AnyStore, StoreKind
from airflow_provider.streaming.planner.stage_spec import StageSpec
from airflow_provider.streaming.worker.tasks.kafka_clients import RestoreConsumer

_POLL_S: Final = 0.1
_SILENCE_S: Final = 30.0
_LOWEST_PRIORITY: Final = 19


@dataclass(frozen=True, kw_only=True)
class ShadowRestore:
    """What is replayed.

    Args:
        folder: for scratch; made, and removed in the end.
    """

    application_id: str
    instance: str
    task: TaskId
    store: str
    changelog: str
    kind: StoreKind
    delete_retention_ms: int
    topic_id: str | None
    restore: RestoreSettings
    folder: str

    @classmethod
    def of(cls, job: StageSpec, instance: str, task: TaskId, folder: Path) -> ShadowRestore:
        """Of a task of a job."""
        return cls(
            application_id=job.application_id,
            instance=instance,
            task=task,
            store=job.store.name,
            changelog=job.changelog,
            kind=job.store.kind,
            delete_retention_ms=job.store.delete_retention_ms,
            topic_id=job.topic_ids.get(job.changelog),
            restore=job.restore,
            folder=str(folder),
        )


@dataclass(frozen=True, kw_only=True)
class ShadowResult:
    """What came of it.

    Args:
        restores: what was replayed; none where it failed before the end.
        failure: why it failed, or that the changelog does not restore to what was committed; None otherwise.
        unmeasured: why there was nothing to compare; None where there was.
    """

    restores: tuple[TaskRestore, ...] = field(default_factory=tuple)
    failure: FailureStatus | None = None
    unmeasured: str | None = None


def restore_shadow(asked: ShadowRestore, reader: RestoreConsumer) -> ShadowResult:
    """Replay a changelog to its end, and compare the digest with that in the last commit record."""
    folder = Path(asked.folder)
    shutil.rmtree(folder, ignore_errors=True)  # what a process left that was killed
    try:
        with closing(asked.kind.open(folder, asked.store)) as store:
            restored = _replay(asked, reader, store)
            if restored.records == 0:
                return ShadowResult(unmeasured="the changelog holds nothing")
            return _compared(asked, store, restored)
    except StatefulStreamsError as error:
        return ShadowResult(failure=FailureStatus.of(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replay(asked: ShadowRestore, reader: RestoreConsumer, store: AnyStore) -> TaskRestore:
    changelog = asked.changelog
    partition, parent = (changelog, asked.task.partition), os.getppid()
    replica = Replica(store, asked.store, changelog, asked.topic_id, asked.delete_retention_ms)
    throttle, record_bytes = Throttle(asked.restore.max_bytes_per_s), None
    low, high = reader.bounds(partition)
    replica.await_end(high)
    reader.add(partition, low)
    heard = time.monotonic()
    while not replica.reached_end:
        if os.getppid() != parent:
            raise InstanceError("The instance that asked for the replay has ended: drill again.")
        time.sleep(throttle.wait_s(time.monotonic()))
        batch = reader.read(asked.restore.poll_records(record_bytes), _POLL_S).get(partition)
        if batch is not None:
            replica.apply(batch)
            heard = time.monotonic()
            throttle.took(batch.record_bytes, heard)
            record_bytes = batch.record_bytes / batch.records if batch.records else record_bytes
        elif time.monotonic() - heard > _SILENCE_S:
            raise BrokerUnreachableError(
                f"Nothing of {changelog}[{asked.task.partition}] came for {_SILENCE_S:g} s, before its end was "
                "reached: check that the brokers answer."
            )
    return TaskRestore(
        task=asked.task,
        instance=asked.instance,
        records=replica.meter.records,
        bytes=replica.meter.bytes,
        took_s=round(replica.meter.elapsed_s, 3),
    )


def _compared(asked: ShadowRestore, store: AnyStore, restored: TaskRestore) -> ShadowResult:
    changelog = asked.changelog
    partition = f"{changelog}[{asked.task.partition}]"
    commit = last_commit(store, asked.application_id, asked.task, changelog)
    if commit is None:
        return ShadowResult(restores=(restored,), unmeasured=f"{partition} holds no commit")
    committed = commit.digests.get(asked.store)
    if committed is None:
        return ShadowResult(
            restores=(restored,), unmeasured=f"the last commit in {partition} has no digest of {asked.store!r}"
        )
    _, digest = measure(store, asked.store)
    if digest == int(committed, 16):
        return ShadowResult(restores=(restored,))
    # The folder is scratch, and gone when a person reads this: what is wrong is the changelog.
    wrong = StoreDivergedError(
        f"{partition} does not restore to what was committed: its replay has the digest {digest:016x}, its "
        f"last commit had {committed}. A part of the changelog was lost, or another program writes into it. "
        "The stores of the instances are not made of this replay: leave them as they are, and follow 'Changelog "
        "missing or mismatched' in the runbook."
    )
    return ShadowResult(restores=(restored,), failure=FailureStatus.of(wrong))


def main(arguments: Sequence[str]) -> int:
    """Replay what the first argument says as JSON, for the run folder that the second one names; JSON of the result."""
    os.nice(_LOWEST_PRIORITY)
    asked = from_json(arguments[0], ShadowRestore)
    settings = InstanceSettings.read(Path(arguments[1]))
    with closing(ChangelogReader(settings.connection, asked.application_id, asked.restore)) as reader:
        result = restore_shadow(asked, reader)
    sys.stdout.buffer.write(to_json(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
