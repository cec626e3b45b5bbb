"""Stores that each do one thing wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.unit.testing.sqlite_store import SQLiteStore


class NotAtomic(SQLiteStore):
    """Each change is a transaction of its own."""

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        for key, value in changes.items():
            if value is None:
                self._db.execute("DELETE FROM pairs WHERE key = ?", (key,))
            else:
                self._db.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?)", (key, value))
        self._db.execute("INSERT OR REPLACE INTO positions VALUES (0, ?)", (position,))


class PositionApart(SQLiteStore):
    """The position is written in a transaction after that of its pairs."""

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        super().write(changes, self.position())  # type: ignore[arg-type]  # none at first
        self._db.execute("INSERT OR REPLACE INTO positions VALUES (0, ?)", (position,))


class PositionFirst(SQLiteStore):
    """The position is written in a transaction before that of its pairs."""

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO positions VALUES (0, ?)", (position,))
        super().write(changes, position)


class ShortKeysFirst(SQLiteStore):
    """Keys come by their lengths."""

    def range(self, begin: bytes, end: bytes | None, limit: int) -> Sequence[tuple[bytes, bytes]]:
        return sorted(super().range(begin, end, limit), key=lambda pair: (len(pair[0]), pair[0]))


class ForgetsDeletions(SQLiteStore):
    """What is deleted is hidden, and not deleted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._deleted: set[bytes] = set()

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return [None if key in self._deleted else value for key, value in zip(keys, super().get(keys), strict=True)]

    def range(self, begin: bytes, end: bytes | None, limit: int) -> Sequence[tuple[bytes, bytes]]:
        pairs = super().range(begin, end, 1_000_000)
        return [pair for pair in pairs if pair[0] not in self._deleted][:limit]

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        for key, value in changes.items():
            (self._deleted.add if value is None else self._deleted.discard)(key)
        super().write({key: value for key, value in changes.items() if value is not None}, position)


class NoEmptyValues(SQLiteStore):
    """An empty value counts as none."""

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return [value or None for value in super().get(keys)]


class TooFew(SQLiteStore):
    """A range ends early."""

    def range(self, begin: bytes, end: bytes | None, limit: int) -> Sequence[tuple[bytes, bytes]]:
        return super().range(begin, end, min(limit, 100))


class PositionInMemory(SQLiteStore):
    """The position is forgotten, the pairs are not."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._db.execute("DELETE FROM positions")


class Refusing(SQLiteStore):
    """It cannot be read once it was opened again."""

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        raise ValueError("no such page")
