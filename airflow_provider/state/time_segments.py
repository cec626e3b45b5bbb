"""The keys of a store whose state ends with its time: the time stands in front, so that what has ended is a range.

A key is 8 bytes of a time, epoch ms, big-endian, with the sign bit turned so that negative times come first, and the
group's bytes after them. The times are cut into *segments* of equal length, as Kafka Streams' window stores are: what a
store drops, it drops by the segment, and a digest is kept of each, because nobody reads what is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
        length_ms: of a segment.
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
