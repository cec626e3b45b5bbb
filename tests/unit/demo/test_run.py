from __future__ import annotations

import pytest

from airflow_provider.demo.errors import DemoError
from airflow_provider.demo.run import DemoSettings


def test_a_seed_gives_the_same_kill_again() -> None:
    assert DemoSettings.random_kill(7) == DemoSettings.random_kill(7)


def test_random_kills_lie_between_a_fifth_and_seven_tenths_and_strike_either() -> None:
    kills = [DemoSettings.random_kill(seed) for seed in range(200)]

    assert all(0.2 <= at <= 0.7 for at, _ in kills)
    assert {victim for _, victim in kills} == {"i1", "i2"}


@pytest.mark.parametrize("kill_at", [7, 1, 0, -0.5])
def test_moment_outside_of_the_flights_is_refused(kill_at: float) -> None:
    with pytest.raises(DemoError, match=r"--kill-at .*, expected a part of the flights above 0 and below 1"):
        DemoSettings(kill_at=kill_at)


def test_time_and_number_of_flights_have_to_be_positive() -> None:
    with pytest.raises(DemoError, match="--seconds 0"):
        DemoSettings(publish_s=0)
    with pytest.raises(DemoError, match="--flights 0"):
        DemoSettings(flights=0)
