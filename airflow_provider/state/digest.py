"""What a store holds, as one number: two stores with the same keys and values have the same.

The sum, modulo 2^64, over all pairs of ``XXH3-64(value, seed=XXH3-64(key))``. A sum does not depend on the order, so
it can be kept up to date by what a batch changes; key and value are hashed apart, so no byte can pass from one to the
other unseen. It finds accidents, not an adversary: two different stores have one digest with a chance of 2^-64.

Beside what it is, how it is computed of a whole store beside its work, and kept up to date by what each write changes.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, pairwise
from typing import Final, cast

import numpy as np
from rocksdict import RdictIter, ReadOptions, Snapshot
from xxhash import xxh3_64_intdigest as _hash

from airflow_provider.errors import StoreCorruptedError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.state.time_segments import TimeSegments, TimeSpans

DIGEST_MASK: Final = 2**64 - 1


def digest_of(keys: Iterable[bytes], values: Iterable[bytes]) -> int:
    """The digest of some pairs; those of disjoint parts of a store add up to the store's, modulo 2^64."""
    return sum(map(_hash, values, map(_hash, keys))) & DIGEST_MASK


def sum_of_digests(one: int, other: int) -> int:
    """The digest of two disjoint parts of a store."""
    return (one + other) & DIGEST_MASK


def digest_change(
    keys: Sequence[bytes], old: Sequence[bytes | None], changes: Sequence[tuple[bytes, bytes | None]]
) -> int:
    """What has to be added to a store's digest, modulo 2^64, when `changes` are applied to it.

    Args:
        keys: distinct, at least those that change.
        old: their values before, in the same order; None where there is none.
        changes: pairs of key and new value, in the order of `keys`, each key once at the most; None deletes.
    """
    if not changes:
        return 0
    if len(changes) < len(keys):
        before = dict(zip(keys, old, strict=True))
        keys = [key for key, _ in changes]
        old = [before[key] for key in keys]
    new = [value for _, value in changes]
    seeds = list(map(_hash, keys))
    return (_sum_of(new, seeds) - _sum_of(old, seeds)) & DIGEST_MASK


def digests_by_segment(
    segments: TimeSegments, keys: Sequence[bytes], digest: Callable[[int, int], int]
) -> dict[int, int]:
    """The digests of runs of keys, added up by the segments that they lie in.

    Args:
        keys: in any order; sorted ones make the fewest runs.
        digest: of the keys from one index (included) to another (excluded).

    Returns:
        By the start of the segment; those without a key are missing.
    """
    if not keys:
        return {}
    starts = segments.starts_of(keys)
    edges = [0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(keys)]
    found: dict[int, int] = {}
    for begin, end in pairwise(edges):
        segment = int(starts[begin])
        found[segment] = (found.get(segment, 0) + digest(begin, end)) & DIGEST_MASK
    return found


def _sum_of(values: Sequence[bytes | None], seeds: Sequence[int]) -> int:
    if all(values):  # none is missing: the common case, in which nothing has to be looked at one by one
        return sum(map(_hash, values, seeds))  # type: ignore[arg-type]
    there = [value is not None for value in values]
    return sum(map(_hash, compress(values, there), compress(seeds, there)))  # type: ignore[arg-type]


Digests = Mapping[int, int]
"""By the start of the segment (`state.time_segments`), or of the last one of a span; a store whose
keys begin with no time has one, at 0."""


class RunningDigest:
    """A base, and the sum of the changes since, of each segment of the store.

    The base is either known from the last commit, or scanned from the store as it stood; until that is
    done the digest is not known.
    """

    def __init__(self) -> None:
        self._base: Digests | None = None
        self._scan: DigestScan | None = None
        self._changes: Digests = {}
        self._expired_before: int | None = None

    def resume(self, known: Digests | None) -> None:
        """Go on from a digest that is known, or forget all; what was scanned is given up."""
        if self._scan is not None:
            self._scan.cancel()
        self._base, self._scan, self._changes, self._expired_before = known, None, {}, None

    def rebase(self, scan: DigestScan) -> None:
        """Go on from what a scan of the store, as it stands now, will find."""
        self.resume(None)
        self._scan = scan

    def after(self, change: Digests, expired_before: int | None = None) -> Digests | None:
        """What it will be after a change; None while it is not known.

        Args:
            expired_before: the segments that start earlier are dropped, and no span is cut; None for none.

        Raises:
            StoreCorruptedError: the scan found a part of the store that cannot be read.
        """
        if self._scan is not None and self._scan.done:
            scan, self._scan = self._scan, None
            self._base = scan.parts()
        if self._base is None:
            return None
        return _left(_sum(_sum(self._base, self._changes), change), _later(self._expired_before, expired_before))

    def add(self, change: Digests, expired_before: int | None = None, spans: TimeSpans | None = None) -> None:
        """The change was made."""
        self._expired_before = _later(self._expired_before, expired_before)
        changes = _left(_sum(self._changes, change), self._expired_before)
        if self._base is not None:
            self._base, changes = _folded(_left(_sum(self._base, changes), self._expired_before), spans), {}
        self._changes = _folded(changes, spans)


def _sum(one: Digests, other: Digests) -> Digests:
    return {segment: sum_of_digests(one.get(segment, 0), other.get(segment, 0)) for segment in {**one, **other}}


def _folded(digests: Digests, spans: TimeSpans | None) -> Digests:
    return digests if spans is None else spans.fold(digests, sum_of_digests)


def _left(digests: Digests, expired_before: int | None) -> Digests:
    if expired_before is None:
        return digests
    return {segment: digest for segment, digest in digests.items() if segment >= expired_before}


def _later(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def check_end(iterator: RdictIter, last: bytes) -> None:
    """See whether there is nothing behind a key: ``items`` end at a block that cannot be read as at the store's end.

    Args:
        last: the last key that was given; where none was, the one that it began at.

    Raises:
        Exception: RocksDB's, of a block that cannot be read.
    """
    iterator.seek(last)
    if iterator.valid():
        iterator.next()
    iterator.status()


_CHUNK: Final = 2_000
_SHARE: Final = 0.25
"""Of one core, at the most: the process has a store to follow and batches to process at the same time."""


Pair = tuple[bytes, bytes]


def pairs_of_snapshot(snapshot: Snapshot) -> Callable[[int], list[Pair]]:
    """Reads a RocksDB snapshot from end to end: so many pairs with each call, none after the last."""
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # it takes one, whatever its stub says
    options.set_readahead_size(1 << 20)
    items = cast("Iterator[Pair]", snapshot.items(read_opt=options))
    last = b""

    def read(number: int) -> list[Pair]:
        nonlocal last
        found = list(itertools.islice(items, number))
        if found:
            last = found[-1][0]
        else:
            check_end(snapshot.iter(read_opt=options), last)
        return found

    return read


class DigestScan:
    """Reads what a store held from end to end in a thread of its own and adds up its digest.

    The store may be written at the same time; it must not be closed before `cancel`, because a snapshot keeps
    RocksDB's lock.
    `airflow_provider.state.store.Store.scan` makes one and sees to that.

    Args:
        read: gives with each call some pairs in the order of their keys, and none once all were given; so many, or
            others that were left. It goes with the thread.
    """

    def __init__(self, read: Callable[[int], list[Pair]], path: object, segments: TimeSegments | None = None) -> None:
        self._path, self._segments = path, segments
        self._parts: dict[int, int] = {}
        self._error: StoreCorruptedError | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(read,), name=f"digest-{path}", daemon=True)
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

    def _run(self, read: Callable[[int], list[Pair]]) -> None:
        try:
            while not self._cancelled.is_set():
                begun = time.thread_time()
                chunk = read(_CHUNK)
                if not chunk:
                    return
                keys, values = zip(*chunk, strict=True)
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
