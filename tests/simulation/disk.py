"""RocksDB as a model with the same contract: batches are atomic, what was not flushed may be lost, one process has it.

A database is known by the name in its file ``CURRENT``, so it moves and goes with its folder, as a real one does.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.simulation.kernel import Process, the

Operation = tuple[str, str, bytes, bytes | None]
"""``put``, ``delete`` or ``range``; the family; the key, or the first of a range; the value, or the end of a range."""


@dataclass
class Database:
    """What lies on a disk."""

    flushed: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: {"default": {}})
    families: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: {"default": {}})
    log: list[tuple[list[Operation], bool]] = field(default_factory=list)
    """The batches since, each with whether it went through the WAL."""
    holder: Process | None = None
    broken: bool = False

    def apply(self, batch: Sequence[Operation]) -> None:
        for kind, family, key, value in batch:
            data = self.families[family]
            if kind == "put":
                data[key] = value or b""
            elif kind == "delete":
                data.pop(key, None)
            else:
                for found in [k for k in data if key <= k < (value or b"")]:
                    del data[found]

    def flush(self) -> None:
        self.flushed = {name: dict(data) for name, data in self.families.items()}
        self.log.clear()

    def lose(self, keep: int | None) -> int:
        """Its process is gone: what did not go through the WAL is lost; with its host, all behind `keep` batches.

        Returns:
            How many batches are lost.
        """
        whole = list(itertools.takewhile(lambda entry: entry[1], self.log))
        kept = whole if keep is None else whole[:keep]
        lost = len(self.log) - len(kept)
        if lost:
            self.families = {name: dict(self.flushed.get(name, {})) for name in self.families}
            for batch, _ in kept:
                self.apply(batch)
            self.log = kept
        return lost


class Disk:
    """All disks of a schedule; the folders are real."""

    def __init__(self) -> None:
        self.databases: dict[str, Database] = {}
        self.full: set[str] = set()
        """The roots of which the disk is full, as their paths begin."""
        self.written: Callable[[str, Database], None] = lambda *_: None
        self._numbers = itertools.count(1)

    def open(self, path: Path, families: Sequence[str]) -> Database:
        kernel = the()
        file = path / "CURRENT"
        if not file.exists():
            self._room(path)
            name = f"db-{next(self._numbers)}"
            file.write_text(name)
            self.databases[name] = Database()
        database = self.databases[file.read_text()]
        assert kernel.current is not None
        process = kernel.current.process
        if database.holder is not None and not database.holder.dead:
            raise RuntimeError("IO error: While lock file: Resource temporarily unavailable")
        if database.broken:
            raise RuntimeError("Corruption: block checksum mismatch")
        database.holder = process
        for family in families:
            database.families.setdefault(family, {})
        process.on_death.append(lambda: self._release(database, process))
        return database

    @staticmethod
    def _release(database: Database, process: Process) -> None:
        if database.holder is process:
            database.holder = None
            database.lose(None)

    def _room(self, path: Path) -> None:
        if any(str(path).startswith(root) for root in self.full):
            raise RuntimeError("IO error: No space left on device")

    def write(self, path: Path, database: Database, batch: list[Operation], wal: bool) -> None:
        self._room(path)
        if database.broken:
            raise RuntimeError("Corruption: block checksum mismatch")
        database.apply(batch)
        database.log.append((batch, wal))
        if len(database.log) > 40:
            database.flush()
        self.written(str(path), database)

    def of_host(self, root: str) -> Iterator[Database]:
        """The databases that lie below a folder."""
        for file in sorted(Path(root).rglob("CURRENT")):
            yield self.databases[file.read_text()]

    def remove(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)


disk: Any = None
"""That of the schedule which runs in this process."""


def use(new: Disk | None) -> None:
    """Make a disk that of this process."""
    global disk  # stores are opened by the product, which knows no disk
    disk = new


class Batch:
    """`rocksdict.WriteBatch`."""

    def __init__(self, raw_mode: bool = True) -> None:
        self.operations: list[Operation] = []
        self._family = "default"

    def set_default_column_family(self, family: str | None) -> None:
        self._family = family or "default"

    def put(self, key: bytes, value: bytes) -> None:
        self.operations.append(("put", self._family, key, value))

    def delete(self, key: bytes) -> None:
        self.operations.append(("delete", self._family, key, None))

    def delete_range(self, begin: bytes, end: bytes, family: str) -> None:
        self.operations.append(("range", family, begin, end))


class Rdict:
    """`rocksdict.Rdict`: a family of an open database."""

    def __init__(self, path: str, options: object = None, column_families: dict[str, object] | None = None) -> None:
        self._path = Path(path)
        self._database = disk.open(self._path, list(column_families or ()))
        self._family = "default"
        self._owner = True

    @staticmethod
    def list_cf(path: str, options: object = None) -> list[str]:
        file = Path(path) / "CURRENT"
        if not file.exists():
            raise RuntimeError("IO error: No such file or directory")
        return list(disk.databases[file.read_text()].families)

    def get_column_family(self, name: str) -> Rdict:
        family = object.__new__(Rdict)
        family._path, family._database, family._family, family._owner = self._path, self._database, name, False
        return family

    def get_column_family_handle(self, name: str) -> str:
        return name

    @property
    def _data(self) -> dict[bytes, bytes]:
        data: dict[bytes, bytes] = self._database.families[self._family]
        return data

    def get(self, key: bytes | list[bytes]) -> Any:
        if self._database.broken:
            raise RuntimeError("Corruption: block checksum mismatch")
        return [self._data.get(k) for k in key] if isinstance(key, list) else self._data.get(key)

    def items(self, from_key: bytes | None = None, read_opt: object = None) -> Iterator[tuple[bytes, bytes]]:
        return iter([(k, v) for k, v in sorted(self._data.items()) if from_key is None or k >= from_key])

    def snapshot(self) -> Any:
        data = dict(self._data)

        def items(from_key: bytes | None = None, read_opt: object = None) -> Iterator[tuple[bytes, bytes]]:
            return iter(sorted(data.items()))

        cursor = SimpleNamespace(seek=lambda _: None, valid=lambda: False, next=lambda: None, status=lambda: None)
        return SimpleNamespace(items=items, iter=lambda read_opt=None: cursor)

    def property_int_value(self, name: str) -> int:
        return len(self._data)

    def write(self, batch: Batch, options: Any = None) -> None:
        disk.write(self._path, self._database, batch.operations, not getattr(options, "disable_wal", False))
        the().passed("store written")
        the().note("store", self._path, len(batch.operations))
        if the().random.random() < 0.3:
            the().sleep(the().random.uniform(0.0001, 0.002))

    def flush(self, *_: object) -> None:
        self._database.flush()

    def close(self) -> None:
        if self._owner and not the().closing:
            self._owner = False
            self._database.flush()
            self._database.holder = None


class ReadOptions:
    """`rocksdict.ReadOptions`, of which nothing depends here."""

    def fill_cache(self, _: bool) -> None:
        """Nothing."""

    def set_readahead_size(self, _: int) -> None:
        """Nothing."""


class StoreOptions:
    """In place of `RocksDBOptions`: making those of RocksDB takes longer than a schedule."""

    def to_options(self, bulk: bool = False) -> None:
        """Nothing: a dictionary has no settings."""

    def to_write_options(self, bulk: bool = False) -> Any:
        return SimpleNamespace(disable_wal=bulk)
