"""The stores of one task: a RocksDB database whose every write carries its position."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from rocksdict import Checkpoint, ColumnFamily, Options, Rdict, WriteBatch

from airflow_provider.errors import StateError, StoreCorruptedError, StoreLockedError
from airflow_provider.state.digest import DigestScan, check_end, pairs_of_snapshot
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.position import RESERVED_PREFIX, Position
from airflow_provider.state.time_segments import TimeSegments, time_prefix

log = logging.getLogger(__name__)

_POSITION: Final = RESERVED_PREFIX + b"position"
_DEFAULT: Final = "default"
"""RocksDB's own family; it holds the position and nothing else."""
_FAMILY: Final = "store-"
"""What a store's family is called, before the store's name."""


class Store:
    """Keys and values as bytes, in any number of named stores, and the position that they stand for together.

    It owns the truth "up to where am I applied": the position is written in the same RocksDB write batch as the data of
    all stores that it covers, so that a crash leaves both or neither. Each store is a column family. Not safe for
    several threads; one process at a time can have it open.

    Args:
        path: its folder; made when missing.
        stores: the names of the stores. One that the database lacks is created, empty.
        options: RocksDB's settings, of each store; the block cache is shared.

    Raises:
        StoreLockedError: another living process has it open.
        StoreCorruptedError: RocksDB refuses the files.
        StoreOutdatedError: a newer version of this package wrote the position.
        StateError: the folder cannot be used (read-only, disk full).
    """

    def __init__(self, path: Path, stores: Collection[str], options: RocksDBOptions | None = None) -> None:
        self.path = path
        self.stores = tuple(stores)
        self._options = options or RocksDBOptions()
        self._scans: dict[str, DigestScan] = {}
        self._bulk_stores: set[str] = set()
        self._open()
        try:
            self.position: Position | None = self._read_position()
            """Up to where the stores are applied, which `write` moves; None while they are empty."""
        except BaseException:
            self.close()  # who keeps the error keeps this object: its lock would stay as long
            raise

    @property
    def files_there(self) -> bool:
        """Whether its files were not removed under it: RocksDB goes on with those that it holds open."""
        return (self.path / "CURRENT").exists()

    memory_bytes = None
    """What is kept in memory alone; it is on the disk."""

    @property
    def unknown_stores(self) -> tuple[str, ...]:
        """Stores that the database holds and the caller did not name. They stay as they are."""
        return self._unknown

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys` in a store, in their order; None where there is none.

        Raises:
            StoreCorruptedError: a block cannot be read.
        """
        if not keys:
            return []
        try:
            return cast("list[bytes | None]", self._families[store].get(list(keys)))
        except Exception as error:
            raise typed_error(error, self.path) from error

    def write(
        self,
        changes: Mapping[str, Iterable[tuple[bytes, bytes | None]]],
        position: Position,
        expired_before_ms: Mapping[str, int] | None = None,
    ) -> None:
        """Apply changes and the position after them, all or nothing.

        Args:
            changes: by store, pairs of key and new value; None deletes. Later pairs win.
            expired_before_ms: by store whose keys begin with a time (`state.time_segments`): all of earlier times are
                dropped, what was just changed too. One record in the store, however many keys that are.

        Raises:
            StateError: RocksDB refuses the write; the stores stand for what they stood for before.
        """
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for store, pairs in changes.items():
            # Once for all: a family given with each record would cost a tenth of the loop.
            batch.set_default_column_family(self._handles[store])
            for key, value in pairs:
                if value is None:
                    delete(key)
                else:
                    put(key, value)
        for store, time_ms in (expired_before_ms or {}).items():
            batch.delete_range(b"", time_prefix(time_ms), self._handles[store])
        batch.set_default_column_family(None)
        put(_POSITION, position.to_bytes())
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise typed_error(error, self.path) from error
        self.position = position

    @property
    def bulk(self) -> bool:
        """Whether the database is opened for a large restore."""
        return bool(self._bulk_stores)

    def in_bulk_load_mode(self, store: str) -> bool:
        """Whether a large restore of this store goes on."""
        return store in self._bulk_stores

    def set_bulk_load_mode(self, store: str, bulk: bool) -> None:
        """Begin or end a large restore of a store, in which nothing is read.

        The database is opened for it as long as any of its stores is being restored so.

        Raises:
            StateError: it cannot be flushed or opened.
        """
        if bulk is (store in self._bulk_stores):
            return
        before = self.bulk
        (self._bulk_stores.add if bulk else self._bulk_stores.remove)(store)
        if before is self.bulk:
            return
        try:
            for family in (*self._families.values(), self._db):
                family.flush()
        except Exception as error:
            raise typed_error(error, self.path) from error
        self._release()
        self._open()

    def items(self, store: str) -> Iterator[tuple[bytes, bytes]]:
        """Every key and value of the user in a store, in the order of the keys' bytes.

        Raises:
            StoreCorruptedError: a block cannot be read; what lies before it was given.
        """
        return ((key, value) for key, value in self._pairs(store, b"") if not key.startswith(RESERVED_PREFIX))

    def holds_data(self, store: str) -> bool:
        """Whether a store has any key.

        Raises:
            StoreCorruptedError: its first block cannot be read.
        """
        return next(self.items(store), None) is not None

    def range(self, store: str, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The pairs of a store from key `begin` (included) to `end` (excluded), in the order of the keys' bytes.

        Raises:
            StoreCorruptedError: a block cannot be read; what lies before it was given.
        """
        return self._pairs(store, begin, end)

    def _pairs(self, store: str, begin: bytes, end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        family, last = self._families[store], begin
        for key, value in cast("Iterator[tuple[bytes, bytes]]", family.items(from_key=begin)):
            if end is not None and key >= end:
                return
            last = key
            yield key, value
        try:
            check_end(family.iter(), last)
        except Exception as error:
            # Raised without the traceback: that would keep the iterator, and with it RocksDB's lock.
            corrupted = typed_error(error, self.path)
        else:
            return
        raise corrupted

    def scan(self, store: str, segments: TimeSegments | None = None) -> DigestScan:
        """Begin to compute the digest of what a store holds now, beside its work. Its scan before ends."""
        if (earlier := self._scans.pop(store, None)) is not None:
            earlier.cancel()
        self._scans[store] = DigestScan(pairs_of_snapshot(self._families[store].snapshot()), self.path, segments)
        return self._scans[store]

    def checkpoint(self, folder: Path) -> None:
        """Make a copy of all stores as they stand, without copying: RocksDB's own checkpoint.

        It flushes the memtables, holds back the removal of files, makes hard links to the SST files, which never
        change, and copies the few small ones; so the copy is a whole database at this position, whatever is written or
        compacted later.

        Args:
            folder: to be made, on the same disk.

        Raises:
            StateError: it cannot be made.
        """
        try:
            Checkpoint(self._db).create_checkpoint(str(folder))
        except Exception as error:
            raise typed_error(error, self.path) from error

    def estimate_num_keys(self, store: str) -> int:
        """A store's number of keys, as RocksDB estimates it."""
        return self._families[store].property_int_value("rocksdb.estimate-num-keys") or 0

    def close(self) -> None:
        """Flush and give the lock back.

        On a disk that takes nothing more the lock is given back all the same: what was not flushed is in the changelog.
        """
        for error in self._release():
            log.warning("The store at %s was closed without a flush: %s", self.path, error)

    def _release(self) -> list[Exception]:
        # Whatever is left of these keeps the database, and the lock with it: scans for their snapshots.
        for scan in self._scans.values():
            scan.cancel()
        self._scans.clear()
        self._handles.clear()
        errors = list[Exception]()
        for family in (*self._families.values(), self._db):
            try:
                family.close()
            except Exception as error:
                errors.append(error)
        return errors

    def _open(self) -> None:
        bulk = self.bulk
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            options = self._options.to_options(bulk)
            asked = [_FAMILY + store for store in self.stores]
            # RocksDB opens all families or none; and each with its options, else it keeps those it was made with.
            surplus = sorted(set(self._list_families(options)) - {_DEFAULT, *asked})
            families = [_DEFAULT, *asked, *surplus]
            self._db = Rdict(str(self.path), options, column_families=dict.fromkeys(families, options))
        except Exception as error:
            raise typed_error(error, self.path) from error
        self._unknown = tuple(family.removeprefix(_FAMILY) for family in surplus)
        self._families = {store: self._db.get_column_family(_FAMILY + store) for store in self.stores}
        self._handles: dict[str, ColumnFamily] = {
            store: self._db.get_column_family_handle(_FAMILY + store) for store in self.stores
        }
        self._write_options = self._options.to_write_options(bulk)

    def _list_families(self, options: Options) -> Sequence[str]:
        try:
            return Rdict.list_cf(str(self.path), options)
        except Exception:  # there is no database, or a bad one, or another process is at it: opening it says which
            return ()

    def _read_position(self) -> Position | None:
        try:
            raw: Any = self._db.get(_POSITION)
        except Exception as error:
            raise typed_error(error, self.path) from error
        return None if raw is None else Position.from_bytes(raw)


# rocksdict raises plain exceptions: the text is all there is. The first row that fits counts.
_KINDS: Final[tuple[tuple[str, type[StateError]], ...]] = (
    ("While lock file", StoreLockedError),
    ("lock hold by", StoreLockedError),
    ("No locks available", StoreLockedError),
    # Another process had it open, and was writing its list of families, when they were looked up.
    ("Column families not opened", StoreLockedError),
    ("Corruption", StoreCorruptedError),
    ("No such file or directory", StoreCorruptedError),
    ("Invalid argument", StoreCorruptedError),
    ("checksum mismatch", StoreCorruptedError),
)
_MESSAGES: Final[dict[type[StateError], str]] = {
    StoreLockedError: (
        "The store at {path} is open in another living process ({text}): an instance name may run only once on a host. "
        "End the other process, or give this instance another state folder."
    ),
    StoreCorruptedError: (
        "RocksDB refuses the store at {path} ({text}): it is moved aside and restored from its changelog."
    ),
    StateError: "The store at {path} cannot be used ({text}): check the disk's space and permissions.",
}


def typed_error(error: Exception, path: Path) -> StateError:
    """One of our errors for one of RocksDB's."""
    text = str(error)
    kind = next((kind for sign, kind in _KINDS if sign in text), StateError)
    return kind(_MESSAGES[kind].format(path=path, text=text))
