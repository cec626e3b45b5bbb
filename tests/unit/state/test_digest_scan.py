from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.errors import StoreCorruptedError
from airflow_provider.state import digest as digest_scan
from airflow_provider.state.digest import RunningDigest, digest_of
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.store import Store
from airflow_provider.state.time_segments import TimeSegments, time_prefix
from tests.waiting import wait_until

AT = Position(changelogs={"app-state-changelog": ChangelogPosition(offset=1)}, commit=b"commit")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state", ["state"])
    yield store
    store.close()


@pytest.mark.parametrize("keys", [0, 1, 5, 6, 40])
def test_scan_finds_the_digest_of_the_users_keys_alone(
    keys: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_scan, "_CHUNK", 3)
    # Some before the store's own keys, one after.
    stored = {b"%03d" % n: os.urandom(n) for n in range(keys)} | {b"\xff\xff": b"last"}
    store.write({"state": stored.items()}, AT)

    assert store.scan("state").result() == digest_of(stored.keys(), stored.values())


def test_what_is_written_meanwhile_is_not_in_it(store: Store) -> None:
    store.write({"state": [(b"a", b"1")]}, AT)
    scan = store.scan("state")
    store.write({"state": [(b"a", b"2"), (b"b", b"2")]}, AT)

    assert scan.result() == digest_of([b"a"], [b"1"])


@pytest.mark.parametrize("reopen", [False, True], ids=["closed", "opened-for-bulk"])
def test_scan_under_way_ends_with_the_database_that_it_reads(
    reopen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_scan, "_SHARE", 1e-9)  # it would take years
    store = Store(tmp_path / "state", ["state"])
    store.write({"state": [(b"a", b"1")]}, AT)
    scan = store.scan("state")

    if reopen:
        store.set_bulk_load_mode("state", True)
    else:
        store.close()

    assert scan.done
    assert scan.result() is None
    if reopen:
        store.close()
    Store(tmp_path / "state", ["state"]).close()  # its lock is free


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Store]:
    """A block in the middle of its table cannot be read."""
    path = tmp_path / "damaged"
    store = Store(path, ["state"])
    store.write({"state": [(b"%05d" % n, os.urandom(100)) for n in range(2_000)]}, AT)
    store.set_bulk_load_mode("state", True)  # to flush
    store.set_bulk_load_mode("state", False)
    store.close()
    file = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(file.read_bytes())
    content[100_000:102_000] = os.urandom(2_000)
    file.write_bytes(content)
    store = Store(path, ["state"])
    yield store
    store.close()


def test_block_that_cannot_be_read_is_corruption_and_leaves_no_lock(damaged: Store) -> None:
    with pytest.raises(StoreCorruptedError, match="cannot be read to its end"):
        damaged.scan("state").result()

    damaged.close()
    Store(damaged.path, ["state"]).close()


def test_owner_whose_store_cannot_be_scanned_for_its_digest_says_so(damaged: Store) -> None:
    digest = RunningDigest()
    scan = damaged.scan("state")
    digest.rebase(scan)
    wait_until(lambda: scan.done, 30, "the scan")

    with pytest.raises(StoreCorruptedError, match="cannot be read to its end"):
        digest.after({})


def test_digest_goes_on_from_what_is_known() -> None:
    digest = RunningDigest()
    assert digest.after({0: 1}) is None

    digest.resume({0: 2**64 - 1})

    assert digest.after({0: 3}) == {0: 2}
    digest.add({0: 3})
    assert digest.after({}) == {0: 2}


def test_digest_goes_on_from_what_a_scan_finds_with_what_changed_meanwhile(store: Store) -> None:
    store.write({"state": [(b"a", b"1")]}, AT)
    digest = RunningDigest()
    scan = store.scan("state")
    digest.rebase(scan)
    digest.add({0: 5})
    found = scan.result()
    assert found is not None

    assert digest.after({0: 2}) == {0: (found + 7) % 2**64}


def test_digest_is_not_known_after_the_scan_was_given_up(store: Store) -> None:
    digest = RunningDigest()
    scan = store.scan("state")
    digest.rebase(scan)

    digest.resume(None)

    assert scan.done
    assert digest.after({}) is None


SEGMENTS = TimeSegments(10)


def timed(*times: int) -> list[tuple[bytes, bytes | None]]:
    return [(time_prefix(time) + b"group", b"1") for time in times]


def test_digest_of_a_store_of_windows_is_kept_by_the_segment(store: Store) -> None:
    store.write({"state": timed(-1, 0, 9, 10)}, AT)

    parts = store.scan("state", SEGMENTS).parts()

    assert parts is not None
    assert parts.keys() == {-10, 0, 10}
    assert sum(parts.values()) % 2**64 == store.scan("state").result()


def test_segments_that_expire_are_subtracted_without_being_read(store: Store) -> None:
    store.write({"state": timed(-1, 0, 9, 10)}, AT)
    digest = RunningDigest()
    digest.resume(store.scan("state", SEGMENTS).parts())

    after = digest.after({}, expired_before=10)
    digest.add({}, expired_before=10)
    store.write({}, AT, {"state": 10})

    assert [key for key, _ in store.items("state")] == [key for key, _ in timed(10)]
    assert after == digest.after({}) == store.scan("state", SEGMENTS).parts()


def test_what_expired_during_a_scan_is_not_in_the_digest_that_it_finds(store: Store) -> None:
    store.write({"state": timed(0, 10, 20)}, AT)
    digest = RunningDigest()
    scan = store.scan("state", SEGMENTS)
    digest.rebase(scan)
    store.write({}, AT, {"state": 10})
    digest.add({}, expired_before=10)
    assert scan.result() is not None

    assert digest.after({}) == store.scan("state", SEGMENTS).parts()
