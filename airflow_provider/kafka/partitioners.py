"""Which partition a key belongs to, by the rules of the usual producers; many keys at once."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Partitions = npt.NDArray[np.int64]

_M: Final = np.uint32(0x5BD1E995)
_SEED: Final = 0x9747B28C


def by_murmur2(keys: Sequence[bytes], partitions: int) -> Partitions:
    """As the Java clients do: murmur2, made positive, modulo the number of partitions."""
    hashes = np.zeros(len(keys), np.uint32)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        hashes[at] = _murmur2(b"".join([keys[i] for i in at.tolist()]), len(at), length)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def by_crc32(keys: Sequence[bytes], partitions: int) -> Partitions:
    """As librdkafka does by default, and so confluent-kafka for Python: CRC-32 modulo the number of partitions."""
    return np.fromiter(map(zlib.crc32, keys), np.int64, len(keys)) % partitions


PARTITIONERS: Final[dict[str, Callable[[Sequence[bytes], int], Partitions]]] = {
    "murmur2 (the Java clients)": by_murmur2,
    "CRC-32 (librdkafka's default)": by_crc32,
}
"""By a name for people."""


def _murmur2(data: bytes, size: int, length: int) -> npt.NDArray[np.uint32]:
    """Of `size` keys of one length, joined; unsigned numbers of 32 bits overflow as the algorithm wants."""
    whole = length & ~3
    table = np.frombuffer(data, np.uint8).reshape(size, length)
    words = np.ascontiguousarray(table[:, :whole]).view("<u4").reshape(size, whole // 4)
    result = np.full(size, _SEED ^ length, np.uint32)
    for at in range(whole // 4):
        k = words[:, at].astype(np.uint32) * _M
        k = (k ^ (k >> np.uint32(24))) * _M
        result = (result * _M) ^ k
    if whole < length:
        rest = np.zeros((size, 4), np.uint8)
        rest[:, : length - whole] = table[:, whole:]
        result = (result ^ rest.view("<u4").reshape(size).astype(np.uint32)) * _M
    result = (result ^ (result >> np.uint32(13))) * _M
    return result ^ (result >> np.uint32(15))
