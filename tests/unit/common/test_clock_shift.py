from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from airflow_provider.common.clock import now_ms
from airflow_provider.common.clock_shift import shift_clock


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    yield
    shift_clock(0.0)


@pytest.mark.parametrize("shift_s", [1_800.0, -1_800.0])
def test_time_of_day_jumps_and_the_monotonic_clock_does_not(shift_s: float) -> None:
    of_day, monotonic, ours_ms = time.time(), time.monotonic(), now_ms()

    shift_clock(shift_s)

    assert shift_s - 1 < time.time() - of_day < shift_s + 60
    assert shift_s - 1 < (now_ms() - ours_ms) / 1000 < shift_s + 60
    assert time.monotonic() - monotonic < 60


def test_clock_that_is_put_back_is_the_hosts_own() -> None:
    of_day, nanoseconds = time.time, time.time_ns
    shift_clock(1_800.0)
    assert time.time is not of_day

    shift_clock(0.0)

    assert (time.time, time.time_ns) == (of_day, nanoseconds)
