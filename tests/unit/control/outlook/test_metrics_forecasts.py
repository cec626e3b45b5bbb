"""What a day of an application's metrics says of its future."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.forecast import Outlook
from airflow_provider.control.outlook.metrics_forecasts import MetricsForecasts, metrics_forecasts
from airflow_provider.control.outlook.predicted_rto import PhaseTimes, RestoreRate, RtoBasis
from airflow_provider.control.records.metrics import MetricsRecord
from tests.unit.control.outlook.test_series import TASK, record

T0 = TaskId(0, 0)
MINUTE_MS = 60_000
DAY = 1_440
NOW_MS = DAY * MINUTE_MS
PHASES = PhaseTimes(detected_ms=500, decided_ms=1_000, owned_ms=200, first_output_ms=300)
MEASURED = RtoBasis(phases=PHASES, any_rate=RestoreRate(records_per_s=10_000.0, bytes_per_s=1_000_000.0, measured=True))
DEFAULT = RtoBasis(phases=PHASES)


def day(
    end: Callable[[int], int] = lambda at: 100 * at,
    store: Callable[[int], int] = lambda at: 1_000 * at,
    free: Callable[[int], int] = lambda at: (10_000 - at) << 20,
    minutes: int = DAY,
) -> list[MetricsRecord]:
    """Each minute 100 changelog records, 1 kB of store and a MiB of disk, unless said otherwise."""
    return [
        record(
            NOW_MS - (minutes - 1 - at) * MINUTE_MS,
            dataclasses.replace(TASK, changelog_end=end(at), store_bytes=store(at)),
            disk_free_bytes=free(at),
        )
        for at in range(minutes)
    ]


def forecasts(
    records: list[MetricsRecord], max_rto_s: float | None = None, basis: RtoBasis = MEASURED
) -> MetricsForecasts:
    return metrics_forecasts(records, NOW_MS, max_rto_s=max_rto_s, basis=basis)


def test_disk_that_fills_has_a_day() -> None:
    disk = forecasts(day()).disks["a"]

    assert disk.outlook is Outlook.AHEAD
    # 8,561 MiB are left after a day, at 1,440 MiB a day.
    assert (disk.in_s or 0.0) / 86_400 == pytest.approx(8_561 / 1_440, rel=0.01)


def test_room_that_was_made_by_hand_is_no_change_after_a_day() -> None:
    """Two days; in the first hour of the second somebody deletes half of the disk's files."""
    records = day(free=lambda at: (10_000 - at + (5_000 if at >= DAY else 0)) << 20, minutes=2 * DAY)

    disk = forecasts(records).disks["a"]

    assert disk.per_day == pytest.approx(-(1_440 << 20))


def test_disk_below_what_is_to_be_left_is_the_limit() -> None:
    found = metrics_forecasts(day(), NOW_MS, min_free_bytes=8_000 << 20, instances=["a"]).disks["a"]

    assert (found.in_s or 0.0) / 86_400 == pytest.approx(561 / 1_440, rel=0.02)


def test_instance_that_is_not_asked_about_has_no_forecast() -> None:
    assert metrics_forecasts(day(), NOW_MS, instances=["b"]).disks == {}


def test_growth_is_told_by_day() -> None:
    growth = forecasts(day()).growths[T0]

    assert growth.records_per_day == pytest.approx(144_000)
    assert growth.store_bytes_per_day == pytest.approx(1_440_000)
    assert (growth.end, growth.store_bytes) == (143_900, 1_439_000)


def test_restarts_and_a_night_without_records_do_not_change_the_growth() -> None:
    restarted = [dataclasses.replace(one, incarnation=at // 200) for at, one in enumerate(day()) if not 600 <= at < 900]

    assert forecasts(restarted).growths[T0].records_per_day == pytest.approx(144_000)


def test_replay_leaves_the_rto_when_both_ways_do() -> None:
    # Two seconds apart from the replay. By offsets 8 s more are 80,000 records, by bytes 8 MB: long past, and in days.
    replay = forecasts(day(), max_rto_s=10.0).replays[T0]

    assert replay.outlook is Outlook.AHEAD
    assert (replay.in_s or 0.0) / 86_400 == pytest.approx((8_000_000 - 1_439_000) / 1_440_000, rel=0.01)
    assert replay.value == pytest.approx(2 + 1.439, abs=0.01)


def test_compacted_changelog_of_a_store_that_does_not_grow_never_takes_longer() -> None:
    assert forecasts(day(store=lambda _: 4_000), max_rto_s=10.0).replays[T0].outlook is Outlook.STEADY


def test_replay_that_takes_too_long_already_is_said_so() -> None:
    replay = forecasts(day(end=lambda at: 10**9 + at, store=lambda at: 10**9 + at), max_rto_s=10.0).replays[T0]

    assert (replay.outlook, replay.in_s) == (Outlook.REACHED, 0.0)


def test_without_a_restore_on_record_no_replay_is_told() -> None:
    replay = forecasts(day(), max_rto_s=10.0, basis=DEFAULT).replays[T0]

    assert (replay.outlook, replay.value) == (Outlook.NOT_ENOUGH, None)
    assert "no restore" in replay.why


def test_restore_that_the_metrics_saw_gives_the_rate() -> None:
    records = day()
    restoring = dataclasses.replace(
        TASK, restoring=True, restored_records=50_000, restored_bytes=5_000_000, restore_took_s=5.0
    )
    seen = dataclasses.replace(records[0], at_ms=records[0].at_ms - 1, instance="b", tasks=(restoring,))

    assert forecasts([seen, *records], max_rto_s=10.0, basis=DEFAULT).replays[T0].outlook is Outlook.AHEAD


def test_first_minutes_say_that_they_are_too_few() -> None:
    found = forecasts(day(minutes=10), max_rto_s=1_000.0)

    assert found.growths[T0].records_per_day is None
    assert found.disks["a"].outlook is found.replays[T0].outlook is Outlook.NOT_ENOUGH
    assert all("not enough records: 10 record(s) over 9 minutes" in line for line in found.lines())


def test_each_has_a_line_and_all_are_json() -> None:
    found = forecasts(day(), max_rto_s=10.0)

    disk, changelog, replay = found.lines()
    assert disk == "disk of a: 8,563.0 MiB free, -1,440.0 MiB a day; full in 5.9 days"
    assert changelog == "changelog of task 0_0: grows by 144,000 records a day, its store 1.4 MiB a day"
    assert replay == ("replay of task 0_0: a failover without a copy takes 3.4 s, +1.4 s a day; above 10 s in 4.6 days")
    assert json.loads(json.dumps(to_plain(found)))["disks"]["a"]["outlook"] == "ahead"
