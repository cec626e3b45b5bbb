"""A store of a user's own, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path


class SQLiteStore:
    """As `airflow_provider.streaming.StateStore` describes it."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "state.db", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        self._db.execute("CREATE TABLE IF NOT EXISTS positions (id INTEGER PRIMARY KEY, position BLOB)")

    def position(self) -> bytes | None:
        row = self._db.execute("SELECT position FROM positions").fetchone()
        return None if row is None else row[0]

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        rows = [self._db.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone() for key in keys]
        return [None if row is None else row[0] for row in rows]

    def range(self, begin: bytes, end: bytes | None, limit: int) -> Sequence[tuple[bytes, bytes]]:
        below, bounds = ("", (begin,)) if end is None else (" AND key < ?", (begin, end))
        query = f"SELECT key, value FROM pairs WHERE key >= ?{below} ORDER BY key LIMIT ?"
        return self._db.execute(query, (*bounds, limit)).fetchall()

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        put = [(key, value) for key, value in changes.items() if value is not None]
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO pairs VALUES (?, ?)", put)
        self._db.executemany("DELETE FROM pairs WHERE key = ?", [(k,) for k, value in changes.items() if value is None])
        self._db.execute("INSERT OR REPLACE INTO positions VALUES (0, ?)", (position,))
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()
