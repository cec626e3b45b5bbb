"""What a store holds, as one number: two stores with the same keys and values have the same.

The sum, modulo 2^64, over all pairs of ``XXH3-64(value, seed=XXH3-64(key))``. A sum does not depend on the order, so
it can be kept up to date by what a batch changes; key and value are hashed apart, so no byte can pass from one to the
other unseen. It finds accidents, not an adversary: two different stores have one digest with a chance of 2^-64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, pairwise
from typing import Final

import numpy as np
from xxhash import xxh3_64_intdigest as _hash

from airflow_provider.state.time_segments import TimeSegments

__all__ = ["DIGEST_MASK", "digest_change", "digest_of", "digests_by_segment", "sum_of_digests"]

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
    return (_sum(new, seeds) - _sum(old, seeds)) & DIGEST_MASK


def digests_by_segment(
    segments: TimeSegments, keys: Sequence[bytes], digest: Callable[[int, int], int]
) -> dict[int, int]:
    """The digests of runs of keys, added up by the segments that they lie in.

    Args:
        segments: of the keys.
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


def _sum(values: Sequence[bytes | None], seeds: Sequence[int]) -> int:
    if all(values):  # none is missing: the common case, in which nothing has to be looked at one by one
        return sum(map(_hash, values, seeds))  # type: ignore[arg-type]
    there = [value is not None for value in values]
    return sum(map(_hash, compress(values, there), compress(seeds, there)))  # type: ignore[arg-type]
