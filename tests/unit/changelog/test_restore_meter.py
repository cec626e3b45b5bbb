from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from airflow_provider.changelog.replica import RestoreMeter


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the monotonic clock to a second."""

    def set_to(second: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: second)

    set_to(0.0)
    return set_to


def test_forecast_follows_from_the_rate(clock: Callable[[float], None]) -> None:
    meter = RestoreMeter()
    assert meter.caught_up_in_s(1_000) is None

    for second in range(1, 5):  # a hundred records a second
        clock(float(second))
        meter.add(100, 100)

    assert meter.records_per_s == pytest.approx(100)
    assert meter.caught_up_in_s(600) == pytest.approx(6.0)
    assert meter.caught_up_in_s(0) == 0.0
    assert meter.caught_up_in_s(None) is None


def test_rate_is_the_recent_one(clock: Callable[[float], None]) -> None:
    meter = RestoreMeter()
    for second in (1.0, 100.0, 101.0):
        clock(second)
        meter.add(10, 10)

    assert meter.records_per_s == pytest.approx(10)


def test_bytes_left_follow_from_the_mean_record() -> None:
    meter = RestoreMeter()
    assert meter.bytes_left(80) is None

    meter.add(20, 2_000)

    assert (meter.bytes, meter.bytes_left(80), meter.bytes_left(0), meter.bytes_left(None)) == (2_000, 8_000, 0, None)


def test_time_stands_still_once_the_end_was_reached_the_first_time(clock: Callable[[float], None]) -> None:
    meter = RestoreMeter()
    clock(2.0)
    assert (meter.completed, meter.elapsed_s) == (False, 2.0)

    meter.complete()
    clock(5.0)
    meter.complete()

    assert (meter.completed, meter.elapsed_s) == (True, 2.0)
