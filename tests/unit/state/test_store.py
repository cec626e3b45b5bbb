from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.errors import StateError, StoreCorruptedError, StoreLockedError, StoreOutdatedError
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.position import RESERVED_PREFIX, ChangelogPosition, Position
from airflow_provider.state.store import Store


def at(offset: int) -> Position:
    there = ChangelogPosition(offset=offset, topic_id="topic-id", complete_at_ms=2000 + offset)
    return Position(changelogs={"app-state-changelog": there}, commit=b"commit %d" % offset)


def offset_of(position: Position | None) -> int:
    return 0 if position is None else position.changelogs["app-state-changelog"].offset


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "task-0" / "state"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path, ["state"])
    yield store
    store.close()


def test_empty_store_has_no_position(store: Store) -> None:
    assert store.position is None
    assert list(store.items("state")) == []


def test_values_come_in_the_order_of_the_keys_that_were_asked_for(store: Store) -> None:
    store.write({"state": [(b"a", b"1"), (b"b", b""), (b"c", b"3")]}, at(1))

    assert store.get_many("state", [b"c", b"missing", b"a", b"b", b"a"]) == [b"3", None, b"1", b"", b"1"]
    assert store.get_many("state", []) == []


def test_later_change_of_a_key_wins_and_none_deletes(store: Store) -> None:
    store.write({"state": [(b"a", b"1"), (b"b", b"1")]}, at(1))

    store.write({"state": [(b"a", b"2"), (b"a", None), (b"b", None), (b"b", b"3"), (b"never", None)]}, at(2))

    assert dict(store.items("state")) == {b"b": b"3"}


def test_items_are_the_users_alone_in_the_order_of_their_bytes(store: Store) -> None:
    store.write({"state": [(b"\xff\xff", b"3"), (b"b", b"2"), (b"", b"0"), (b"a", b"1")]}, at(1))

    assert list(store.items("state")) == [(b"", b"0"), (b"a", b"1"), (b"b", b"2"), (b"\xff\xff", b"3")]


def test_position_and_data_are_there_after_reopening(path: Path) -> None:
    first = Store(path, ["state"])
    first.write({"state": [(b"a", b"1")]}, at(7))
    first.close()

    second = Store(path, ["state"])

    assert second.position == at(7)
    assert second.get_many("state", [b"a"]) == [b"1"]
    second.close()


@pytest.mark.parametrize("commit", [None, b"", b"\x00\xff"], ids=repr)
def test_any_position_reads_back_the_same(commit: bytes | None) -> None:
    far = ChangelogPosition(offset=2**40, topic_id="AAAB", complete_at_ms=2)
    position = Position(changelogs={"tést": far, "other": ChangelogPosition(offset=0)}, commit=commit)

    assert Position.from_bytes(position.to_bytes()) == position


def test_position_that_is_none_is_a_corruption_whatever_it_is() -> None:
    position = Position(changelogs={"tést": ChangelogPosition(offset=5, topic_id="id-1")}, commit=b"{}").to_bytes()
    for seed in range(3_000):
        chance = random.Random(seed)
        damaged = bytearray(position[: chance.randint(1, len(position))])
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            with contextlib.suppress(StateError):
                Position.from_bytes(bytes(damaged))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


def work_until_killed(path: Path, bulk_from: int | None, ready: Any) -> None:
    """Write the number of each write under its key and, in the same write, as the position."""
    store = Store(path, ["state"], RocksDBOptions(write_buffer_bytes=64 << 10, bulk_write_buffer_bytes=64 << 10))
    number = 0
    while True:
        number += 1
        if number == bulk_from:
            store.set_bulk_load_mode("state", True)
        keys = [b"%d" % (number % 50), b"newest"]
        store.write(
            {"state": [(key, b"%d" % number) for key in keys] + [(b"filler-%d" % number, bytes(200))]}, at(number)
        )
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

    store = Store(path, ["state"])
    found = store.position
    number = offset_of(found)

    # In bulk the newest writes may be lost, whole; everything before the position is there.
    assert number > (4_999 if bulk_from is None else 0)
    assert store.get_many("state", [b"newest"]) == [b"%d" % number]
    assert sum(key.startswith(b"filler-") for key, _ in store.items("state")) == number
    for key in range(50):
        last = number - (number - key) % 50
        if last > 0:
            assert store.get_many("state", [b"%d" % key]) == [b"%d" % last]
    store.close()


def test_store_opened_for_bulk_and_back_keeps_everything(store: Store, path: Path) -> None:
    store.write({"state": [(b"a", b"1"), (b"gone", b"1")]}, at(1))
    ways = [store.bulk]
    store.set_bulk_load_mode("state", True)
    ways.append(store.bulk)
    store.write({"state": [(b"b", b"2"), (b"gone", None)]}, at(2))
    store.write({"state": [(b"b", b"3")]}, at(3))
    store.set_bulk_load_mode("state", False)
    store.set_bulk_load_mode("state", False)
    ways.append(store.bulk)

    assert ways == [False, True, False]
    assert store.position == at(3)
    assert dict(store.items("state")) == {b"a": b"1", b"b": b"3"}


@pytest.mark.parametrize(("bulk", "memtable"), [(False, "SkipListFactory"), (True, "VectorRepFactory")])
def test_store_that_exists_gets_the_options_of_its_way(store: Store, path: Path, bulk: bool, memtable: str) -> None:
    store.set_bulk_load_mode("state", not bulk)
    store.set_bulk_load_mode("state", bulk)

    newest = max(path.glob("OPTIONS-*"), key=lambda file: int(file.name.partition("-")[2]))
    assert memtable in newest.read_text()


def both_until_killed(path: Path, bulk_from: int | None, ready: Any) -> None:
    """Write the number of each write into both stores of a task and, in the same batch, as the position."""
    options = RocksDBOptions(write_buffer_bytes=64 << 10, bulk_write_buffer_bytes=64 << 10)
    store = Store(path, ["totals", "seen"], options)
    number = 0
    while True:
        number += 1
        if number == bulk_from:
            store.set_bulk_load_mode("totals", True)
        key, value = b"%d" % number, b"%d" % number
        # Of different sizes, so that their memtables are full at different times.
        store.write({"totals": [(key, bytes(300)), (b"newest", value)], "seen": [(b"newest", value)]}, at(number))
        if number == 5_000:
            ready.set()


@pytest.mark.parametrize("bulk_from", [None, 1], ids=["plain", "bulk"])
def test_killed_process_leaves_both_stores_at_one_write(path: Path, bulk_from: int | None) -> None:
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    process = context.Process(target=both_until_killed, args=(path, bulk_from, ready))
    process.start()
    assert ready.wait(30)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()

    store = Store(path, ["totals", "seen"])
    number = offset_of(store.position)

    assert number > (4_999 if bulk_from is None else 0)
    assert [store.get_many(name, [b"newest"]) for name in ("totals", "seen")] == [[b"%d" % number]] * 2
    assert sum(1 for _ in store.items("totals")) == number + 1
    store.close()


def test_stores_of_a_task_have_their_own_keys(path: Path) -> None:
    store = Store(path, ["totals", "seen", "default"])
    store.write({"totals": [(b"a", b"1"), (b"b", b"1")], "seen": [(b"a", b"2")], "default": [(b"a", b"3")]}, at(1))
    store.write({"totals": [(b"b", None)]}, at(2))

    assert [dict(store.items(name)) for name in store.stores] == [{b"a": b"1"}, {b"a": b"2"}, {b"a": b"3"}]
    assert store.get_many("seen", [b"a", b"b"]) == [b"2", None]
    assert [store.holds_data(name) for name in store.stores] == [True, True, True]
    store.close()


def test_added_store_is_empty_and_moves_no_position(path: Path) -> None:
    before = Store(path, ["totals"])
    before.write({"totals": [(b"a", b"1")]}, at(7))
    before.close()

    store = Store(path, ["totals", "seen"])

    assert (store.position, store.unknown_stores) == (at(7), ())
    assert (dict(store.items("totals")), store.holds_data("seen")) == ({b"a": b"1"}, False)
    store.close()


def test_store_that_is_not_asked_for_is_named_and_kept(path: Path) -> None:
    before = Store(path, ["totals", "seen"])
    before.write({"totals": [(b"a", b"1")], "seen": [(b"a", b"2")]}, at(7))
    before.close()

    without = Store(path, ["totals"])
    assert (without.unknown_stores, without.position) == (("seen",), at(7))
    without.write({"totals": [(b"b", b"1")]}, at(8))
    without.set_bulk_load_mode("totals", True)
    without.set_bulk_load_mode("totals", False)
    without.close()

    store = Store(path, ["totals", "seen"])
    assert (dict(store.items("seen")), store.unknown_stores) == ({b"a": b"2"}, ())
    store.close()


def test_lock_is_free_after_closing_whatever_was_done(path: Path) -> None:
    store = Store(path, ["totals", "seen"])
    store.write({"totals": [(b"a", b"1")], "seen": [(b"a", b"2")]}, at(1))
    found = list(store.items("totals"))
    for name in store.stores:
        store.scan(name)
    store.set_bulk_load_mode("seen", True)
    scan = store.scan("totals")

    store.close()

    again = Store(path, ["totals", "seen"])  # it would be locked by this process
    assert (list(again.items("totals")), scan.done) == (found, True)
    again.close()


def test_position_of_a_later_version_is_not_guessed_at(path: Path) -> None:
    store = Store(path, ["state"])
    store.write({}, dataclasses.replace(at(1), format=2))
    store.close()

    with pytest.raises(StoreOutdatedError, match=r"format 2, this version reads up to 1.*Install the version"):
        Store(path, ["state"])


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x80"], ids=["nothing", "no-map", "without-a-format"])
def test_what_is_no_position_is_corruption(data: bytes) -> None:
    with pytest.raises(StoreCorruptedError, match="position cannot be read"):
        Position.from_bytes(data)


def hold(path: Path, held: Any, release: Any) -> None:
    store = Store(path, ["state"])
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
        Store(path, ["state"])

    release.set()
    process.join()
    Store(path, ["state"]).close()


def test_store_that_is_open_here_is_locked_too(store: Store, path: Path) -> None:
    with pytest.raises(StoreLockedError):
        Store(path, ["state"])


def filled(path: Path) -> None:
    store = Store(path, ["state"])
    store.write({"state": [(b"%05d" % n, os.urandom(100)) for n in range(2_000)]}, at(1))
    # Closing flushes: the data lies in a table file afterwards.
    store.set_bulk_load_mode("state", True)
    store.set_bulk_load_mode("state", False)
    store.close()


def largest(path: Path, pattern: str) -> Path:
    """The file with the data: the position has a table of its own."""
    return max(path.glob(pattern), key=lambda file: file.stat().st_size)


def scribble(path: Path, pattern: str) -> None:
    file = largest(path, pattern)
    size = file.stat().st_size
    file.write_bytes(os.urandom(size))


def test_scribbled_manifest_is_corruption(path: Path) -> None:
    filled(path)
    scribble(path, "MANIFEST-*")

    with pytest.raises(StoreCorruptedError, match="moved aside and restored"):
        Store(path, ["state"])


def test_missing_table_file_is_corruption(path: Path) -> None:
    filled(path)
    for file in path.glob("*.sst"):
        file.unlink()

    with pytest.raises(StoreCorruptedError):
        Store(path, ["state"])


def test_scribbled_table_file_is_corruption_at_the_latest_when_it_is_read(path: Path) -> None:
    filled(path)
    scribble(path, "*.sst")

    with pytest.raises(StoreCorruptedError):
        Store(path, ["state"]).get_many("state", [b"%05d" % n for n in range(2_000)])


def test_scribbled_block_is_corruption_when_it_is_read(path: Path) -> None:
    filled(path)
    file = largest(path, "*.sst")
    content = bytearray(file.read_bytes())
    content[1_000:3_000] = os.urandom(2_000)
    file.write_bytes(content)
    store = Store(path, ["state"])

    with pytest.raises(StoreCorruptedError):
        store.get_many("state", [b"%05d" % n for n in range(2_000)])

    store.close()


def test_folder_that_cannot_be_made_says_what_to_check(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StateError, match="check the disk's space and permissions") as caught:
        Store(tmp_path / "file" / "state", ["state"])

    assert type(caught.value) is StateError


def test_no_text_begins_like_a_reserved_key() -> None:
    with pytest.raises(UnicodeDecodeError):
        RESERVED_PREFIX.decode()


@pytest.fixture
def damaged(path: Path) -> Iterator[Store]:
    """A block in the middle of its table cannot be read."""
    store = Store(path, ["state"])
    store.write({"state": [(b"%05d" % n, os.urandom(100)) for n in range(2_000)]}, at(1))
    store.set_bulk_load_mode("state", True)  # to flush
    store.set_bulk_load_mode("state", False)
    store.close()
    file = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(file.read_bytes())
    content[100_000] ^= 1
    file.write_bytes(content)
    store = Store(path, ["state"])
    yield store
    store.close()


def test_what_lies_behind_a_flipped_bit_is_not_left_out_without_a_word(damaged: Store, path: Path) -> None:
    found = list[bytes]()
    with pytest.raises(StoreCorruptedError, match="checksum mismatch") as all_of_it:
        found.extend(key for key, _ in damaged.items("state"))
    with pytest.raises(StoreCorruptedError, match="checksum mismatch"):
        list(damaged.range("state", b"00100", b"01900"))

    assert found == [b"%05d" % n for n in range(len(found))]
    assert [key for key, _ in damaged.range("state", b"00100", b"00103")] == [b"00100", b"00101", b"00102"]
    assert next(damaged.range("state", b"01900", b"02000"))[0] == b"01900"
    damaged.close()
    Store(path, ["state"]).close()  # its lock is free, whoever keeps the error
    assert all_of_it.value.__traceback__ is not None
