"""What a commit leaves in every changelog that it wrote."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.store_signature import EMPTY_STATE, StoreSignature
from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.errors import TopicMismatchError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.state.time_segments import TimeSegments, TimeSpans

if TYPE_CHECKING:
    from airflow_provider.state.kind import AnyStore

COMMIT_KEY: Final = RESERVED_PREFIX + b"commit"
"""The reserved key. The record under it is the last of its transaction in that changelog."""

COMMIT_FORMAT: Final = 1
_MOST_TERMS: Final = 8
"""A store that lacks more of its task's owners is restored afresh."""


@dataclass(frozen=True)
class SourcePosition:
    """A point in the task's partition of a source topic (``docs/formats.md``)."""

    offset: int
    topic_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class SegmentDigests:
    """The digests of a store's spans, of which its own is the sum: what expires is subtracted without being read.

    Args:
        length_ms: of the longest span; of each where none is of several segments. A version that knows segments alone
            takes others for cut otherwise, and reads the store.
    """

    length_ms: int
    digests: Mapping[str, str]

    @classmethod
    def of(cls, spans: TimeSpans, digests: Mapping[int, int]) -> SegmentDigests:
        """Of digests by the start of the last segment of their spans."""
        return cls(length_ms=spans.longest_ms, digests={str(at): f"{it:016x}" for at, it in sorted(digests.items())})

    def digests_of(self, spans: TimeSpans) -> dict[int, int] | None:
        """The inverse; None where the segments are cut otherwise now."""
        if self.length_ms != spans.longest_ms:
            return None
        return {int(at): int(it, 16) for at, it in self.digests.items()}


@dataclass(frozen=True, kw_only=True)
class CommitRecord:
    """The truth about what is done, in the same transaction as the changes and the output.

    It stands in every changelog that the transaction wrote; of those that the changelogs of a task hold, the one with
    the greatest sequence is the task's. A consumer group without members loses its offsets after
    ``offsets.retention.minutes``; a compacted record stays. ``docs/formats.md`` has its fields.
    """

    application_id: str
    task: TaskId
    sequence: int
    generation: int
    instance: str
    incarnation: int
    committed_at_ms: int
    sources: Mapping[str, SourcePosition]
    processed: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)
    stream_time_ms: int | None = None
    watermark_ms: int | None = None
    side_watermarks_ms: tuple[int | None, ...] = ()
    marks: Mapping[str, int | None] = field(default_factory=dict)
    aside: bool = False
    late: int = 0
    expired_before_ms: Mapping[str, int] = field(default_factory=dict)
    segment_offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    segment_digests: Mapping[str, SegmentDigests] = field(default_factory=dict)
    segment_spans: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    signature: Mapping[str, StoreSignature] = field(default_factory=dict)
    outputs: Mapping[str, int] | None = None
    timers: Mapping[str, TimerCount] = field(default_factory=dict)
    terms: Mapping[str, int] = field(default_factory=dict)
    format: int = COMMIT_FORMAT

    def terms_with(self, term: str, sequence: int) -> dict[str, int]:
        """The newest terms, where another one begins with the next commit, or goes on."""
        return dict([*self.terms.items(), *([] if term in self.terms else [(term, sequence)])][-_MOST_TERMS:])

    def source_offset(self, topic: str) -> int | None:
        """Offset of the next input record of a topic; None where nothing of it was processed."""
        source = self.sources.get(topic)
        return None if source is None else source.offset

    def time_spans(self, store: str, segments: TimeSegments) -> TimeSpans:
        """Which segments of a store are dropped together from this commit on."""
        digests = self.segment_digests.get(store)
        lasts = {*self.segment_offsets.get(store, ()), *(() if digests is None else digests.digests)}
        firsts = {int(last): first for last, first in self.segment_spans.get(store, {}).items()}
        return TimeSpans.of(segments.length_ms, map(int, lasts), firsts)

    def read_another(self, topic: str, topic_id: str | None) -> bool:
        """Whether the records that were processed are of another topic of this name, which is gone."""
        found = self.sources.get(topic)
        return found is not None and None not in (found.topic_id, topic_id) and found.topic_id != topic_id

    def check_source(self, topic: str, topic_id: str | None) -> None:
        """Refuse to go on with a source that was created again under its name.

        Its offsets mean nothing in another topic: records would be skipped, or counted twice.

        Raises:
            TopicMismatchError: the topic of which records were processed was deleted and created again.
        """
        if not self.read_another(topic, topic_id):
            return
        found = self.sources[topic]
        raise TopicMismatchError(
            f"Task {self.task} of {self.application_id!r} has processed {topic!r} with the id {found.topic_id} up to "
            f"offset {found.offset}, and the topic of that name has the id {topic_id}: it was deleted and created "
            "again, so that offset would skip records. Restore the earlier topic, or deploy the job so that it "
            f"begins with an empty state at the new topic's start, with {EMPTY_STATE}."
        )

    def to_bytes(self) -> bytes:
        """JSON, so that people and other programs can read it."""
        return self._json

    @functools.cached_property
    def _json(self) -> bytes:  # a commit asks twice: how large it is, and what it is
        return to_json(self)

    @classmethod
    def from_bytes(cls, data: bytes, application_id: str, task: TaskId, topic: str) -> CommitRecord:
        """Read a commit record and check that it is this task's.

        Raises:
            TopicMismatchError: it is unreadable, of a newer format, or another application's or task's.
        """
        where = f"{topic}[{task.partition}]"
        try:
            found = msgspec.json.decode(data, type=_Format).format
            record = from_json(data, cls) if found <= COMMIT_FORMAT else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TopicMismatchError(
                f"{where} holds a commit record that cannot be read ({error}): another program writes into this "
                "changelog. Find it before the application is started again."
            ) from error
        if record is None:
            raise TopicMismatchError(
                f"{where} holds a commit record of format {found}, this version reads up to {COMMIT_FORMAT}: a newer "
                "version of this package has committed. Install it on every instance."
            )
        if (record.application_id, record.task) != (application_id, task):
            raise TopicMismatchError(
                f"{where} holds a commit of application {record.application_id!r}, task {record.task}, expected task "
                f"{task} of {application_id!r}: it is not a changelog of this task. If the job's sinks were "
                "reordered, or one was put before others, put its sinks back into the order that they had; else use "
                "another application id or store name."
            )
        return record


def newest_commit(known: bytes | None, found: bytes | None) -> bytes | None:
    """The newest of a task's commit records, of which each of its changelogs may bring another.

    One that is not of the same task as the other replaces it, so that it is seen and refused.

    Args:
        known: the newest so far; None before any.
        found: read later, of any of the task's changelogs; None where there was none.
    """
    if known is None or found is None or known == found:
        return found if known is None else known  # read back, it stays the object that was decoded
    earlier, later = _header(known), _header(found)
    if earlier is None or later is None or (earlier.application_id, earlier.task) != (later.application_id, later.task):
        return found
    return known if earlier.sequence > later.sequence else found


def holds_all_of(earlier: bytes, later: bytes) -> bool:
    """Whether a task's later commit stands for all that an earlier one processed, by whichever owner it was.

    A greater sequence does not say it: where the earlier was lost, another owner counts on from the one before. Nor
    does a source that is not behind: what the earlier put into the store, and another owner put in and took out in one
    commit, was never changed by that. So each commit says where the newest terms of its task's owners began, as
    the leader epochs of Kafka's brokers do (KIP-101).

    Returns:
        False where one of them cannot be read, or the earlier's term is not among the later's.
    """
    try:
        before, after = (msgspec.json.decode(data, type=_Processed) for data in (earlier, later))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if before.watermark_ms is not None and (after.watermark_ms is None or after.watermark_ms < before.watermark_ms):
        return False
    if before.terms and after.terms and not _goes_on(before, after):
        return False
    return after.sequence > before.sequence and all(
        topic in after.sources and after.sources[topic].offset >= at.offset for topic, at in before.sources.items()
    )


def expired_before_ms(commit: bytes | None, store: str) -> int | None:
    """Before which time a store holds nothing any more, by a commit record; None where nothing expires.

    Args:
        commit: as it lies in a changelog; None before any.
        store: its name. Its keys begin with a time, or it is not named in the record.
    """
    if commit is None:
        return None
    try:
        return msgspec.json.decode(commit, type=_Expired).expired_before_ms.get(store)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Expired(msgspec.Struct):
    expired_before_ms: dict[str, int] = msgspec.field(default_factory=dict)


class _Format(msgspec.Struct):
    format: int


class _Header(msgspec.Struct):
    application_id: str
    task: str
    sequence: int


class _Processed(msgspec.Struct):
    sequence: int
    sources: dict[str, SourcePosition]
    watermark_ms: int | None = None
    terms: dict[str, int] = msgspec.field(default_factory=dict)


def _goes_on(before: _Processed, after: _Processed) -> bool:
    """Whether the term of a commit went on at least to it, by a later one of them."""
    begins = after.terms.get(max(before.terms, key=lambda term: before.terms[term]))
    return begins is not None and all(before.sequence < other for other in after.terms.values() if other > begins)


def _header(data: bytes) -> _Header | None:
    try:
        return msgspec.json.decode(data, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class LastCommit:
    """Reads the commit record in a store's position, decoded once as long as it stays the same."""

    def __init__(self, store: AnyStore, application_id: str, task_id: TaskId, changelog: str) -> None:
        self._store, self._application_id, self._task_id, self._changelog = store, application_id, task_id, changelog
        self._raw: bytes | None = None
        self._record: CommitRecord | None = None

    def read(self) -> CommitRecord | None:
        """The record; None before the first.

        Raises:
            TopicMismatchError: it is another application's.
        """
        position = self._store.position
        raw = None if position is None else position.commit
        if raw is not self._raw:
            self._record = (
                None
                if raw is None
                else CommitRecord.from_bytes(raw, self._application_id, self._task_id, self._changelog)
            )
            # Only now: what was refused is refused again.
            self._raw = raw
        return self._record
