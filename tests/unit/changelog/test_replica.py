from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from airflow_provider.changelog import completeness
from airflow_provider.changelog import replica as replica_module
from airflow_provider.changelog.batch import ChangelogBatch
from airflow_provider.changelog.commit_record import COMMIT_KEY, CommitRecord, SourcePosition
from airflow_provider.changelog.completeness import find_resume_point
from airflow_provider.changelog.replica import Replica
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import StoreDivergedError, StoreOutdatedError, TopicMismatchError
from airflow_provider.state.position import RESERVED_PREFIX, Position
from airflow_provider.state.store import Store
from airflow_provider.state.time_segments import time_prefix
from tests.builders import commit_of

CHANGELOG = "orders-state-changelog"
DAY_MS = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state", ["state"])
    yield store
    store.close()


@pytest.fixture
def replica(store: Store) -> Replica:
    return Replica(store, "state", CHANGELOG)


def batch(
    records: Mapping[bytes, bytes | None], next_offset: int, at_end: bool = False, known_end: int | None = None
) -> ChangelogBatch:
    changes = {key: value for key, value in records.items() if key != COMMIT_KEY}
    return ChangelogBatch(
        keys=list(changes),
        values=list(changes.values()),
        commit=records.get(COMMIT_KEY),
        records=len(records),
        record_bytes=0,
        next_offset=next_offset,
        at_end=at_end,
        known_end=known_end,
    )


def test_batch_is_applied_with_the_position_after_it(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1", b"b": b"2"}, 2))
    replica.apply(batch({b"a": None, b"c": b"3"}, 5))

    assert dict(store.items("state")) == {b"b": b"2", b"c": b"3"}
    assert store.position is not None
    assert list(store.position.changelogs) == [CHANGELOG]
    assert replica.position == store.position.changelogs[CHANGELOG]
    assert replica.position.offset == 5
    assert replica.offset == 5
    assert replica.meter.records == 4


def test_commit_record_is_kept_in_the_position_and_not_among_the_data(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1", COMMIT_KEY: b"first"}, 2))
    replica.apply(batch({b"b": b"1"}, 3))
    assert store.position is not None
    assert store.position.commit == b"first"

    replica.apply(batch({COMMIT_KEY: b"second"}, 4, at_end=True))

    assert store.position.commit == b"second"
    assert store.get_many("state", [COMMIT_KEY]) == [None]
    assert dict(store.items("state")) == {b"a": b"1", b"b": b"1"}


def test_reserved_keys_are_never_the_users_data(replica: Replica, store: Store, tmp_path: Path) -> None:
    replica.apply(batch({b"a": b"1", RESERVED_PREFIX + b"later": b"x", RESERVED_PREFIX + b"position": b"x"}, 3))

    assert dict(store.items("state")) == {b"a": b"1"}
    assert replica.offset == 3
    store.close()
    again = Store(tmp_path / "state", ["state"])
    assert Replica(again, "state", CHANGELOG).offset == 3, "what is read as the position is the store's own"
    again.close()


def test_end_moves_the_position_past_markers(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1"}, 2))
    replica.apply(batch({}, 4, at_end=True))

    assert replica.reached_end
    assert (replica.offset, replica.end, replica.lag_records) == (4, 4, 0)


def test_end_of_an_empty_changelog_is_a_position(replica: Replica, store: Store) -> None:
    replica.apply(batch({}, 0, at_end=True))

    assert replica.reached_end
    assert store.position is not None
    assert (replica.offset, list(store.position.changelogs), store.position.commit) == (0, [CHANGELOG], None)


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
        replica.set_end(end)
    if applied:
        replica.apply(batch({b"a": b"1"}, applied))

    assert replica.lag_records == lag


def test_what_came_before_an_error_is_applied(replica: Replica, store: Store) -> None:
    broken = batch({b"a": b"1"}, 2)
    broken.error = StoreOutdatedError("the rest is gone")

    with pytest.raises(StoreOutdatedError, match="the rest is gone"):
        replica.apply(broken)

    assert store.get_many("state", [b"a"]) == [b"1"]
    assert replica.offset == 2


def test_large_restore_goes_the_bulk_way_and_ends_it(
    replica: Replica, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "_BULK_FROM", 100)
    ways = []
    replica.set_end(1_000)
    for offset in (300, 600, 950):
        replica.apply(batch({b"a": b"%d" % offset, b"at-%d" % offset: b"1"}, offset))
        ways.append(store.bulk)
    replica.apply(batch({}, 1_000, at_end=True))

    assert ways == [True, True, True]
    assert not store.bulk
    assert dict(store.items("state")) == {b"a": b"950", b"at-300": b"1", b"at-600": b"1", b"at-950": b"1"}
    assert replica.offset == 1_000


def test_small_restore_goes_the_plain_way(replica: Replica, store: Store) -> None:
    replica.set_end(1_000)

    replica.apply(batch({b"a": b"1"}, 300))

    assert not store.bulk


def test_lag_in_seconds_is_since_it_held_all_by_the_clock_of_its_host_alone(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    found = [replica.lag_s]
    replica.apply(batch({b"a": b"1"}, 5, at_end=True))  # its records were written in 1970
    found.append(replica.lag_s)
    now_s += 50.0
    replica.apply(batch({}, 5, at_end=True))
    now_s += 2.0
    replica.set_end(9)
    found.append(replica.lag_s)

    assert found == [None, 0.0, 2.0]


def test_lag_in_seconds_of_a_store_that_lay_there_is_known_before_the_end_is_reached(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(1_700_000_000_000)
    monkeypatch.setattr(completeness, "now_ms", lambda: clock.ms)
    Replica(store, "state", CHANGELOG).apply(batch({b"a": b"1"}, 5, at_end=True))
    clock.sleep_h(2)
    again = Replica(store, "state", CHANGELOG)
    again.set_end(9)

    assert again.lag_s == pytest.approx(7_200, abs=60)


@dataclasses.dataclass
class Clock:
    """The host's time of day, moved by hand; it begins at the real one."""

    ms: int

    def sleep_h(self, hours: float) -> None:
        self.ms += int(hours * 3_600_000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1_700_000_000_000)
    monkeypatch.setattr(completeness, "now_ms", lambda: clock.ms)
    return clock


def complete_at_ms(replica: Replica) -> int:
    assert replica.position is not None
    return replica.position.complete_at_ms


def test_end_is_to_be_asked_for_a_minute_after_all_was_applied(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG)
    due = [replica.touch_due]
    replica.apply(batch({b"a": b"1"}, 5, at_end=True))
    due.append(replica.touch_due)
    clock.ms += 60_001
    due.append(replica.touch_due)
    replica.await_end(7)
    due.append(replica.touch_due)
    replica.apply(batch({b"a": b"2"}, 7))
    due.append(replica.touch_due)
    clock.ms += 60_001
    due.append(replica.touch_due)

    assert due == [False, False, True, False, False, True]


def test_only_what_reaches_the_end_makes_a_store_complete(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG)
    replica.apply(batch({b"a": b"1"}, 5, at_end=True))
    first = clock.ms
    clock.sleep_h(20)
    replica.apply(batch({b"a": b"2"}, 10, known_end=30))
    behind = complete_at_ms(replica)
    replica.apply(batch({b"a": b"3"}, 30, at_end=True))

    assert (behind, complete_at_ms(replica)) == (first, clock.ms)


def test_two_long_sleeps_with_a_batch_between_are_one(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG)
    replica.apply(batch({b"a": b"1"}, 5, at_end=True))
    clock.sleep_h(20)
    replica = Replica(store, "state", CHANGELOG)
    replica.apply(batch({b"a": b"2"}, 10, known_end=30))
    clock.sleep_h(20)

    found = find_resume_point(store.position, CHANGELOG, 0, 30, clock.ms, DAY_MS, holds_data=True)

    assert found.fresh
    assert "40.0 h" in found.reason


def test_restore_that_took_longer_than_deletions_are_kept_is_not_believed(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG)
    replica.apply(batch({b"a": b"1"}, 5, known_end=30))
    clock.sleep_h(24)

    with pytest.raises(StoreOutdatedError, match=r"24\.0 h.*delete\.retention\.ms of orders-state-changelog"):
        replica.apply(batch({b"b": b"1"}, 30, at_end=True))


def test_restore_is_possible_however_short_deletions_are_kept(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG, delete_retention_ms=0)
    replica.apply(batch({b"a": b"1"}, 5, known_end=30))
    clock.ms += 30_000

    replica.apply(batch({b"b": b"1"}, 30, at_end=True))

    assert complete_at_ms(replica) == clock.ms


def test_standby_that_is_always_a_little_behind_stays_fresh(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG)
    replica.resume()
    replica.expect_end(10)
    for offset in range(5, 500, 5):
        replica.apply(batch({b"a": b"1"}, offset, known_end=offset + 10))
        clock.sleep_h(1)
        if replica.touch_due:
            replica.await_end(offset + 10)

    assert clock.ms - complete_at_ms(replica) <= 4 * 3_600_000


def test_clock_that_was_set_back_does_not_make_a_followed_store_outdated(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG)
    replica.apply(batch({b"a": b"1"}, 5, at_end=True))
    clock.sleep_h(-5)

    replica.apply(batch({b"a": b"2"}, 6, at_end=True))

    assert complete_at_ms(replica) == clock.ms


@pytest.mark.parametrize(
    ("begin", "refused"),
    [
        pytest.param(5, False, id="at-the-end"),
        pytest.param(6, False, id="behind-the-marker-of-the-last-commit"),
        pytest.param(7, True, id="behind-a-foreign-record"),
        pytest.param(8, False, id="behind-a-marker-that-was-written-three-times"),
        pytest.param(0, True, id="of-a-topic-created-again"),
    ],
)
def test_commit_follows_what_is_applied(begin: int, refused: bool, replica: Replica) -> None:
    def foreign_record(first: int, end: int) -> bool:
        """There is one at offset 6 where the commit is behind it, and none between further markers."""
        assert (first, end) == (5, begin)
        return end == 7

    replica.apply(batch({b"a": b"1"}, 5, at_end=True))

    if refused:
        with pytest.raises(TopicMismatchError, match=f"begins at offset {begin}, 5 was the end before it"):
            replica.position_after_commit(begin + 4, 4, foreign_record)
    else:
        assert replica.position_after_commit(begin + 4, 4, foreign_record).offset == begin + 4


def test_topic_of_the_same_name_is_not_the_one_that_was_applied(store: Store) -> None:
    Replica(store, "state", CHANGELOG, "id-1").apply(batch({b"a": b"1"}, 5, at_end=True))

    for known in ("id-1", None):
        Replica(store, "state", CHANGELOG, known).check_topic()
    with pytest.raises(TopicMismatchError, match=r"offset 5 of orders-state-changelog with the id id-1.*the id id-2"):
        Replica(store, "state", CHANGELOG, "id-2").check_topic()


def test_store_that_does_not_know_its_topic_takes_the_one_that_is_there(store: Store) -> None:
    Replica(store, "state", CHANGELOG).apply(batch({b"a": b"1"}, 5, at_end=True))

    replica = Replica(store, "state", CHANGELOG, "id-1")
    replica.check_topic()
    replica.apply(batch({b"a": b"2"}, 6, at_end=True))

    assert replica.position is not None
    assert replica.position.topic_id == "id-1"


def only_markers(begin: int, end: int) -> bool:
    return False


def test_owner_stands_at_the_end_with_each_commit(clock: Clock, store: Store) -> None:
    replica = Replica(store, "state", CHANGELOG)
    replica.apply(batch({b"a": b"1"}, 5, at_end=True))
    for offset in (8, 11):
        clock.sleep_h(20)
        to = replica.position_after_commit(offset, 3, only_markers)
        store.write({"state": [(b"a", b"2")]}, Position().moved(CHANGELOG, to, None))
    clock.sleep_h(1)

    replica.resume()
    replica.expect_end(12)
    replica.apply(batch({b"a": b"3"}, 12, at_end=True))

    assert complete_at_ms(replica) == clock.ms


def test_touch_moves_nothing_but_the_time(replica: Replica, store: Store) -> None:
    replica.apply(batch({b"a": b"1", COMMIT_KEY: b"commit"}, 5, at_end=True))
    before = store.position
    assert before is not None

    replica.touch()

    after = store.position
    assert after is not None
    assert after.commit == before.commit
    was, now = before.changelogs[CHANGELOG], after.changelogs[CHANGELOG]
    assert dataclasses.replace(now, complete_at_ms=was.complete_at_ms) == was
    assert now.complete_at_ms >= was.complete_at_ms


def test_restore_counts_bytes_and_forecasts_those_left(replica: Replica) -> None:
    replica.set_end(100)
    records = dataclasses.replace(batch({b"a": b"1" * 99}, 20), records=20, record_bytes=2_000)
    assert (replica.meter.bytes_left(replica.lag_records), replica.restored) == (None, False)

    replica.apply(records)

    assert (replica.meter.bytes, replica.meter.bytes_left(replica.lag_records), replica.restored) == (
        2_000,
        8_000,
        False,
    )
    replica.apply(batch({}, 100, at_end=True))
    took = replica.meter.elapsed_s
    assert (replica.meter.bytes_left(replica.lag_records), replica.restored, replica.meter.elapsed_s) == (0, True, took)


def test_restore_begins_again_when_it_is_asked_to(replica: Replica) -> None:
    replica.apply(batch({b"a": b"1"}, 1, at_end=True))

    replica.begin_restore()

    assert (replica.meter.records, replica.meter.bytes, replica.restored) == (0, 0, False)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    """Two stores of one task, in one database."""
    store = Store(tmp_path / "pair", ["totals", "seen"])
    yield Replica(store, "totals", "orders-totals-changelog", "id-1"), Replica(store, "seen", "orders-seen-changelog")
    store.close()


def test_replicas_of_one_task_move_their_own_changelogs_only(pair: tuple[Replica, Replica]) -> None:
    totals, seen = pair
    totals.apply(batch({b"a": b"1"}, 5, at_end=True))
    assert (totals.offset, seen.offset, seen.position) == (5, 0, None)

    seen.apply(batch({b"a": b"2"}, 9))

    assert (totals.offset, seen.offset) == (5, 9)
    assert (totals.reached_end, seen.reached_end) == (True, False)
    assert [dict(r.store.items(r.name)) for r in pair] == [{b"a": b"1"}, {b"a": b"2"}]
    position = totals.store.position
    assert position is not None
    assert [at.topic_id for at in position.changelogs.values()] == ["id-1", None]


def test_database_is_opened_for_bulk_while_any_of_its_stores_is_far_behind(
    pair: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "_BULK_FROM", 100)
    totals, seen = pair
    for replica in pair:
        replica.set_end(1_000)
    ways = []
    for replica, next_batch in (
        (totals, batch({b"a": b"1"}, 300)),
        (seen, batch({b"a": b"2"}, 950)),
        (seen, batch({b"b": b"2"}, 1_000, at_end=True)),
        (totals, batch({b"b": b"1"}, 1_000, at_end=True)),
    ):
        replica.apply(next_batch)
        ways.append(replica.store.bulk)

    assert ways == [True, True, True, False]
    assert [dict(r.store.items(r.name)) for r in pair] == [{b"a": b"1", b"b": b"1"}, {b"a": b"2", b"b": b"2"}]
    assert (totals.offset, seen.offset) == (1_000, 1_000)


def commit_record(sequence: int, processed_to: int = 0) -> bytes:
    return commit_of(
        application_id="orders", sequence=sequence, sources={"orders": SourcePosition(processed_to)}
    ).to_bytes()


def test_newest_commit_of_several_changelogs_is_the_tasks(pair: tuple[Replica, Replica]) -> None:
    totals, seen = pair
    found = []
    for replica, sequence, offset in ((totals, 3, 2), (seen, 2, 2), (seen, 5, 4), (totals, 4, 4)):
        replica.apply(batch({b"a": b"1", COMMIT_KEY: commit_record(sequence)}, offset))
        position = replica.store.position
        found.append(None if position is None else position.commit)

    assert found == [commit_record(sequence) for sequence in (3, 3, 5, 5)]


def test_restore_does_not_end_before_the_end_that_was_asked_for_when_owned(replica: Replica) -> None:
    replica.resume()
    replica.expect_end(50, last=True)
    replica.apply(batch({b"a": b"1"}, 30))

    replica.apply(batch({}, 30, at_end=True))
    too_early = (replica.reached_end, replica.restored, replica.lag_records)
    replica.apply(batch({b"a": b"2"}, 50, at_end=True))

    assert too_early == (False, False, 20)
    assert (replica.reached_end, replica.restored, replica.lag_records) == (True, True, 0)


def test_restore_of_an_owner_ends_at_its_end_or_past_it_whatever_ends_are_reported(
    tmp_path: Path,
) -> None:
    for seed in range(30):
        random = Random(seed)
        store = Store(tmp_path / str(seed), ["state"])
        replica = Replica(store, "state", CHANGELOG)
        owned_end = random.randint(1, 100)
        replica.resume()
        replica.expect_end(owned_end, last=True)
        offset = 0
        while not replica.reached_end:
            offset += random.randint(0, 20)
            known_end = random.choice([None, random.randint(0, 150)])
            replica.apply(batch({b"a": b"1"}, offset, at_end=random.random() < 0.5, known_end=known_end))
        assert offset >= owned_end, f"seed {seed}"
        assert replica.lag_records == 0, f"seed {seed}"
        store.close()


def test_end_of_an_earlier_owner_is_not_waited_for_by_a_standby(replica: Replica) -> None:
    replica.resume()
    replica.expect_end(50, last=True)

    replica.resume()
    replica.apply(batch({b"a": b"1"}, 30, at_end=True))

    assert (replica.reached_end, replica.lag_records) == (True, 0)


OWN = 40
"""Up to where the commit that may be lost has processed the source."""


def committed(replica: Replica, sequence: int, offset: int) -> None:
    """As the owner does: what it wrote itself, up to an offset, is in the store."""
    before = replica.store.position or Position()
    to = replica.position_after_commit(offset, offset - replica.offset, only_markers)
    replica.store.write({"state": ()}, before.moved(CHANGELOG, to, commit_record(sequence, OWN)))


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        pytest.param([({COMMIT_KEY: commit_record(3, OWN)}, 10, False)], True, id="it-is-there"),
        pytest.param([({}, 9, True)], None, id="its-marker-is-not-written-yet"),
        pytest.param(
            [({}, 9, True), ({COMMIT_KEY: commit_record(3, OWN)}, 10, True)], True, id="its-marker-came-later"
        ),
        pytest.param([({}, 11, True)], False, id="nothing-is-there"),
        pytest.param([({b"a": b"1", COMMIT_KEY: commit_record(3, OWN)}, 13, True)], False, id="another-in-its-place"),
        pytest.param([({b"a": b"1", COMMIT_KEY: commit_record(4, OWN)}, 13, True)], True, id="compacted-away"),
        pytest.param([({b"a": b"1", COMMIT_KEY: commit_record(9, OWN - 1)}, 13, True)], False, id="others-did-less"),
        pytest.param([({b"a": b"1"}, 12, False)], None, id="the-next-commit-is-not-read-yet"),
        pytest.param([({b"a": b"1"}, 12, False), ({b"b": b"1"}, 13, True)], False, id="no-commit-came"),
    ],
)
def test_own_commit_that_is_not_in_the_changelog_is_not_gone_on_from(
    batches: list[tuple[dict[bytes, bytes | None], int, bool]], found: bool | None, replica: Replica
) -> None:
    committed(replica, 3, 10)
    replica.touch()
    replica.resume()
    begin = replica.read_back(10, 0)
    replica.expect_end(10)

    def apply() -> None:
        for changes, offset, at_end in batches:
            read = batch(changes, offset, at_end=at_end)
            read.first_offset = offset - len(changes) if changes else None
            read.first_commit = next((value for key, value in changes.items() if key == COMMIT_KEY), None)
            replica.apply(read)

    assert begin == 9
    if found is False:
        with pytest.raises(StoreDivergedError, match="applied the commit at offset 9"):
            apply()
        return
    apply()
    assert replica.reached_end is (bool(found) and batches[-1][2])


def test_own_commit_is_looked_for_by_the_next_worker_too_where_one_dies_in_the_middle_of_the_next_commit(
    replica: Replica, store: Store
) -> None:
    committed(replica, 3, 10)
    replica.touch()
    replica.resume()
    assert replica.read_back(10, 0) == 9
    first = batch({b"a": b"1"}, 12)
    first.first_offset = 11
    replica.apply(first)

    next_worker = Replica(store, "state", CHANGELOG)

    assert (next_worker.offset, next_worker.read_back(12, 0)) == (12, 9)
    whole = batch({b"a": b"1", b"b": b"1", COMMIT_KEY: commit_record(3, OWN)}, 14, at_end=True)
    whole.first_offset = 11
    with pytest.raises(StoreDivergedError, match="applied the commit at offset 9"):
        next_worker.apply(whole)


def test_other_commit_where_the_own_one_lay_is_of_a_log_that_was_cut(replica: Replica) -> None:
    committed(replica, 3, 10)
    replica.touch()
    replica.resume()
    assert replica.read_back(10, 0) == 9
    other = batch({COMMIT_KEY: commit_record(4, OWN), b"a": b"1"}, 11, at_end=True)
    other.first_offset, other.first_commit = 9, commit_record(4, OWN)

    with pytest.raises(StoreDivergedError, match="applied the commit at offset 9"):
        replica.apply(other)


def test_other_commit_where_an_applied_one_lay_is_of_a_log_that_was_cut(replica: Replica) -> None:
    read = batch({b"a": b"1", COMMIT_KEY: commit_record(3, OWN)}, 10, at_end=True)
    read.commit_at = 9
    replica.apply(read)
    replica.resume()
    assert replica.read_back(10, 0) == 9
    other = batch({COMMIT_KEY: commit_record(3, OWN + 1)}, 10, at_end=True)
    other.first_offset, other.first_commit = 9, commit_record(3, OWN + 1)

    with pytest.raises(StoreDivergedError, match="applied the commit at offset 9"):
        replica.apply(other)


def test_commit_that_the_log_has_cut_off_is_not_read_back(replica: Replica) -> None:
    committed(replica, 3, 10)

    assert replica.read_back(10, 10) == 10


def expiring(sequence: int, expired_before_ms: int) -> bytes:
    record = CommitRecord.from_bytes(commit_record(sequence), "orders", TaskId(0, 0), CHANGELOG)
    return dataclasses.replace(record, expired_before_ms={"state": expired_before_ms}).to_bytes()


def window(time_ms: int) -> bytes:
    return time_prefix(time_ms) + b"group"


def test_windows_that_are_over_by_the_commit_record_are_dropped_and_not_restored(
    replica: Replica, store: Store
) -> None:
    replica.apply(batch({window(-10): b"1", window(0): b"1", window(10): b"1", COMMIT_KEY: expiring(1, -10)}, 4))
    assert [key for key, _ in store.items("state")] == [window(-10), window(0), window(10)]

    replica.apply(batch({window(0): b"2", window(20): b"1", COMMIT_KEY: expiring(2, 10)}, 7))

    assert [key for key, _ in store.items("state")] == [window(10), window(20)]


def test_store_that_another_changelogs_commit_was_seen_of_drops_what_is_over_too(
    pair: tuple[Replica, Replica], store: Store
) -> None:
    totals, seen = pair
    seen.apply(batch({window(0): b"1", COMMIT_KEY: commit_record(1)}, 2))
    record = CommitRecord.from_bytes(commit_record(2), "orders", TaskId(0, 0), CHANGELOG)
    later = dataclasses.replace(record, expired_before_ms={seen.name: 10}).to_bytes()
    totals.apply(batch({b"a": b"1", COMMIT_KEY: later}, 2))

    seen.apply(batch({window(10): b"1", COMMIT_KEY: later}, 4))

    assert [key for key, _ in seen.store.items(seen.name)] == [window(10)]
