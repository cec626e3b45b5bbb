from __future__ import annotations

import random

import pytest

from airflow_provider.changelog.restore_settings import Throttle


def test_without_a_bound_nothing_waits() -> None:
    throttle = Throttle(None)
    throttle.took(10**12, now=0.0)

    assert throttle.wait_s(0.0) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_mean_rate_stays_below_the_bound_whatever_comes(seed: int) -> None:
    print(f"seed {seed}")
    chance, throttle, now, taken = random.Random(seed), Throttle(1_000), 100.0, 0
    begun = now
    for _ in range(500):
        now += throttle.wait_s(now) + chance.random() * 0.1
        size = chance.randrange(1, 800)
        throttle.took(size, now)
        taken += size

    now += throttle.wait_s(now)
    # One bucket, a second's worth, may be taken at once.
    assert taken <= 1_000 * (now - begun + 1.0)


def test_idle_time_is_not_saved_up_for_more_than_a_second() -> None:
    throttle = Throttle(1_000)
    throttle.took(1, now=0.0)
    throttle.took(5_000, now=1_000.0)

    assert throttle.wait_s(1_000.0) == pytest.approx(4.0)
