from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY
from airflow_provider.changelog.replica import Replica
from airflow_provider.errors import StoreOutdatedError
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.state.store import Store

CHANGELOG = "orders-state-changelog"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state")
    yield store
    store.close()


@pytest.fixture
def replica(store: Store) -> Replica:
    return Replica(store, CHANGELOG, 3)


def batch(
    records: Mapping[bytes, bytes | None], next_offset: int, at_end: bool = False, known_end: int | None = None
) -> ChangelogBatch:
    changes = {key: value for key, value in records.items() if key != COMMIT_KEY}
    return ChangelogBatch(
        list(changes), list(changes.values()), records.get(COMMIT_KEY), len(records), 0, next_offset,
        1000 + next_offset, at_end, known_end,
    )  # fmt: skip


def test_batch_is_applied_with_the_position_after_it(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1", b"b": b"2"}, 2))
    replica.apply(batch({b"a": None, b"c": b"3"}, 5))

    assert dict(store.items()) == {b"b": b"2", b"c": b"3"}
    assert store.position is not None
    assert (store.position.offset, store.position.changelog) == (5, CHANGELOG)
    assert store.position.timestamp_ms == 1005
    assert replica.offset == 5
    assert replica.restored_records == 4


def test_commit_record_is_kept_in_the_position_and_not_among_the_data(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1", COMMIT_KEY: b"first"}, 2))
    replica.apply(batch({b"b": b"1"}, 3))
    assert store.position is not None
    assert store.position.commit == b"first"

    replica.apply(batch({COMMIT_KEY: b"second"}, 4, at_end=True))

    assert store.position.commit == b"second"
    assert store.get_many([COMMIT_KEY]) == [None]
    assert dict(store.items()) == {b"a": b"1", b"b": b"1"}


def test_reserved_keys_are_never_the_users_data(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1", RESERVED_PREFIX + b"later": b"x", RESERVED_PREFIX + b"position": b"x"}, 3))

    assert dict(store.items()) == {b"a": b"1"}
    assert replica.offset == 3
    assert store.get_many([RESERVED_PREFIX + b"position"]) != [b"x"]


def test_end_moves_the_position_past_markers(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1"}, 2))
    replica.apply(batch({}, 4, at_end=True))

    assert replica.reached_end
    assert (replica.offset, replica.end, replica.lag_records) == (4, 4, 0)


def test_end_of_an_empty_changelog_is_a_position(replica: Replica, store: Store) -> None:
    replica.apply(batch({}, 0, at_end=True))

    assert replica.reached_end
    assert store.position is not None
    assert (store.position.offset, store.position.commit) == (0, None)


def test_position_never_moves_back(replica: Replica) -> None:
    replica.apply(batch({b"a": b"1"}, 7))
    replica.apply(batch({}, 5, at_end=True))

    assert replica.offset == 7


def test_further_records_are_another_end_to_reach(replica: Replica) -> None:
    replica.apply(batch({}, 4, at_end=True))
    replica.apply(batch({b"a": b"1"}, 10, known_end=30))

    assert not replica.reached_end
    assert replica.lag_records == 20


@pytest.mark.parametrize(
    ("ends", "applied", "lag"),
    [
        pytest.param([], 0, None, id="unknown-before-an-end-was-seen"),
        pytest.param([40], 10, 30, id="what-is-left"),
        pytest.param([40, 30], 10, 30, id="the-greatest-end-counts"),
        pytest.param([5], 10, 0, id="never-below-zero"),
    ],
)
def test_lag_is(ends: list[int], applied: int, lag: int | None, replica: Replica) -> None:
    for end in ends:
        replica.expect(end)
    if applied:
        replica.apply(batch({b"a": b"1"}, applied))

    assert replica.lag_records == lag


def test_forecast_follows_from_the_rate(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(float(second) for second in range(100))
    monkeypatch.setattr("airflow_provider.changelog.replica.time.monotonic", lambda: next(clock))
    replica.begin()
    assert replica.caught_up_in_s is None
    replica.expect(1_000)

    for number in range(1, 5):  # a hundred records a second
        replica.apply(batch({b"%d" % n: b"1" for n in range(100)}, number * 100))

    assert replica.records_per_s == pytest.approx(100)
    assert replica.caught_up_in_s == pytest.approx(6.0)
    replica.apply(batch({}, 1_000, at_end=True))
    assert replica.caught_up_in_s == 0.0


def test_rate_is_the_recent_one(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 100.0, 101.0])
    monkeypatch.setattr("airflow_provider.changelog.replica.time.monotonic", lambda: next(clock))
    replica.begin()
    for number in range(1, 4):
        replica.apply(batch({b"%d" % n: b"1" for n in range(10)}, number * 10))

    assert replica.records_per_s == pytest.approx(10)


def test_what_came_before_an_error_is_applied(replica: Replica, store: Store) -> None:
    broken = batch({b"a": b"1"}, 2)
    broken.error = StoreOutdatedError("the rest is gone")

    with pytest.raises(StoreOutdatedError, match="the rest is gone"):
        replica.apply(broken)

    assert store.get_many([b"a"]) == [b"1"]
    assert replica.offset == 2


def test_large_restore_goes_the_bulk_way_and_ends_it(
    replica: Replica, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.changelog.replica._BULK_FROM", 100)
    ways = []
    replica.expect(1_000)
    for offset in (300, 600, 950):
        replica.apply(batch({b"a": b"%d" % offset, b"at-%d" % offset: b"1"}, offset))
        ways.append(store.bulk)
    replica.apply(batch({}, 1_000, at_end=True))

    assert ways == [True, True, True]
    assert not store.bulk
    assert dict(store.items()) == {b"a": b"950", b"at-300": b"1", b"at-600": b"1", b"at-950": b"1"}
    assert replica.offset == 1_000


def test_small_restore_goes_the_plain_way(replica: Replica, store: Store) -> None:
    replica.expect(1_000)

    replica.apply(batch({b"a": b"1"}, 300))

    assert not store.bulk


def test_store_is_quiet_a_while_after_its_end_was_reached(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.changelog.replica._REFRESH_MS", -1)
    quiet = [replica.quiet]
    for next_batch in (batch({b"a": b"1"}, 5), batch({}, 6, at_end=True)):
        replica.apply(next_batch)
        quiet.append(replica.quiet)
    monkeypatch.setattr("airflow_provider.changelog.replica._REFRESH_MS", 60_000)
    quiet.append(replica.quiet)

    assert quiet == [False, False, True, False]


def test_refresh_moves_nothing_but_the_time(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1", COMMIT_KEY: b"commit"}, 5, at_end=True))
    before = store.position
    assert before is not None

    replica.refresh()

    after = store.position
    assert after is not None
    assert (after.offset, after.commit, after.timestamp_ms) == (before.offset, before.commit, before.timestamp_ms)
    assert after.applied_at_ms >= before.applied_at_ms


def test_restore_counts_bytes_and_forecasts_those_left(replica: Replica) -> None:
    replica.expect(100)
    records = dataclasses.replace(batch({b"a": b"1" * 99}, 20), records=20, record_bytes=2_000)
    assert (replica.bytes_left, replica.whole) == (None, False)

    replica.apply(records)

    assert (replica.restored_bytes, replica.bytes_left, replica.whole) == (2_000, 8_000, False)
    replica.apply(batch({}, 100, at_end=True))
    took = replica.restore_s
    assert (replica.bytes_left, replica.whole, replica.restore_s) == (0, True, took)


def test_restore_begins_anew_when_it_is_told_so(replica: Replica) -> None:
    replica.apply(batch({b"a": b"1"}, 1, at_end=True))

    replica.begin()

    assert (replica.restored_records, replica.restored_bytes, replica.whole) == (0, 0, False)
