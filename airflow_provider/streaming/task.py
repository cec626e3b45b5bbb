"""One task in a Python worker: its store, and its producer when it is the active one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.control.status import RestorePhase, Role, TaskState, TaskStatus
from airflow_provider.errors import FencedError, TopicMismatchError
from airflow_provider.failpoint import FailPoints
from airflow_provider.names import changelog_topic, transactional_id
from airflow_provider.state.position import Position
from airflow_provider.state.running_digest import RunningDigest
from airflow_provider.streaming.operation import Changes
from airflow_provider.streaming.plan import JobSpec, TaskPlan
from airflow_provider.streaming.settings import InstanceSettings

__all__ = ["Task"]


class Task:
    """What a worker holds of a task.

    The states are those of `TaskState`. What it is for the task is in `plan`; how far it is, in the store.

    Args:
        settings: of the instance.
        job: of the job.
        plan: what to be.
        replica: the open store.
        failpoints: for tests.
    """

    def __init__(
        self, settings: InstanceSettings, job: JobSpec, plan: TaskPlan, replica: Replica, failpoints: FailPoints
    ) -> None:
        self.settings, self.job, self.plan, self.replica, self._failpoints = settings, job, plan, replica, failpoints
        self.state = TaskState.OWNING if plan.role is Role.ACTIVE else TaskState.FOLLOWING
        self.error: Exception | None = None
        self.owned_at_ms: int | None = None
        self.first_commit_at_ms: int | None = None
        self.processed = 0
        self._writer: TransactionalWriter | None = None
        self._commit: CommitRecord | None = None
        self._commit_read: bytes | None = None
        self._fenced_at: float | None = None
        self._digest = RunningDigest()
        self.distrust_digest = False
        """Whether the digest in the last commit record is not gone on from: it was found wrong, or is to be renewed."""

    @property
    def number(self) -> int:
        """Its number: the partition of source and changelog."""
        return self.plan.task

    @property
    def changelog(self) -> str:
        """Its store's changelog."""
        return changelog_topic(self.job.application_id, self.job.store)

    @property
    def path(self) -> Path:
        """The folder of its store."""
        return self.replica.store.path

    @property
    def source(self) -> tuple[str, int]:
        """Its changelog partition."""
        return self.changelog, self.number

    @property
    def commit_record(self) -> CommitRecord | None:
        """The last commit that the store is applied to; None before the first.

        Raises:
            TopicMismatchError: it is another application's.
        """
        position = self.replica.store.position
        raw = None if position is None else position.commit
        if raw is not self._commit_read:
            self._commit = (
                None
                if raw is None
                else CommitRecord.from_bytes(raw, self.job.application_id, self.number, self.changelog)
            )
            # Only now: what was refused is refused again.
            self._commit_read = raw
        return self._commit

    @property
    def source_offset(self) -> int | None:
        """Offset of the next input record to process; None before the first commit: from the earliest there is."""
        record = self.commit_record
        return None if record is None else record.source_offsets.get(self.job.source_topic)

    def take(self) -> None:
        """Begin anew as the active one: to be owned and restored before it processes anything."""
        self.disown()  # a producer owns once
        self.error, self.state, self._fenced_at = None, TaskState.OWNING, None
        self.processed, self.first_commit_at_ms = 0, None
        self.replica.begin()

    def own(self) -> None:
        """Step 1: fence every earlier owner and abort what it left open.

        After this nobody but this task can add to its changelog, so the end that is asked for next is the last.
        """
        if self._writer is None:
            self._writer = TransactionalWriter(
                self.settings.connection,
                transactional_id(self.job.application_id, self.number),
                self._failpoints,
                self.job.transaction_timeout_ms,
            )
        self._failpoints.hit("own.before")
        self._writer.own()
        self._failpoints.hit("own.done")
        self.owned_at_ms = _now_ms()
        self.state = TaskState.RESTORING

    def run(self) -> None:
        """Owned and restored: go on from the last commit, unless that is of a later owner than this one is."""
        record = self.commit_record
        if record is not None and record.generation > self.plan.generation:
            self.disown()
            self.state = TaskState.CLOSED
            self.error = FencedError(
                f"Task {self.number} was given to {self.settings.instance!r} in generation {self.plan.generation}, but "
                f"{record.instance!r} has committed in generation {record.generation}: nothing is written before a "
                "newer assignment names this instance."
            )
        else:
            self.state = TaskState.RUNNING
            self._begin_digest(record)

    def _begin_digest(self, record: CommitRecord | None) -> None:
        """Go on from the last commit's digest; where there is none, from what the store holds."""
        if record is not None and record.digest is not None and not self.distrust_digest:
            self._digest.resume(int(record.digest, 16))
        elif record is None and next(self.replica.store.items(), None) is None:
            self._digest.resume(0)
        else:
            self._digest.rebase(self.replica.store.scan())
        self.distrust_digest = False

    def give_up(self, error: FencedError) -> None:
        """Somebody else owns the task: wait for the newer assignment that says so."""
        self.disown()
        self.error, self.state, self._fenced_at = error, TaskState.CLOSED, time.monotonic()

    @property
    def fenced_for_s(self) -> float:
        """How long it has waited for the assignment that explains why it was fenced; 0 where it does not wait."""
        if self._fenced_at is None or self.state is not TaskState.CLOSED:
            return 0.0
        return time.monotonic() - self._fenced_at

    def disown(self) -> None:
        """Forget the producer: the task has to be owned and restored again before it processes anything."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._digest.resume(None)
        if self.plan.role is Role.ACTIVE and self.state is not TaskState.FAILED:
            self.state = TaskState.OWNING

    def write(
        self,
        changes: Changes,
        source_offset: int,
        rows: int,
        filtered: dict[str, int],
        group: Consumer,
        failed: int = 0,
        dead_letters: Sequence[DeadLetter] = (),
        digest_change: int = 0,
    ) -> None:
        """Steps 4 and 5: one Kafka transaction, then one RocksDB write batch.

        Args:
            changes: new state and output.
            source_offset: of the next input record.
            rows: input records that this commit covers.
            filtered: how many of them each named filter dropped.
            group: consumer whose group gets the offsets.
            failed: how many of them were left out because they cannot be processed.
            dead_letters: those of them that go to the dead-letter topic.
            digest_change: what the new state adds to the store's digest.
        """
        if self._writer is None:
            raise RuntimeError("write() before own()")
        before = self.commit_record
        totals = dict(before.filtered) if before else {}
        for name, number in filtered.items():
            totals[name] = totals.get(name, 0) + number
        digest = self._digest.after(digest_change)
        record = CommitRecord(
            self.job.application_id,
            self.number,
            self.plan.generation,
            self.settings.instance,
            self.settings.incarnation,
            _now_ms(),
            {self.job.source_topic: source_offset},
            (before.processed if before else 0) + rows,
            totals,
            (before.failed if before else 0) + failed,
            None if digest is None else f"{digest:016x}",
        )
        letters = {str(self.job.error_policy.topic): dead_letters} if dead_letters else {}
        outputs = {self.job.sink_topic: changes.output} if self.job.sink_topic else {}
        # 4. one transaction in Kafka
        offset = self._writer.commit(self.changelog, self.number, changes.state, outputs, record, group, letters)
        # 5. the same in the store, after the commit
        self._failpoints.hit("store.before")
        now = _now_ms()
        self.replica.store.write(
            changes.state, Position(offset, record.to_bytes(), self.changelog, record.committed_at_ms, now)
        )
        self._digest.add(digest_change)
        self._failpoints.hit("store.done")
        self.replica.expect(offset)
        self.first_commit_at_ms = self.first_commit_at_ms or now
        self.processed += rows

    def check(self) -> None:
        """Whether the changelog is this task's; fails it if not."""
        try:
            self.commit_record  # noqa: B018 - reading it is the check
        except TopicMismatchError as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Stop with an error; the state stays as of the last commit."""
        self.error, self.state = error, TaskState.FAILED
        self.disown()

    def close(self) -> None:
        """Give the store's lock back."""
        self.disown()
        self.state = TaskState.CLOSED
        self.replica.store.close()

    @property
    def _restore_phase(self) -> RestorePhase:
        return RestorePhase.CHANGELOG if self.plan.ranges is None else RestorePhase.RANGES

    def status(self) -> TaskStatus:
        """For the heartbeat."""
        replica, running = self.replica, self.state is TaskState.RUNNING
        position = replica.store.position
        lag = 0 if running else replica.lag_records
        lag_s = 0.0 if lag == 0 else None
        if lag and position is not None and position.timestamp_ms:
            lag_s = max(0.0, (_now_ms() - position.timestamp_ms) / 1000)
        record = None if isinstance(self.error, TopicMismatchError) else self.commit_record
        return TaskStatus(
            task=self.number,
            role=self.plan.role,
            state=self.state,
            generation=self.plan.generation,
            position=None if position is None else position.offset,
            end=position.offset if running and position is not None else replica.end,
            lag_records=lag,
            lag_s=lag_s,
            caught_up_in_s=0.0 if running else replica.caught_up_in_s,
            source_offset=None if record is None else record.source_offsets.get(self.job.source_topic),
            restored_records=replica.restored_records,
            restored_bytes=replica.restored_bytes,
            restore_bytes_left=0 if running else replica.bytes_left,
            restore_records_per_s=round(replica.records_per_s, 1),
            restore_s=round(replica.restore_s, 3),
            restore_phase=None if running or replica.whole else self._restore_phase,
            processed_records=self.processed,
            failed_records=0 if record is None else record.failed,
            first_commit_at_ms=self.first_commit_at_ms,
            owned_at_ms=self.owned_at_ms,
            error=None if self.error is None else str(self.error),
            error_kind=None if self.error is None else type(self.error).__name__,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
