from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.errors import (
    ConfigurationError,
    StateError,
    StoreCorruptedError,
    StoreLockedError,
    StoreOutdatedError,
)
from airflow_provider.state import digest as digests
from airflow_provider.state.digest import digest_of
from airflow_provider.state.in_memory import InMemory
from airflow_provider.state.kind import AnyStore, StoreKind
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.state_store import GuardedStore
from tests.unit.testing.broken_stores import Refusing
from tests.unit.testing.sqlite_store import SQLiteStore

SQLITE = StoreKind.of("", SQLiteStore)
MEMORY = StoreKind.of("", InMemory(max_bytes=1000))


def at(offset: int) -> Position:
    return Position(changelogs={"app-state-changelog": ChangelogPosition(offset=offset)}, commit=b"commit")


def opened(path: Path, kind: StoreKind = SQLITE) -> AnyStore:
    return kind.open(path, "state")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnyStore]:
    store = opened(tmp_path / "rocksdb")
    yield store
    store.close()


def test_one_process_at_a_time_has_it_open(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(StoreLockedError, match="open in another living process"):
        opened(tmp_path)
    store.close()
    opened(tmp_path).close()


@pytest.mark.parametrize("before", [SQLITE, MEMORY, StoreKind()], ids=lambda kind: kind.name)
@pytest.mark.parametrize("after", [SQLITE, MEMORY, StoreKind()], ids=lambda kind: kind.name)
def test_what_another_kind_kept_is_not_resumed(before: StoreKind, after: StoreKind, tmp_path: Path) -> None:
    store = opened(tmp_path, before)
    store.write({"state": [(b"a", b"1")]}, at(1))
    store.close()

    if before != after:
        with pytest.raises(StoreOutdatedError, match=r"is kept by .*, and the job says"):
            opened(tmp_path, after)
        return
    store = opened(tmp_path, after)
    kept = None if after is MEMORY else at(1)
    assert store.position == kept
    assert list(store.items("state")) == ([] if kept is None else [(b"a", b"1")])
    store.close()


def test_what_is_written_during_a_scan_is_not_in_it(store: AnyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_CHUNK", 3)
    held = {b"%03d" % number: os.urandom(9) for number in range(40)}
    store.write({"state": held.items()}, at(1))
    scan = store.scan("state")
    for number in range(40):
        store.write({"state": [(b"%03d" % number, None), (b"new%03d" % number, b"x")]}, at(number + 2))

    assert scan.result() == digest_of(held.keys(), held.values())


def test_files_that_were_removed_under_it_are_missed(store: AnyStore) -> None:
    assert store.files_there
    (store.path / "KIND").unlink()
    assert not store.files_there


@pytest.mark.parametrize("kind", [MEMORY, SQLITE], ids=lambda kind: kind.name)
def test_more_than_is_asked_for_at_once_is_read(kind: StoreKind, tmp_path: Path) -> None:
    kind = StoreKind(name=kind.name)
    store = opened(tmp_path, kind)
    pairs = [(b"%05d" % number, b"v") for number in range(2_345)]
    store.write({"state": pairs}, at(1))

    assert list(store.items("state")) == pairs
    assert list(store.range("state", b"00100", b"02200")) == pairs[100:2200]
    store.close()


def test_memory_has_a_bound_and_a_write_beyond_it_changes_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path, MEMORY)
    store.write({"state": [(b"a", b"1" * 100)]}, at(1))
    assert store.memory_bytes == 261

    with pytest.raises(ConfigurationError, match=r"'state' at .* cannot be written: it would take .* may take 1,000"):
        store.write({"state": [(b"a", None), (b"b", b"2" * 900)]}, at(2))

    assert (store.position, dict(store.items("state"))) == (at(1), {b"a": b"1" * 100})
    store.write({"state": [(b"a", b"")]}, at(2))  # less is always taken
    assert store.memory_bytes == 161
    store.close()


def test_what_a_users_store_raises_is_one_of_ours(tmp_path: Path) -> None:
    store = opened(tmp_path, StoreKind.of("", Refusing))
    with pytest.raises(StoreCorruptedError, match=r"cannot be read \(ValueError: no such page\)"):
        store.get_many("state", [b"a"])
    assert isinstance(store, GuardedStore)
    store._kept.close()  # noqa: SLF001
    with pytest.raises(StateError, match="cannot be written") as raised:
        store.write({"state": [(b"a", b"1")]}, at(1))
    assert type(raised.value) is StateError
    store.close()


def test_class_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere:Store of a store cannot be imported here"):
        opened(tmp_path, StoreKind(name="nowhere:Store"))
