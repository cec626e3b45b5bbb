"""What a task's rows of a micro-batch came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.streaming.operations.changes import Changes
from airflow_provider.streaming.operations.stream_time import StreamTime

__all__ = ["BatchResult"]


@dataclass(frozen=True, kw_only=True)
class BatchResult:
    """Everything that one commit of a task writes.

    Args:
        changes: new state and output.
        source_offset: of the next input record.
        records: input records that the commit covers.
        filtered: how many of them each named filter dropped.
        failed: how many of them were left out because they cannot be processed.
        dead_letters: those of them that go to the dead-letter topic.
        late: how many of them came too late for all of their windows.
        digest_change: what the new state adds to the store's digest, by segment (`state.running_digest`).
        time: of the task after them.
        expired_before_ms: before which time the store holds nothing any more; None where nothing expires.
    """

    changes: Changes
    source_offset: int
    records: int
    filtered: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    dead_letters: Sequence[DeadLetter] = ()
    late: int = 0
    digest_change: Mapping[int, int] = field(default_factory=dict)
    time: StreamTime = field(default_factory=StreamTime)
    expired_before_ms: int | None = None
