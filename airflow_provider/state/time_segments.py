"""The keys of a store whose state ends with its time: the time stands in front, so that what has ended is a range.

A key is 8 bytes of a time, epoch ms, big-endian, with the sign bit turned so that negative times come first, and the
group's bytes after them. The times are cut into *segments* of equal length, as Kafka Streams' window stores are: what a
store drops, it drops by the segment, and a digest is kept of each, because nobody reads what is dropped.

A *span* is a segment, or several in a row. How many segments are open is not in the job's hand: a watermark is made
longer, or one side of a join runs ahead of the other. How many spans there are is bounded, and so is what a commit
record says of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

PREFIX_BYTES: Final = 8
"""Of a key that are its time."""

_SIGN: Final = 2**63


def time_prefix(time_ms: int) -> bytes:
    """What the keys of a time begin with; no key of an earlier time comes after it in the store's order."""
    return (time_ms + _SIGN).to_bytes(PREFIX_BYTES, "big")


def time_of(key: bytes) -> int:
    """The inverse of `time_prefix`, of a key."""
    return int.from_bytes(key[:PREFIX_BYTES], "big") - _SIGN


def times_of(keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """The same of many keys."""
    prefixes = np.frombuffer(b"".join([key[:PREFIX_BYTES] for key in keys]), ">u8")
    return (prefixes ^ np.uint64(_SIGN)).astype(np.uint64).view(np.int64)


@dataclass(frozen=True)
class TimeSegments:
    """How the times of a store's keys are cut.

    Args:
        origin_ms: where one of them starts.
    """

    length_ms: int
    origin_ms: int = 0

    def start_of(self, time_ms: int) -> int:
        """The start of the segment that a time lies in."""
        return (time_ms - self.origin_ms) // self.length_ms * self.length_ms + self.origin_ms

    def starts_of(self, keys: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """By key, the start of its segment."""
        return self.starts_of_times(times_of(keys))

    def starts_of_times(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """By time, epoch ms, the start of its segment."""
        return (times - self.origin_ms) // self.length_ms * self.length_ms + self.origin_ms


MAX_SPANS: Final = 128
"""Of a store. Each takes some 60 to 110 bytes of a commit record."""

_FINEST: Final = 1024
"""The least share of its time that a segment is kept longer for: one of so many parts."""
_LAST: Final = itemgetter(1)


@dataclass(frozen=True)
class TimeSpans:
    """The spans of a store.

    A span is known by the start of its *last* segment, in the commit record too: who takes that for a segment of its
    own drops nothing of it too early.

    Args:
        spans: the starts of the first and the last segment of each, ascending; no two have a time in common.
    """

    length_ms: int
    spans: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, length_ms: int, lasts: Iterable[int], firsts: Mapping[int, int]) -> TimeSpans:
        """From what a commit record says.

        Args:
            lasts: the start of each span's last segment.
            firsts: by that, the start of its first one; of a span of one segment it is missing.
        """
        return cls(length_ms, tuple((firsts.get(last, last), last) for last in sorted(lasts)))

    @property
    def firsts(self) -> dict[int, int]:
        """By the start of the last segment, that of the first; of spans of several segments."""
        return {last: first for first, last in self.spans if first < last}

    @property
    def longest_ms(self) -> int:
        """The length of the longest span; a segment's where there is none."""
        return max((last - first for first, last in self.spans), default=0) + self.length_ms

    def whole_before(self, time_ms: int) -> int:
        """The latest time up to a segment's start at which no span is cut in two: all before it can be dropped."""
        at = bisect_left(self.spans, time_ms, key=_LAST)
        return min(time_ms, self.spans[at][0]) if at < len(self.spans) else time_ms

    def after(self, segments: Iterable[int], expired_before: int | None, most: int) -> TimeSpans:
        """Without what is dropped, with what is new; neighbours become one where there would be too many.

        Of two spans that become one the earlier is kept until the later is over. They are chosen so that this is short
        beside the time that it is kept anyway, counted from the start of the first span: what ends soon stays apart.

        Args:
            segments: the starts of segments that the store holds now, known ones too.
            expired_before: the earlier ones are dropped; no span begins before and ends behind it. None for none.
            most: how many there may be; 1 at least.
        """
        new = {segment for segment in segments if self._span_of(segment) is None}
        spans = sorted({*self.spans, *((segment, segment) for segment in new)})
        if expired_before is not None:
            spans = [span for span in spans if span[1] >= expired_before]
        share = 1
        while len(spans) > most:
            spans = self._merged(spans, share)
            share *= 2
        return TimeSpans(self.length_ms, tuple(spans))

    def fold(self, values: Mapping[int, int], combine: Callable[[int, int], int]) -> dict[int, int]:
        """By the start of each span's last segment, what the values of its parts come to.

        Args:
            values: by the start of a segment, or of the last one of a span that is a part of one now. What belongs to
                none is left as it is.
        """
        found: dict[int, int] = {}
        for segment, value in values.items():
            span = self._span_of(segment)
            last = segment if span is None else span[1]
            found[last] = combine(found[last], value) if last in found else value
        return found

    def _span_of(self, segment: int) -> tuple[int, int] | None:
        at = bisect_left(self.spans, segment, key=_LAST)
        return self.spans[at] if at < len(self.spans) and self.spans[at][0] <= segment else None

    def _merged(self, spans: list[tuple[int, int]], share: int) -> list[tuple[int, int]]:
        """Neighbours become one where no segment is kept longer by that than for a share of its time."""
        begin, merged = spans[0][0], spans[:1]
        for first, last in spans[1:]:
            earliest = merged[-1][0]
            if (last - earliest) * _FINEST <= (earliest + self.length_ms - begin) * share:
                merged[-1] = (earliest, last)
            else:
                merged.append((first, last))
        return merged
