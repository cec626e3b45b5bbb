"""What a store of a user's own has to do, and what a task asks of a store besides: its lock, scans and errors."""

from __future__ import annotations

import contextlib
import fcntl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.errors import (
    ConfigurationError,
    StateError,
    StatefulStreamsError,
    StoreCorruptedError,
    StoreLockedError,
)
from airflow_provider.state.digest import DigestScan, Pair
from airflow_provider.state.in_memory import InMemoryStore
from airflow_provider.state.position import RESERVED_PREFIX, Position
from airflow_provider.state.time_segments import TimeSegments, time_prefix

_KIND: Final = "KIND"
_LOCK: Final = "LOCK"
_DATA: Final = "data"
_AT_ONCE: Final = 1000
"""Pairs that a range asks for."""


class StateStore(Protocol):
    """Keeps the pairs of one task, and the position that they stand for.

    The changelog is the truth, and this is a copy of it: it may lose what was written last, or all. What it must not do
    is to hold one write in part, or the pairs of one write with the position of another.

    One thread at a time calls it, and not always the same one. One process at a time has it open: the package keeps the
    lock. An error that it raises while it is opened or read has the store moved aside and restored; one from `write`
    has it closed and opened again, from what it holds then.

    `airflow_provider.testing.check_store` finds what such a store does wrong.

    Args:
        folder: there, and its own. What it writes outside of it is not moved, counted or removed with it.
    """

    def __init__(self, folder: Path) -> None: ...

    def position(self) -> bytes | None:
        """The position of the last `write` that it holds; None where it holds none, and then no pair either."""

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The values of keys, in their order; None where there is none. A value may be empty."""

    def range(self, begin: bytes, end: bytes | None, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """The first pairs from key `begin` (included) to `end` (excluded), in the order of the keys' bytes.

        Args:
            end: None for all that follow.
            limit: how many at the most. Fewer come only where there are no more.
        """

    def write(self, changes: Mapping[bytes, bytes | None], position: bytes) -> None:
        """Apply changes and the position after them, all or nothing, whenever the process is killed.

        They need not be on the disk when it returns; but a later write must not be there without an earlier one.

        Args:
            changes: by key the new value; None deletes, also what is not there.
        """

    def close(self) -> None:
        """Nothing else is called afterwards. A process that is killed does not call it."""


def kept_by(path: Path) -> str | None:
    """The name of what keeps the store in a folder (`state.kind`); None where nothing does."""
    with contextlib.suppress(OSError):  # whoever opens it meets the same
        return ROCKSDB if (path / "CURRENT").exists() else (path / _KIND).read_text(errors="replace") or None
    return None


class GuardedStore:
    """A task's one store, kept by a `StateStore`: that has the pairs and the position, this the lock and the order.

    Its methods are those of `airflow_provider.state.store.Store`. A scan reads beside the writes, so all that is asked
    of the `StateStore` is asked under one lock, and no range of it outlives a call.

    Args:
        path: its folder; made when missing.
        name: of the store.
        kind: what keeps it, as `kept_by` finds it again; nothing else kept what lies there.
        open_: makes the `StateStore`, of a folder that is there.

    Raises:
        StoreLockedError: another living process has it open.
        StoreOutdatedError: a newer version of this package wrote the position.
        StoreCorruptedError: it cannot be opened.
        StateError: the folder cannot be used (read-only, disk full).
    """

    def __init__(self, path: Path, name: str, kind: str, open_: Callable[[Path], StateStore]) -> None:
        self.path, self._name, self._kind = path, name, kind
        self.stores, self.unknown_stores = (name,), ()
        self._mutex = threading.RLock()
        self._scan: tuple[DigestScan, _Snapshot] | None = None
        with self._typed("be used", StateError):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / _LOCK).open("ab")
        try:
            with self._typed("be used", StateError):
                self._take_lock()
                if kept_by(path) != kind:
                    (path / _KIND).write_text(kind)
                (path / _DATA).mkdir(exist_ok=True)
            with self._typed("be opened", StoreCorruptedError):
                self._kept = open_(path / _DATA)
                raw = self._kept.position()
            self.position: Position | None = None if raw is None else Position.from_bytes(raw)
            """Up to where the store is applied, which `write` moves; None while it is empty."""
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreLockedError(
                f"The store at {self.path} is open in another living process: an instance name may run only once on a "
                "host. End the other process, or give this instance another state folder."
            ) from error

    @property
    def files_there(self) -> bool:
        """Whether its files were not removed under it."""
        return (self.path / _KIND).exists()

    @property
    def memory_bytes(self) -> int | None:
        """What it takes of the worker's memory, where it is kept there."""
        return self._kept.bytes if isinstance(self._kept, InMemoryStore) else None

    def get_many(self, store: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """As `Store.get_many`."""
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
            if self._scan is not None and not self._scan[0].done:
                self._scan[1].keep(new)
            self._kept.write(new, position.to_bytes())
        self.position = position

    bulk = False
    """A large restore is written as any other."""

    def in_bulk_load_mode(self, store: str) -> bool:
        """Never."""
        return False

    def set_bulk_load_mode(self, store: str, bulk: bool) -> None:
        """Nothing is to be done."""

    def items(self, store: str) -> Iterator[tuple[bytes, bytes]]:
        """Every key and value, in the order of the keys' bytes; as `range`."""
        return (pair for pair in self._pairs(b"", None) if not pair[0].startswith(RESERVED_PREFIX))

    def holds_data(self, store: str) -> bool:
        """As `Store.holds_data`."""
        return next(self.items(store), None) is not None

    def range(self, store: str, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """As `Store.range`."""
        return self._pairs(begin, end)

    def _pairs(self, begin: bytes, end: bytes | None) -> Iterator[Pair]:
        while True:
            with self._mutex, self._typed("be read", StoreCorruptedError):
                some = self._kept.range(begin, end, _AT_ONCE)
            yield from some
            if len(some) < _AT_ONCE:
                return
            begin = some[-1][0] + b"\0"

    def scan(self, store: str, segments: TimeSegments | None = None) -> DigestScan:
        """Begin to compute the digest of what the store holds now, beside its work. Its scan before ends."""
        self._end_scan()
        snapshot = _Snapshot(self._kept)

        def read(number: int) -> list[Pair]:
            with self._mutex:
                return snapshot.read(number)

        self._scan = DigestScan(read, self.path, segments), snapshot
        return self._scan[0]

    def _end_scan(self) -> None:
        if self._scan is not None:
            self._scan[0].cancel()
            self._scan = None

    def close(self) -> None:
        """Give the lock back; what it had not written yet is in the changelog."""
        self._end_scan()
        try:
            with contextlib.suppress(Exception):  # it may not be there: it could not be opened
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
    """What a store held when this was made, read piece by piece while it is written.

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
        """Some of the pairs, in the order of their keys; none once all were given."""
        found = list[Pair]()
        while self._next is not None and not found:
            some = self._kept.range(self._next, None, number)
            found = [(key, value) for key, value in some if key not in self._before]
            self._next = some[-1][0] + b"\0" if len(some) == number else None
        if found or not self._before:
            return found
        left = [(key, value) for key, value in sorted(self._before.items()) if value is not None]
        self._before = {}
        return left
