from __future__ import annotations

from airflow_provider.demo.settings import DemoSettings


def test_a_seed_gives_the_same_kill_again() -> None:
    assert DemoSettings.random_kill(7) == DemoSettings.random_kill(7)


def test_random_kills_lie_between_a_fifth_and_seven_tenths_and_strike_either() -> None:
    kills = [DemoSettings.random_kill(seed) for seed in range(200)]

    assert all(0.2 <= at <= 0.7 for at, _ in kills)
    assert {victim for _, victim in kills} == {"i1", "i2"}
