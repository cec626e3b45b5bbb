"""The store of one task in what is not RocksDB: a `StateStore` with all that a task asks of `state.store.Store`."""

from __future__ import annotations

import contextlib
import fcntl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Final

from airflow_provider.errors import (
    ConfigurationError,
    StateError,
    StatefulStreamsError,
    StoreCorruptedError,
    StoreLockedError,
    StoreOutdatedError,
)
from airflow_provider.state.digest import DigestScan, Pair
from airflow_provider.state.in_memory import InMemoryStore
from airflow_provider.state.position import RESERVED_PREFIX, Position
from airflow_provider.state.state_store import StateStore
from airflow_provider.state.time_segments import TimeSegments, time_prefix

_KIND: Final = "KIND"
_LOCK: Final = "LOCK"
_DATA: Final = "data"
_AT_ONCE: Final = 1000
"""Pairs that a range asks for."""


def kept_kind(path: Path) -> str | None:
    """What keeps the store in a folder, where it is not RocksDB; None where it is, or nothing does."""
    try:
        return (path / _KIND).read_text(errors="replace")
    except FileNotFoundError:
        return None


class KeptStore:
    """A task's one store, kept by a `StateStore`: that has the pairs and the position, this the lock and the order.

    Its methods are those of `airflow_provider.state.store.Store`. A scan reads beside the writes, so all that is asked
    of the `StateStore` is asked under one lock, and no range of it outlives a call.

    Args:
        path: its folder; made when missing.
        name: of the store.
        kind: what keeps it, as `kept_kind` finds it again.
        open_: makes the `StateStore`, of a folder that is there.

    Raises:
        StoreLockedError: another living process has it open.
        StoreOutdatedError: something else kept the store that lies there.
        StoreCorruptedError: it cannot be opened.
        StateError: the folder cannot be used (read-only, disk full).
    """

    def __init__(self, path: Path, name: str, kind: str, open_: Callable[[Path], StateStore]) -> None:
        self.path, self._name, self._kind = path, name, kind
        self.stores, self.unknown_stores = (name,), ()
        self._mutex = threading.Lock()
        self._scans: list[tuple[DigestScan, _Snapshot]] = []
        self._lock = self._locked()
        try:
            before = kept_kind(path)
            if (before or kind) != kind or (before is None and (path / "CURRENT").exists()):
                raise StoreOutdatedError(
                    f"The store at {path} is kept by {before or 'RocksDB'}, and the job says {kind}: it is moved aside "
                    "and restored from its changelog."
                )
            (path / _KIND).write_text(kind)
            (path / _DATA).mkdir(exist_ok=True)
            with self._typed("be opened", StoreCorruptedError):
                self._kept = open_(path / _DATA)
                raw = self._kept.position()
            self._position = None if raw is None else Position.from_bytes(raw)
        except OSError as error:
            self._lock.close()
            raise self._error("be used", StateError, error) from error
        except BaseException:
            self._lock.close()
            raise

    def _locked(self) -> IO[bytes]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / _LOCK).open("ab")
        except OSError as error:
            raise self._error("be used", StateError, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise StoreLockedError(
                f"The store at {self.path} is open in another living process: an instance name may run only once on a "
                "host. End the other process, or give this instance another state folder."
            ) from error
        return lock

    @property
    def position(self) -> Position | None:
        """Up to where the store is applied; None while it is empty."""
        return self._position

    @property
    def files_there(self) -> bool:
        """Whether its files were not removed under it."""
        return (self.path / _KIND).exists()

    @property
    def memory_bytes(self) -> int | None:
        """What it takes of the worker's memory, where it is kept there."""
        return self._kept.bytes if isinstance(self._kept, InMemoryStore) else None

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None where there is none.

        Raises:
            StoreCorruptedError: it cannot be read.
        """
        if not keys:
            return []
        with self._mutex, self._typed("be read", StoreCorruptedError):
            return list(self._kept.get(keys))

    def write(
        self,
        changes: Mapping[str, Iterable[tuple[bytes, bytes | None]]],
        position: Position,
        expired_before_ms: Mapping[str, int] | None = None,
    ) -> None:
        """Apply changes and the position after them, all or nothing.

        Raises:
            ConfigurationError: it may not become as large; the store stands for what it stood for before.
            StateError: it refuses the write; what it stands for is what it says when it is opened again.
        """
        new = dict(changes.get(self._name, ()))
        with self._mutex, self._typed("be written", StateError):
            if (expired := (expired_before_ms or {}).get(self._name)) is not None:
                first = time_prefix(expired)
                new = {key: value for key, value in new.items() if key >= first}
                new |= dict.fromkeys([key for key, _ in self._pairs(b"", first)])
            for scan, snapshot in self._scans:
                if not scan.done:
                    snapshot.keep(new)
            self._kept.write(new, position.to_bytes())
        self._position = position

    bulk = False
    """A large restore is written as any other."""

    def in_bulk_load_mode(self, store: str) -> bool:
        """Never."""
        return False

    def set_bulk_load_mode(self, store: str, bulk: bool) -> None:
        """Nothing is to be done."""

    def items(self, store: str) -> Iterator[tuple[bytes, bytes]]:
        """Every key and value, in the order of the keys' bytes; as `range`."""
        return (pair for pair in self._locked_pairs(b"", None) if not pair[0].startswith(RESERVED_PREFIX))

    def holds_data(self, store: str) -> bool:
        """Whether it has any key.

        Raises:
            StoreCorruptedError: it cannot be read.
        """
        return next(self.items(store), None) is not None

    def range(self, store: str, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The pairs from key `begin` (included) to `end` (excluded), in the order of the keys' bytes.

        Raises:
            StoreCorruptedError: it cannot be read; what lies before it was given.
        """
        return self._locked_pairs(begin, end)

    def _locked_pairs(self, begin: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        pairs = self._pairs(begin, end)
        while True:
            with self._mutex, self._typed("be read", StoreCorruptedError):
                some = list(islice(pairs, _AT_ONCE))
            yield from some
            if len(some) < _AT_ONCE:
                return

    def _pairs(self, begin: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        while True:
            some = self._kept.range(begin, end, _AT_ONCE)
            yield from some
            if len(some) < _AT_ONCE:
                return
            begin = some[-1][0] + b"\0"

    def scan(self, store: str, segments: TimeSegments | None = None) -> DigestScan:
        """Begin to compute the digest of what the store holds now, beside its work. Its scan before ends."""
        self._end_scans()
        snapshot = _Snapshot(self._kept)

        def read(number: int) -> list[Pair]:
            with self._mutex:
                return snapshot.read(number)

        scan = DigestScan(read, self.path, segments)
        self._scans.append((scan, snapshot))
        return scan

    def _end_scans(self) -> None:
        for scan, _ in self._scans:
            scan.cancel()
        self._scans.clear()

    def close(self) -> None:
        """Give the lock back; what it had not written yet is in the changelog."""
        self._end_scans()
        try:
            with contextlib.suppress(Exception):
                self._kept.close()
        finally:
            self._lock.close()

    @contextlib.contextmanager
    def _typed(self, what: str, kind: type[StateError]) -> Iterator[None]:
        try:
            yield
        except ConfigurationError as error:
            raise ConfigurationError(f"The store {self._name!r} at {self.path} cannot {what}: {error}.") from error
        except StatefulStreamsError:
            raise
        except Exception as error:
            raise self._error(what, kind, error) from error

    def _error(self, what: str, kind: type[StateError], error: Exception) -> StateError:
        return kind(f"The store at {self.path}, kept by {self._kind}, cannot {what} ({type(error).__name__}: {error}).")


class _Snapshot:
    """What a store held when this was made, read piece by piece while it is written; in no order.

    Every call is made under the store's lock.
    """

    def __init__(self, kept: StateStore) -> None:
        self._kept = kept
        self._next: bytes | None = b""
        self._before: dict[bytes, bytes | None] = {}

    def keep(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Remember what is about to change and was not read yet."""
        if self._next is None:
            return
        keys = [key for key in changes if key >= self._next and key not in self._before]
        self._before |= zip(keys, self._kept.get(keys), strict=True)

    def read(self, number: int) -> list[Pair]:
        """Some of the pairs; none once all were given."""
        found = list[Pair]()
        while self._next is not None and not found:
            some = self._kept.range(self._next, None, number)
            found = [(key, value) for key, value in some if key not in self._before]
            self._next = some[-1][0] + b"\0" if len(some) == number else None
        if found or not self._before:
            return found
        left = [(key, value) for key, value in self._before.items() if value is not None]
        self._before = {}
        return left
