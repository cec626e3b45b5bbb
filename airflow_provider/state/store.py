"""One store of one task: a RocksDB database whose every write carries its position."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from rocksdict import Checkpoint, IngestExternalFileOptions, Rdict, WriteBatch

from airflow_provider.errors import StateError, StoreCorruptedError, StoreLockedError
from airflow_provider.state.digest_scan import DigestScan
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.position import RESERVED_PREFIX, Position

__all__ = ["Store"]

log = logging.getLogger(__name__)

_POSITION: Final = RESERVED_PREFIX + b"position"
_DEFAULT: Final = "default"
_LOCKED = ("While lock file", "lock hold by", "No locks available")
_CORRUPTED = ("Corruption", "No such file or directory", "Invalid argument", "checksum mismatch")


class Store:
    """Keys and values as bytes, and the position they stand for.

    It owns the truth "up to where am I applied": the position is written in the same RocksDB write batch as the data,
    so that a crash leaves both or neither. Not safe for several threads; one process at a time can have it open.

    Args:
        path: its folder; made when missing.
        options: RocksDB's settings.

    Raises:
        StoreLockedError: another living process has it open.
        StoreCorruptedError: RocksDB refuses the files.
        StateError: the folder cannot be used (read-only, disk full).
    """

    def __init__(self, path: Path, options: RocksDBOptions | None = None) -> None:
        self.path = path
        self._options = options or RocksDBOptions()
        self._scan: DigestScan | None = None
        self._open(bulk=False)
        try:
            self._position = self._read_position()
        except BaseException:
            self.close()  # who keeps the error keeps this object: its lock would stay as long
            raise

    @property
    def position(self) -> Position | None:
        """Up to where it is applied; None while it is empty."""
        return self._position

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None where there is none.

        Raises:
            StoreCorruptedError: a block cannot be read.
        """
        if not keys:
            return []
        try:
            return cast("list[bytes | None]", self._db.get(list(keys)))
        except Exception as error:
            raise _typed(error, self.path) from error

    def write(self, changes: Iterable[tuple[bytes, bytes | None]], position: Position) -> None:
        """Apply changes and the position after them, all or nothing.

        Args:
            changes: pairs of key and new value; None deletes. Later pairs win.
            position: what the store stands for afterwards.

        Raises:
            StateError: RocksDB refuses the write; the store stands for what it stood for before.
        """
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in changes:
            if value is None:
                delete(key)
            else:
                put(key, value)
        put(_POSITION, position.to_bytes())
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise _typed(error, self.path) from error
        self._position = position

    def ingest(self, files: Sequence[str]) -> None:
        """Take table files over, in this order: later ones win, and all win over what is there.

        The position does not change. Until the caller has written the one after them, a crash leaves the store with
        newer values than its position says, which the changelog brings again from there on.

        Args:
            files: as `airflow_provider.state.table_file.write_table` writes them, on the store's disk; they are moved.

        Raises:
            StateError: RocksDB refuses a file, or the disk.
        """
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        try:
            for file in files:
                self._db.ingest_external_file([file], options)
        except Exception as error:
            raise _typed(error, self.path) from error

    @property
    def bulk(self) -> bool:
        """Whether it is opened for a large restore."""
        return self._bulk

    def set_bulk(self, bulk: bool) -> None:
        """Open it again for a large restore, in which nothing is read, or for work.

        Raises:
            StateError: it cannot be flushed or opened.
        """
        if bulk is self._bulk:
            return
        try:
            self._db.flush()
        except Exception as error:
            raise _typed(error, self.path) from error
        self._end_scan()
        self._db.close()
        self._open(bulk)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every key and value of the user, in the order of the keys' bytes."""
        for key, value in self._db.items():
            if not cast(bytes, key).startswith(RESERVED_PREFIX):
                yield cast(bytes, key), cast(bytes, value)

    def scan(self) -> DigestScan:
        """Begin to compute the digest of what it holds now, beside its work; the last one begun is the only one."""
        self._end_scan()
        self._scan = DigestScan(self._db.snapshot(), self.path)
        return self._scan

    def checkpoint(self, folder: Path) -> None:
        """Make a copy of it as it stands, without copying: RocksDB's own checkpoint.

        It flushes the memtable, holds back the removal of files, makes hard links to the table files, which never
        change, and copies the few small ones; so the copy is a whole store at this position, whatever is written or
        compacted later.

        Args:
            folder: to be made, on the same disk.

        Raises:
            StateError: it cannot be made.
        """
        try:
            Checkpoint(self._db).create_checkpoint(str(folder))
        except Exception as error:
            raise _typed(error, self.path) from error

    def about_keys(self) -> int:
        """Its number of keys, as RocksDB estimates it."""
        return self._db.property_int_value("rocksdb.estimate-num-keys") or 0

    def _end_scan(self) -> None:
        # Its snapshot keeps the database, and the lock with it.
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None

    def disk_bytes(self) -> int:
        """Size of its files."""
        total = 0
        for file in self.path.iterdir():
            try:
                total += file.stat().st_size
            except FileNotFoundError:  # compacted away meanwhile
                continue
        return total

    def close(self) -> None:
        """Flush and give the lock back.

        On a disk that takes nothing more the lock is given back all the same: what was not flushed is in the changelog.
        """
        self._end_scan()
        try:
            self._db.close()
        except Exception as error:
            log.warning("The store at %s was closed without a flush: %s", self.path, error)

    def destroy(self) -> None:
        """Close it and remove its folder."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def _open(self, bulk: bool) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            options = self._options.to_options(bulk)
            # For the column family too: else a store that exists keeps the options that it was made with.
            self._db = Rdict(str(self.path), options, column_families={_DEFAULT: options})
        except Exception as error:
            raise _typed(error, self.path) from error
        self._bulk, self._write_options = bulk, self._options.to_write_options(bulk)

    def _read_position(self) -> Position | None:
        raw: Any = self.get_many([_POSITION])[0]
        return None if raw is None else Position.from_bytes(raw)


def _typed(error: Exception, path: Path) -> StateError:
    text = str(error)
    if any(sign in text for sign in _LOCKED):
        return StoreLockedError(
            f"The store at {path} is open in another living process ({text}): one instance name may run once a host. "
            "End the other process, or give this instance another state folder."
        )
    if any(sign in text for sign in _CORRUPTED):
        return StoreCorruptedError(
            f"RocksDB refuses the store at {path} ({text}): it is moved aside and restored from its changelog."
        )
    return StateError(f"The store at {path} cannot be used ({text}): check the disk's space and permissions.")
