"""What is known of the partitions that an idle query waits for: no client and no clock in here."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["InputPositions"]


class InputPositions:
    """Decides which records are new, whether the consumer that is to bring them still does, and whether they can come.

    Args:
        offsets: by partition, of the next input record; None for the first there is.
    """

    def __init__(self, offsets: Mapping[int, int | None]) -> None:
        self._next = dict(offsets)
        self._reached = {partition: offset or 0 for partition, offset in offsets.items()}
        self._ends: Mapping[int, int] = {}
        self._below: set[int] = set()

    @property
    def next_offsets(self) -> Mapping[int, int | None]:
        """By partition, the offset to read from; None for the first there is; a view."""
        return self._next

    def is_new(self, partition: int, offset: int) -> bool:
        """Whether a record that was read is one that is waited for, and not what was fetched for an earlier wait."""
        return partition in self._next and offset >= (self._next[partition] or 0)

    def reached_end(self, partition: int, offset: int) -> None:
        """The consumer stands at a partition's end: there is no record before it."""
        if partition in self._reached:
            self._reached[partition] = max(self._reached[partition], offset)

    def is_stalled(self, ends: Mapping[int, int]) -> bool:
        """Whether the consumer has not come to where a partition's end was when this was asked the last time.

        Args:
            ends: by partition, the offset after what a reader of committed records sees; those that are known.
        """
        before, self._ends = self._ends, dict(ends)
        return any(end > self._reached[partition] for partition, end in before.items() if partition in self._reached)

    def fell_back(self, ends: Mapping[int, int]) -> bool:
        """Whether a partition ends before its next record, in this look and in the one before.

        Its log was cut: what comes until its end is there again would be taken for what was read before.

        Args:
            ends: as of `is_stalled`.
        """
        before = self._below
        self._below = {number for number, end in ends.items() if end < (self._next.get(number) or 0)}
        return not before.isdisjoint(self._below)
