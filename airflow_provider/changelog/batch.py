"""Consecutive records of a changelog, as the reader hands them on."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Protocol

from airflow_provider.changelog.commit_record import COMMIT_KEY
from airflow_provider.errors import StatefulStreamsError, TopicMismatchError

_KEY, _VALUE, _OFFSET = methodcaller("key"), methodcaller("value"), methodcaller("offset")


class ConsumedRecord(Protocol):
    """A record of a changelog, in the words of confluent-kafka's `Message`, which is one."""

    def topic(self) -> str | None:
        """The changelog."""

    def partition(self) -> int | None:
        """Its partition."""

    def offset(self) -> int | None:
        """Where it stands."""

    def key(self) -> bytes | None:
        """None only where another program wrote it."""

    def value(self) -> bytes | None:
        """None where the key was deleted."""

    def timestamp(self) -> tuple[int, int]:
        """Kind of timestamp, epoch ms."""


@dataclass(kw_only=True)
class ChangelogBatch:
    """Consecutive records of one changelog partition.

    Args:
        keys: of the changes, oldest first; a key may come again.
        values: as many; None where the key was deleted.
        commit: the last commit record among them, which is not among the changes; None when there was none.
        commit_at: its offset.
        uncommitted_from: offset of the first change behind that; of the first of all where there is none; None where
            the last record is a commit record.
        first_offset: of the first record; None while there is none.
        first_commit: that record, where it is a commit record; None otherwise.
        records: how many records that were, commit records among them.
        record_bytes: size of their keys and values together.
        next_offset: offset after the last record, control records included when the end was reached.
        timestamp_ms: of the last record, epoch ms; 0 when there is none.
        known_end: end of the log as the broker reported it with the last fetch; None when unknown.
        error: why the partition cannot be read further; None otherwise.
    """

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    commit: bytes | None = None
    commit_at: int | None = None
    uncommitted_from: int | None = None
    first_offset: int | None = None
    first_commit: bytes | None = None
    records: int = 0
    record_bytes: int = 0
    next_offset: int = 0
    timestamp_ms: int = 0
    at_end: bool = False
    known_end: int | None = None
    error: StatefulStreamsError | None = None

    def add(self, messages: Sequence[ConsumedRecord], before: int | None = None) -> None:
        """Add consecutive records, those from offset `before` on left out.

        A million a second pass here, so nothing is done for each in Python, and what is the same for all is asked of
        the last.
        """
        self.next_offset, self.at_end = (messages[-1].offset() or 0) + 1, False
        if before is not None:
            messages = messages[: bisect.bisect_left(messages, before, key=_OFFSET)]
        keys, values = list(map(_KEY, messages)), list(map(_VALUE, messages))
        if None in keys:
            at = keys.index(None)
            bad = messages[at]
            self.error = TopicMismatchError(
                f"Offset {bad.offset()} of {bad.topic()}[{bad.partition()}] has no key: another program writes into "
                "this changelog. Find it before the application is started again."
            )
            messages, keys, values = messages[:at], keys[:at], values[:at]
            self.next_offset = bad.offset() or 0
        if not messages:
            return
        if self.first_offset is None:
            self.first_offset = messages[0].offset()
            self.first_commit = values[0] if keys[0] == COMMIT_KEY else None
        self.record_bytes += sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
        at = commits = 0
        with contextlib.suppress(ValueError):
            while True:
                at = keys.index(COMMIT_KEY, at)
                self.commit = values[at]
                commits += 1
                del keys[at], values[at]
        if commits:
            behind = at + commits
            self.commit_at = messages[behind - 1].offset()
            self.uncommitted_from = messages[behind].offset() if behind < len(messages) else None
        elif self.uncommitted_from is None:
            self.uncommitted_from = messages[0].offset()
        self.keys += keys
        self.values += values
        self.records += len(messages)
        self.timestamp_ms = messages[-1].timestamp()[1]


def uncommitted_since(before: int | None, commit: bytes | None, found: int | None) -> int | None:
    """Offset of the first change behind the last commit record, once more of a changelog is read.

    Args:
        before: the same, of what was read before.
        commit: the last commit record in what is read now; None where there is none.
        found: `ChangelogBatch.uncommitted_from` of that.
    """
    return found if commit is not None or before is None else before
