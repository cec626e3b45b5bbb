"""Bytes are copied out of a client's memory, wherever in it they lie."""

from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider.kafka.column_consumer import _bytes

_APART = 1 << 30


@pytest.fixture
def pool() -> pa.MemoryPool:
    """What Arrow allocates while it is there."""
    before = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counted)
    yield counted
    pa.set_memory_pool(before)


def test_bytes_that_lie_far_apart_are_copied_in_little_memory(pool: pa.MemoryPool) -> None:
    memory = mmap.mmap(-1, 3 * _APART)  # of which the pages that are touched are there
    first = np.frombuffer(memory, np.uint8).ctypes.data
    memory[0:10] = b"0123456789"
    memory[_APART : _APART + 5] = b"abcde"
    memory[2 * _APART : 2 * _APART + 4] = b"wxyz"
    begins = np.array([first + 2 * _APART, first + 4, 0, first + _APART, first], np.int64)

    copied = _bytes(begins, np.array([4, 6, 0, 5, 4], np.int64))

    assert copied.to_pylist() == [b"wxyz", b"456789", None, b"abcde", b"0123"]
    assert copied.type == pa.binary()
    assert pool.max_memory() < 1 << 20
    del begins


@pytest.mark.parametrize("apart", [0, 3])
def test_bytes_that_lie_together(apart: int) -> None:
    memory = np.frombuffer(bytes(range(100)), np.uint8)
    begins = memory.ctypes.data + np.array([20, 0, 10], np.int64) * (1 + apart)

    assert _bytes(begins, np.array([2, 1, 0], np.int64)).to_pylist() == [
        bytes(range(20 * (1 + apart), 20 * (1 + apart) + 2)),
        b"\0",
        b"",
    ]


def test_no_bytes_at_all() -> None:
    assert _bytes(np.zeros(2, np.int64), np.zeros(2, np.int64)).to_pylist() == [None, None]
