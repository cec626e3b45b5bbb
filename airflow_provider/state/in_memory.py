"""A store in the worker's memory, which begins empty with each process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.state.options import check_whole_numbers

_PAIR_BYTES: Final = 160
"""What a pair takes besides its bytes: two objects, its place in the dict and among the sorted keys."""


@dataclass(frozen=True, kw_only=True)
class InMemory:
    """A store that is kept in memory, and restored in full from its changelog whenever it is opened.

    For state that is small or lives shortly: a restore takes as long as its changelog is read, and each copy, the
    standbys' too, takes that memory in a Python worker.

    Args:
        max_bytes: of one task's copy, keys and values with 160 bytes for each pair. A task whose state would need more
            fails, and its state stays in the changelog.

    Raises:
        ConfigurationError: it is no whole number above 0.
    """

    max_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        check_whole_numbers(self)


class InMemoryStore:
    """A `StateStore`: a dict, whose keys are sorted when a range is asked for."""

    def __init__(self, options: InMemory) -> None:
        self._max_bytes = options.max_bytes
        self._pairs: dict[bytes, bytes] = {}
        self._position: bytes | None = None
        self._sorted: list[bytes] = []
        self._added: set[bytes] = set()
        self._removed: set[bytes] = set()
        self.bytes = 0
        """What the pairs take."""

    def position(self) -> bytes | None:
        """As of `StateStore`."""
        return self._position

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """As of `StateStore`."""
        return list(map(self._pairs.get, keys))

    def range(self, begin: bytes, end: bytes | None, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """As of `StateStore`."""
        if self._added or self._removed:
            kept = [key for key in self._sorted if key not in self._removed] if self._removed else self._sorted
            self._sorted = sorted([*kept, *sorted(self._added)])  # two runs in order: they are merged
            self._added, self._removed = set(), set()
        at = bisect_left(self._sorted, begin)
        to = len(self._sorted) if end is None else bisect_left(self._sorted, end)
        return [(key, self._pairs[key]) for key in self._sorted[at : min(to, at + limit)]]

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        """As of `StateStore`.

        Raises:
            ConfigurationError: it would take more than it may; nothing was applied.
        """
        pairs = self._pairs
        grown = sum(_PAIR_BYTES + len(key) + len(value) for key, value in changes.items() if value is not None)
        before = zip(changes, map(pairs.get, changes), strict=True)
        grown -= sum(_PAIR_BYTES + len(key) + len(value) for key, value in before if value is not None)
        if grown > 0 and self.bytes + grown > self._max_bytes:
            raise ConfigurationError(
                f"it would take {self.bytes + grown:,} bytes of memory, and may take {self._max_bytes:,}: give it more "
                "by InMemory(max_bytes=...), or keep it in RocksDB. Its state is in the changelog"
            )
        for key, value in changes.items():
            if value is not None:
                if key not in pairs:
                    self._note(key, self._added, self._removed)
                pairs[key] = value
            elif key in pairs:
                del pairs[key]
                self._note(key, self._removed, self._added)
        self.bytes += grown
        self._position = position

    @staticmethod
    def _note(key: bytes, among: set[bytes], against: set[bytes]) -> None:
        """What comes and goes again between two ranges is not noted."""
        if key in against:
            against.remove(key)
        else:
            among.add(key)

    def close(self) -> None:
        """As of `StateStore`."""
        self._pairs = {}
        self._sorted = []
