from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.errors import StateError, StoreCorruptedError, StoreLockedError
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.position import RESERVED_PREFIX, Position
from airflow_provider.state.store import Store


def at(offset: int) -> Position:
    return Position(offset, b"commit %d" % offset, "app-state-changelog", 1000 + offset, 2000 + offset)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "task-0" / "state"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path)
    yield store
    store.close()


def test_empty_store_has_no_position(store: Store) -> None:
    assert store.position is None
    assert list(store.items()) == []


def test_values_come_in_the_order_of_the_keys_that_were_asked_for(store: Store) -> None:
    store.write([(b"a", b"1"), (b"b", b""), (b"c", b"3")], at(1))

    assert store.get_many([b"c", b"missing", b"a", b"b", b"a"]) == [b"3", None, b"1", b"", b"1"]
    assert store.get_many([]) == []


def test_later_change_of_a_key_wins_and_none_deletes(store: Store) -> None:
    store.write([(b"a", b"1"), (b"b", b"1")], at(1))

    store.write([(b"a", b"2"), (b"a", None), (b"b", None), (b"b", b"3"), (b"never", None)], at(2))

    assert dict(store.items()) == {b"b": b"3"}


def test_items_are_the_users_alone_in_the_order_of_their_bytes(store: Store) -> None:
    store.write([(b"\xff\xff", b"3"), (b"b", b"2"), (b"", b"0"), (b"a", b"1")], at(1))

    assert list(store.items()) == [(b"", b"0"), (b"a", b"1"), (b"b", b"2"), (b"\xff\xff", b"3")]


def test_position_and_data_are_there_after_reopening(path: Path) -> None:
    first = Store(path)
    first.write([(b"a", b"1")], at(7))
    first.close()

    second = Store(path)

    assert second.position == at(7)
    assert second.get_many([b"a"]) == [b"1"]
    second.close()


@pytest.mark.parametrize("commit", [None, b"", b"\x00\xff"], ids=repr)
def test_any_position_reads_back_the_same(commit: bytes | None) -> None:
    position = Position(2**40, commit, "tést", 1, 2)

    assert Position.from_bytes(position.to_bytes()) == position


def work_until_killed(path: Path, bulk_from: int | None, ready: Any) -> None:
    """Write the number of each write under its key and, in the same write, as the position."""
    store = Store(path, RocksDBOptions(write_buffer_bytes=64 << 10, bulk_write_buffer_bytes=64 << 10))
    number = 0
    while True:
        number += 1
        if number == bulk_from:
            store.set_bulk(True)
        keys = [b"%d" % (number % 50), b"newest"]
        store.write([(key, b"%d" % number) for key in keys] + [(b"filler-%d" % number, bytes(200))], at(number))
        if number == 5_000:
            ready.set()


@pytest.mark.parametrize("bulk_from", [None, 1, 2_000], ids=["plain", "bulk", "bulk-later"])
def test_killed_process_leaves_data_and_position_of_one_write(path: Path, bulk_from: int | None) -> None:
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    process = context.Process(target=work_until_killed, args=(path, bulk_from, ready))
    process.start()
    assert ready.wait(30)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()

    store = Store(path)
    found = store.position
    number = 0 if found is None else found.offset

    # In bulk the newest writes may be lost, whole; everything before the position is there.
    assert number > (4_999 if bulk_from is None else 0)
    assert store.get_many([b"newest"]) == [b"%d" % number]
    assert sum(key.startswith(b"filler-") for key, _ in store.items()) == number
    for key in range(50):
        last = number - (number - key) % 50
        if last > 0:
            assert store.get_many([b"%d" % key]) == [b"%d" % last]
    store.close()


def test_store_opened_for_bulk_and_back_keeps_everything(store: Store, path: Path) -> None:
    store.write([(b"a", b"1"), (b"gone", b"1")], at(1))
    ways = [store.bulk]
    store.set_bulk(True)
    ways.append(store.bulk)
    store.write([(b"b", b"2"), (b"gone", None)], at(2))
    store.write([(b"b", b"3")], at(3))
    store.set_bulk(False)
    store.set_bulk(False)
    ways.append(store.bulk)

    assert ways == [False, True, False]
    assert store.position == at(3)
    assert dict(store.items()) == {b"a": b"1", b"b": b"3"}


@pytest.mark.parametrize(("bulk", "memtable"), [(False, "SkipListFactory"), (True, "VectorRepFactory")])
def test_store_that_exists_gets_the_options_of_its_way(store: Store, path: Path, bulk: bool, memtable: str) -> None:
    store.set_bulk(not bulk)
    store.set_bulk(bulk)

    newest = max(path.glob("OPTIONS-*"), key=lambda file: int(file.name.partition("-")[2]))
    assert memtable in newest.read_text()


def hold(path: Path, held: Any, release: Any) -> None:
    store = Store(path)
    held.set()
    release.wait(30)
    store.close()


def test_store_of_another_living_process_is_locked_until_it_lets_go(path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    held, release = context.Event(), context.Event()
    process = context.Process(target=hold, args=(path, held, release))
    process.start()
    assert held.wait(30)

    with pytest.raises(StoreLockedError, match=r"another living process.*another state folder"):
        Store(path)

    release.set()
    process.join()
    Store(path).close()


def test_store_that_is_open_here_is_locked_too(store: Store, path: Path) -> None:
    with pytest.raises(StoreLockedError):
        Store(path)


def filled(path: Path) -> None:
    store = Store(path)
    store.write([(b"%05d" % n, os.urandom(100)) for n in range(2_000)], at(1))
    # Closing flushes: the data lies in a table file afterwards.
    store.set_bulk(True)
    store.set_bulk(False)
    store.close()


def scribble(path: Path, pattern: str) -> None:
    (file,) = path.glob(pattern)
    size = file.stat().st_size
    file.write_bytes(os.urandom(size))


def test_scribbled_manifest_is_corruption(path: Path) -> None:
    filled(path)
    scribble(path, "MANIFEST-*")

    with pytest.raises(StoreCorruptedError, match="moved aside and restored"):
        Store(path)


def test_missing_table_file_is_corruption(path: Path) -> None:
    filled(path)
    for file in path.glob("*.sst"):
        file.unlink()

    with pytest.raises(StoreCorruptedError):
        Store(path)


def test_scribbled_table_file_is_corruption_at_the_latest_when_it_is_read(path: Path) -> None:
    filled(path)
    scribble(path, "*.sst")

    with pytest.raises(StoreCorruptedError):
        Store(path).get_many([b"%05d" % n for n in range(2_000)])


def test_scribbled_block_is_corruption_when_it_is_read(path: Path) -> None:
    filled(path)
    (file,) = path.glob("*.sst")
    content = bytearray(file.read_bytes())
    content[1_000:3_000] = os.urandom(2_000)
    file.write_bytes(content)
    store = Store(path)

    with pytest.raises(StoreCorruptedError):
        store.get_many([b"%05d" % n for n in range(2_000)])

    store.close()


def test_folder_that_cannot_be_made_says_what_to_check(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StateError, match="check the disk's space and permissions") as caught:
        Store(tmp_path / "file" / "state")

    assert type(caught.value) is StateError


def test_size_is_that_of_its_files(store: Store, path: Path) -> None:
    store.write([(b"a", bytes(100_000))], at(1))

    assert store.disk_bytes() > 100_000


def test_destroyed_store_leaves_nothing(path: Path) -> None:
    store = Store(path)
    store.write([(b"a", b"1")], at(1))

    store.destroy()

    assert not path.exists()


def test_no_text_begins_like_a_reserved_key() -> None:
    with pytest.raises(UnicodeDecodeError):
        RESERVED_PREFIX.decode()
