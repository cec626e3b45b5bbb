"""The digest of a whole store, computed beside its work."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from rocksdict import ReadOptions, Snapshot

from airflow_provider.errors import StoreCorruptedError
from airflow_provider.state.digest import DIGEST_MASK, digest_of, digests_by_segment
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.state.time_segments import TimeSegments

__all__ = ["DigestScan"]

_CHUNK: Final = 2_000
_SHARE: Final = 0.25
"""Of one core, at the most: the process has a store to follow and batches to process at the same time."""


class DigestScan:
    """Reads a RocksDB snapshot from end to end in a thread of its own and adds up its digest.

    The store may be written at the same time; it must not be closed before `cancel`, because a snapshot keeps
    RocksDB's lock.
    `airflow_provider.state.store.Store.scan` makes one and sees to that.

    Args:
        snapshot: of the store.
        path: its folder, for messages.
        segments: of the keys; None where they begin with no time.
    """

    def __init__(self, snapshot: Snapshot, path: object, segments: TimeSegments | None = None) -> None:
        self._path, self._segments = path, segments
        self._parts: dict[int, int] = {}
        self._error: StoreCorruptedError | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(snapshot,), name=f"digest-{path}", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether `result` answers at once."""
        return not self._thread.is_alive()

    def result(self) -> int | None:
        """The digest; waits for it. None when it was cancelled.

        Raises:
            StoreCorruptedError: a part of the store cannot be read.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return None if self._cancelled.is_set() else sum(self._parts.values()) & DIGEST_MASK

    def parts(self) -> Mapping[int, int] | None:
        """The same by the start of the segments; 0 for all where the keys begin with no time."""
        return None if self.result() is None else self._parts

    def cancel(self) -> None:
        """End it and release the snapshot. Returns when done, within milliseconds."""
        self._cancelled.set()
        self._thread.join()

    def _run(self, snapshot: Snapshot) -> None:
        options = ReadOptions()
        options.fill_cache(False)  # type: ignore[call-arg]  # it takes one, whatever its stub says
        options.set_readahead_size(1 << 20)
        try:
            last = b""
            items = cast("Iterator[tuple[bytes, bytes]]", snapshot.items(read_opt=options))
            while not self._cancelled.is_set():
                begun = time.thread_time()
                chunk = list(itertools.islice(items, _CHUNK))
                if not chunk:
                    # It ends at a block that it cannot read as it does at the store's end.
                    check = snapshot.iter(read_opt=options)
                    check.seek(last)
                    if check.valid():
                        check.next()
                    check.status()
                    return
                keys, values = zip(*chunk, strict=True)
                last = keys[-1]
                if keys[-1] >= RESERVED_PREFIX:
                    users = [pair for pair in chunk if not pair[0].startswith(RESERVED_PREFIX)]
                    keys, values = zip(*users, strict=True) if users else ((), ())
                self._add(keys, values)
                self._cancelled.wait((time.thread_time() - begun) * (1 / _SHARE - 1))
        except Exception as error:
            # A new one, without the traceback: that would keep the snapshot, and with it RocksDB's lock.
            self._error = StoreCorruptedError(
                f"The store at {self._path} cannot be read to its end ({error}): it is moved aside and restored."
            )

    def _add(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        if self._segments is None:
            found = {0: digest_of(keys, values)}
        else:
            found = digests_by_segment(
                self._segments, keys, lambda begin, end: digest_of(keys[begin:end], values[begin:end])
            )
        for segment, digest in found.items():
            self._parts[segment] = (self._parts.get(segment, 0) + digest) & DIGEST_MASK
