"""The writing half of an active task: its producer, and the digest of what its store holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord, SegmentDigests, SourcePosition
from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.changelog.producer_queue import Change
from airflow_provider.changelog.reader import holds_records
from airflow_provider.changelog.replica import Replica
from airflow_provider.changelog.time_mark import TimeMark
from airflow_provider.changelog.writer import ConsumerGroup
from airflow_provider.common.clock import now_ms
from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.errors import ConfigurationError
from airflow_provider.failpoint import FailPoint, FailPoints
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.digest import DIGEST_MASK, RunningDigest, sum_of_digests
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.time_segments import MAX_SPANS, TimeSegments, TimeSpans
from airflow_provider.streaming.operations.batch import Changes
from airflow_provider.streaming.operations.stream_time import Lateness, StreamTime
from airflow_provider.streaming.planner.stage_spec import ASIDE, Aside, StageSpec
from airflow_provider.streaming.worker.tasks.kafka_clients import KafkaClients, TaskProducer


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """What a task's rows of a micro-batch came to: everything that one commit writes.

    Args:
        filtered: how many of them each named filter dropped.
        failed: how many of them were left out because they cannot be processed.
        dead_letters: those of them that go to the dead-letter topic.
        late: as of `operations.operation.Batch`.
        lateness: of the rows, those that are late among them; None where they have no event time, and without any.
        digest_change: what the new state adds to the store's digest, by segment (`state.digest`).
        source_offset: up to where its source is processed; None where nothing of it is.
        time: of the task after them.
        expired_before_ms: before which time the store holds nothing any more; None where nothing expires.
        timers: as of `CommitRecord`.
    """

    changes: Changes
    source_offset: int | None
    records: int
    filtered: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    dead_letters: Sequence[DeadLetter] = ()
    late: int = 0
    lateness: Lateness | None = None
    digest_change: Mapping[int, int] = field(default_factory=dict)
    time: StreamTime = field(default_factory=StreamTime)
    expired_before_ms: int | None = None
    timers: Mapping[str, TimerCount] = field(default_factory=dict)


class TaskCommitter:
    """Takes steps 1, 4 and 5 of the protocol (``docs/protocol.md``) for one task; `Task` knows when each is due.

    Args:
        kafka: makes the task's producer, and a reader for what is looked up in its changelog.
    """

    def __init__(
        self,
        *,
        settings: InstanceSettings,
        job: StageSpec,
        task_id: TaskId,
        replica: Replica,
        kafka: KafkaClients,
        failpoints: FailPoints,
    ) -> None:
        self._settings, self._job, self._task_id, self._replica = settings, job, task_id, replica
        self._kafka, self._failpoints = kafka, failpoints
        self._writer: TaskProducer | None = None
        self._digest = RunningDigest()
        self._signature: StoreSignature | None = None
        self._segments: TimeSegments | None = None
        self._term: str | None = None
        self.told: int | Aside | None = None
        """What this owner has told those behind the task's internal topics of its time (`changelog.time_mark`)."""

    def fence(self) -> None:
        """As `TransactionalWriter.fence`; where that raises, the same producer can try again."""
        if self._writer is None:
            self._writer = self._kafka.open_writer(self._job, self._task_id, self._failpoints)
        self._failpoints.hit(FailPoint.FENCE_BEFORE)
        self._writer.fence()
        self._failpoints.hit(FailPoint.FENCE_DONE)

    def begin(
        self,
        last: CommitRecord | None,
        renew_digest: bool,
        signature: StoreSignature | None,
        segments: TimeSegments | None = None,
    ) -> None:
        """Go on from the last commit's digest; where there is none, from what the store holds.

        Args:
            last: None before the first.
            renew_digest: whether its digest is not believed.
            signature: what the state means from the next commit on; None while that is not known.
            segments: of the store's keys; None where they begin with no time.
        """
        self._signature, self._segments, self._term, self.told = signature, segments, None, None
        store, name = self._replica.store, self._replica.name
        known = None if last is None or renew_digest else self._known_digests(last)
        if known is not None:
            self._digest.resume(known)
        elif last is None and not store.holds_data(name):
            self._digest.resume({})
        else:
            self._digest.rebase(store.scan(name, segments))

    def commit(self, result: BatchResult, last: CommitRecord | None, generation: int, group: ConsumerGroup) -> None:
        """One Kafka transaction, then one RocksDB write batch.

        Raises:
            RuntimeError: it has no producer.
            ConfigurationError: the commit record is larger than the changelog takes; nothing was written.
            StoreCorruptedError: the scan for the digest found a part of the store that cannot be read; nothing was
                written.
            StatefulStreamsError: what `TaskProducer.commit` and `Store.write` raise.
        """
        if self._writer is None:
            raise RuntimeError(f"Task {self._task_id} has no producer: fence() comes before commit().")
        job, changelog, state = self._job, self._replica.changelog, result.changes.state
        outputs, spread = job.written(result.changes), job.output_partitions(self._task_id.partition)
        times = 1 if spread is None else len(spread)
        numbers = {topic: len(pairs) * times for topic, pairs in outputs.items()}
        record = self._next_record(result, last, generation, numbers)
        raw, expired = record.to_bytes(), self._newly_expired(record, last)
        self._check_size(raw)
        letters = {str(job.error_policy.topic): result.dead_letters} if result.dead_letters else {}
        # 4. one transaction in Kafka
        told = job.told(result.time) if job.marked else None
        to_all = None if told in (None, self.told) else (self._mark(told), job.marked)
        after: list[ChangelogPosition] = []

        def follow(ends: Mapping[str, int]) -> None:
            holds_records = self._changelog_holds_records
            after.append(self._replica.position_after_commit(ends[changelog], len(state) + 1, holds_records))

        self._writer.commit({changelog: state}, outputs, record, group, letters, spread, to_all, follow)
        self.told = self.told if told is None else told
        # 5. the same in the store, after the commit
        self._failpoints.hit(FailPoint.STORE_BEFORE)
        before, (to,) = self._replica.store.position or Position(), after
        self._replica.store.write({self._replica.name: state}, before.moved(changelog, to, raw), expired)
        self._digest.add(result.digest_change, result.expired_before_ms, self._spans(record))
        self._failpoints.hit(FailPoint.STORE_DONE)
        self._replica.set_end(to.offset)
        if expired and last is not None:
            self._delete_expired(last)

    def _mark(self, told: int | Aside | None) -> Change:
        return TimeMark(self._task_id, None if told == ASIDE else told).record

    @property
    def reusable(self) -> bool:
        """Whether the producer may commit once more; where not, it is given up for another."""
        return self._writer is not None and self._writer.reusable

    def close(self) -> None:
        """Give the producer up; what it left open is aborted by the next owner."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._digest.resume(None)

    def _changelog_holds_records(self, begin: int, end: int) -> bool:
        with closing(self._kafka.open_reader(self._job)) as reader:
            return holds_records(reader, (self._replica.changelog, self._task_id.partition), begin, end)

    def _check_size(self, record: bytes) -> None:
        changelog, size = self._replica.changelog, len(COMMIT_KEY) + len(record)
        limit = self._job.pair_limit(changelog)
        if size > limit:
            raise ConfigurationError(
                f"The commit record of task {self._task_id} is {size:,} bytes, and {changelog!r} takes {limit:,} at "
                "the most. Nothing was written, and no record of the input is to blame: it grows with the job's "
                "columns, aggregates and filters. Raise max.message.bytes of that topic and deploy again."
            )

    def _known_digests(self, last: CommitRecord) -> Mapping[int, int] | None:
        name, spans = self._replica.name, self._spans(last)
        if spans is None:
            known = last.digests.get(name)
            return None if known is None else {0: int(known, 16)}
        of_spans = last.segment_digests.get(name)
        return None if of_spans is None else of_spans.digests_of(spans)

    def _spans(self, record: CommitRecord | None) -> TimeSpans | None:
        """Which segments are dropped together after a commit; None where keys begin with no time."""
        segments = self._segments
        if segments is None:
            return None
        return TimeSpans(segments.length_ms) if record is None else record.time_spans(self._replica.name, segments)

    def _segment_offsets(self, spans: TimeSpans, result: BatchResult, last: CommitRecord | None) -> dict[str, int]:
        """Before which offset of the changelog there is nothing of a span, for each that is left."""
        first = result.expired_before_ms
        known = {} if last is None else last.segment_offsets.get(self._replica.name, {})
        found = dict.fromkeys(result.digest_change, self._replica.offset)
        found |= {int(segment): offset for segment, offset in known.items()}
        left = {segment: offset for segment, offset in found.items() if first is None or segment >= first}
        return {str(at): offset for at, offset in sorted(spans.fold(left, min).items())}

    def _delete_expired(self, last: CommitRecord) -> None:
        """Have the brokers delete what the log begins with: it is of segments that went with earlier expiries.

        By what the commit before this expiry kept, so that a standby that is a little behind finds what it reads. It is
        known to whichever owner comes next, so the log is cut however often the owner changes.
        """
        assert self._writer is not None
        # What was written since a segment that is left began is never before it, nor is a commit record.
        offset = min(last.segment_offsets.get(self._replica.name, {}).values(), default=None)
        if offset is not None:
            self._writer.delete_before(self._replica.changelog, self._task_id.partition, offset)

    def _newly_expired(self, record: CommitRecord, last: CommitRecord | None) -> dict[str, int]:
        """What expires with a commit: one range, and only where there is something new."""
        before = {} if last is None else last.expired_before_ms
        return {store: time for store, time in record.expired_before_ms.items() if before.get(store) != time}

    def _next_record(
        self,
        result: BatchResult,
        last: CommitRecord | None,
        generation: int,
        written: Mapping[str, int],
    ) -> CommitRecord:
        filtered = dict(last.filtered) if last else {}
        for name, number in result.filtered.items():
            filtered[name] = filtered.get(name, 0) + number
        job = self._job
        outputs = dict(last.outputs or {}) if last else {}
        letters = [] if job.error_policy.topic is None else [(job.error_policy.topic, len(result.dead_letters))]
        for topic, number in (*written.items(), *letters):
            outputs[topic] = outputs.get(topic, 0) + number
        source, name = job.input.topic, self._replica.name
        digests, spans = self._digest.after(result.digest_change, result.expired_before_ms), self._spans(last)
        if spans is not None:
            spans = spans.after({*result.digest_change, *(digests or ())}, result.expired_before_ms, MAX_SPANS)
            digests = None if digests is None else spans.fold(digests, sum_of_digests)
        sequence = 1 if last is None else last.sequence + 1
        self._term = self._term or f"{self._settings.incarnation}.{now_ms()}"
        return CommitRecord(
            application_id=job.application_id,
            task=self._task_id,
            sequence=sequence,
            generation=generation,
            instance=self._settings.instance,
            incarnation=self._settings.incarnation,
            committed_at_ms=now_ms(),
            sources={}
            if result.source_offset is None
            else {source: SourcePosition(result.source_offset, job.topic_ids.get(source))},
            processed=(last.processed if last else 0) + result.records,
            filtered=filtered,
            failed=(last.failed if last else 0) + result.failed,
            digests={} if digests is None else {name: f"{sum(digests.values()) & DIGEST_MASK:016x}"},
            stream_time_ms=result.time.stream_time_ms,
            watermark_ms=result.time.watermark_ms,
            side_watermarks_ms=result.time.side_watermarks_ms,
            marks=result.time.marks,
            aside=result.time.aside,
            late=(last.late if last else 0) + result.late,
            expired_before_ms={} if result.expired_before_ms is None else {name: result.expired_before_ms},
            segment_offsets={} if spans is None else {name: self._segment_offsets(spans, result, last)},
            segment_digests={} if digests is None or spans is None else {name: SegmentDigests.of(spans, digests)},
            segment_spans={} if spans is None else {name: {str(at): first for at, first in spans.firsts.items()}},
            signature={} if self._signature is None else {name: self._signature},
            outputs=outputs,
            timers=result.timers,
            terms={self._term: sequence} if last is None else last.terms_with(self._term, sequence),
        )
