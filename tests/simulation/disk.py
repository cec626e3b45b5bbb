"""RocksDB as a model with the same contract: batches are atomic, what was not flushed may be lost, one process has it.

A database is known by the name in its file ``CURRENT``, so it moves and goes with its folder, as a real one does.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.simulation.kernel import Process, the
from tests.simulation.rocksdb import FOLDER as REAL_FOLDER
from tests.simulation.rocksdb import RocksDB

Operation = tuple[str, str, bytes, bytes | None]
"""``put``, ``delete`` or ``range``; the family; the key, or the first of a range; the value, or the end of a range."""

_UNREADABLE: Final = "Corruption: block checksum mismatch"


@dataclass
class Database:
    """What lies on a disk."""

    flushed: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: {"default": {}})
    families: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: {"default": {}})
    log: list[tuple[list[Operation], bool]] = field(default_factory=list)
    """The batches since, each with whether it went through the WAL."""
    holder: Process | None = None
    broken: bool = False
    flipped: set[tuple[str, bytes]] = field(default_factory=set)
    """By family, the keys whose block cannot be read, until they are written again."""
    real: RocksDB | None = None
    """RocksDB itself, while it is open in a schedule that has it."""
    lost: bool = False
    """Whether it holds less than the real one."""

    def apply(self, batch: Sequence[Operation]) -> None:
        for kind, family, key, value in batch:
            data = self.families[family]
            self.flipped -= {(family, k) for _, k in self.flipped if k == key}
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
            self.log, self.lost = kept, True
        return lost

    def close(self) -> None:
        """Its process is gone, or has closed it."""
        self.holder = None
        if self.real is not None:
            self.real.close()
            self.real = None


class Disk:
    """All disks of a schedule; the folders are real.

    Args:
        real: whether RocksDB itself is beside its model.
    """

    def __init__(self, *, real: bool = False) -> None:
        self._real = real
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
            raise RuntimeError(_UNREADABLE)
        database.holder = process
        for family in families:
            database.families.setdefault(family, {})
        if self._real:
            the().passed("RocksDB opened")
            self._part_with_lost_folder(path / REAL_FOLDER)
            database.real = RocksDB(path, database.families, anew=database.lost)
            database.lost = False
        process.on_death.append(lambda: self._release(database, process))
        return database

    def _part_with_lost_folder(self, folder: Path) -> None:
        """Whose folder was removed goes on as the model alone: all share one table of RocksDB's locks, by folder."""
        for lost in self.databases.values():
            if lost.real is not None and lost.real.folder == folder:
                lost.real.close()
                lost.real = None

    @staticmethod
    def _release(database: Database, process: Process) -> None:
        if database.holder is process:
            database.close()
            database.lose(None)

    def _room(self, path: Path) -> None:
        if any(str(path).startswith(root) for root in self.full):
            raise RuntimeError("IO error: No space left on device")

    def write(self, path: Path, database: Database, batch: list[Operation], wal: bool) -> None:
        self._room(path)
        if database.broken:
            raise RuntimeError(_UNREADABLE)
        database.apply(batch)
        if database.real is not None:
            database.real.write(batch)
        database.log.append((batch, wal))
        if len(database.log) > 40:
            database.flush()
        self.written(str(path), database)

    def close(self) -> None:
        """The schedule is over."""
        for database in self.databases.values():
            database.close()

    def of_host(self, root: str) -> Iterator[Database]:
        """The databases that lie below a folder."""
        for file in sorted(Path(root).rglob("CURRENT")):
            if file.parent.name != REAL_FOLDER:
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


class _Pairs:
    """What lies in a family, and an iterator over it, as much of it as tells how reading has ended.

    Args:
        bad: the keys that cannot be read: at the first one behind where it begins it ends as at the end of all, and its
            status says why.
    """

    def __init__(self, data: Mapping[bytes, bytes], bad: Collection[bytes]) -> None:
        self._data, self._bad, self._at = data, bad, b""

    def _next_bad(self, begin: bytes) -> bytes | None:
        return min((key for key in self._bad if key >= begin), default=None)

    def items(self, from_key: bytes | None = None, read_opt: object = None) -> Iterator[tuple[bytes, bytes]]:
        begin = from_key or b""
        bad = self._next_bad(begin)
        return iter([(k, v) for k, v in sorted(self._data.items()) if begin <= k and (bad is None or k < bad)])

    def seek(self, key: bytes) -> None:
        self._at = key

    def valid(self) -> bool:
        return self._at in self._data and self._at not in self._bad

    def next(self) -> None:
        self._at += b"\0"

    def status(self) -> None:
        bad = self._next_bad(self._at)
        if bad is not None and not any(self._at <= k < bad for k in self._data):
            raise RuntimeError(_UNREADABLE)


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
        keys = key if isinstance(key, list) else [key]
        if self._database.broken or any((self._family, k) in self._database.flipped for k in keys):
            raise RuntimeError(_UNREADABLE)
        values = [self._data.get(k) for k in keys]
        if self._database.real is not None:
            self._database.real.check_get(self._family, keys, values)
        return values if isinstance(key, list) else values[0]

    def items(self, from_key: bytes | None = None, read_opt: object = None) -> Iterator[tuple[bytes, bytes]]:
        pairs = list(_Pairs(self._data, self._bad()).items(from_key))
        if self._database.real is not None and not self._bad():
            self._database.real.check_items(self._family, from_key or b"", pairs)
        return iter(pairs)

    def iter(self, read_opt: object = None) -> _Pairs:
        return _Pairs(self._data, self._bad())

    def snapshot(self) -> Any:
        pairs = _Pairs(dict(self._data), self._bad())
        return SimpleNamespace(items=pairs.items, iter=lambda read_opt=None: pairs)

    def _bad(self) -> set[bytes]:
        return {key for family, key in self._database.flipped if family == self._family}

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
        if self._database.real is not None:
            self._database.real.flush()

    def close(self) -> None:
        if self._owner and not the().closing:
            self._owner = False
            self._database.flush()
            self._database.close()


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
