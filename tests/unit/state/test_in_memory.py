from __future__ import annotations

import pytest

from airflow_provider.state.in_memory import InMemory, InMemoryStore


def test_memory_takes_no_more_than_is_counted() -> None:
    store, tracemalloc = InMemoryStore(InMemory()), pytest.importorskip("tracemalloc")
    tracemalloc.start()
    try:
        changes: dict[bytes, bytes | None] = {b"key-%06d" % number: b"value-%06d" % number for number in range(50_000)}
        before, _ = tracemalloc.get_traced_memory()
        store.write({bytes(bytearray(key)): bytes(bytearray(value or b"")) for key, value in changes.items()}, b"")
        store.range(b"", None, 1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert after - before <= store.bytes


def test_memory_gives_its_keys_in_order_whatever_came_and_went() -> None:
    store = InMemoryStore(InMemory())
    for changes in (
        {b"b": b"1", b"a": b"1"},
        {b"a": None, b"c": b"1"},
        {b"a": b"2", b"d": b"1", b"b": None},
        {b"d": None, b"b": None, b"x": None},
    ):
        store.write(changes, b"")
        if b"d" not in changes:
            store.range(b"", None, 10)

    assert store.range(b"", None, 10) == [(b"a", b"2"), (b"c", b"1")]
    assert store.range(b"a\0", None, 10) == [(b"c", b"1")]
    assert store.range(b"", None, 1) == [(b"a", b"2")]
