from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from airflow_provider.control.outlook.trend import Point, Trend, trend

MINUTE_MS = 60_000
BEGIN_MS = 1_700_000_000_000


def points(minutes: int, value: Callable[[int], float], run: Callable[[int], object] = lambda _: None) -> list[Point]:
    """One each minute."""
    return [Point(BEGIN_MS + MINUTE_MS * at, value(at), run(at)) for at in range(minutes)]


def found(given: list[Point]) -> Trend:
    trended = trend(given)
    assert trended is not None
    return trended


def test_straight_line_has_its_slope() -> None:
    line = found(points(600, lambda at: 5_000 + 120.0 * at))

    assert line.per_s == pytest.approx(2.0)
    assert line.observed_s == pytest.approx(599 * 60)
    assert line.clear


def test_order_does_not_matter() -> None:
    shuffled = points(600, lambda at: -60.0 * at)
    random.Random(1).shuffle(shuffled)

    assert found(shuffled).per_s == pytest.approx(-1.0)


def test_a_week_of_records_is_thinned_out_and_keeps_its_slope() -> None:
    assert found(points(7 * 1440, lambda at: 60.0 * at)).per_s == pytest.approx(1.0)


def test_points_that_are_far_off_do_not_move_it() -> None:
    wild = points(600, lambda at: 1e12 if at % 7 == 3 else 60.0 * at)

    assert found(wild).per_s == pytest.approx(1.0, rel=0.05)


def test_gap_is_no_change() -> None:
    whole = points(1_440, lambda at: 60.0 * at)

    assert found([*whole[:300], *whole[1_200:]]).per_s == pytest.approx(1.0)


def test_jump_between_two_runs_is_no_change() -> None:
    restarted = points(600, lambda at: 60.0 * at + (1e9 if at >= 300 else 0.0), run=lambda at: at >= 300)

    assert found(restarted).per_s == pytest.approx(1.0)
    assert found(restarted).observed_s == pytest.approx(2 * 299 * 60)


def test_saw_of_compactions_shows_what_stays() -> None:
    """Twenty minutes of writing, then half of it is compacted away."""
    saw = points(1_440, lambda at: 6_000.0 * (at // 20) + 600.0 * (at % 20))

    assert found(saw).per_s == pytest.approx(5.0, rel=0.05)


@pytest.mark.parametrize("at_minute", [200, 720, 1_300])
@pytest.mark.parametrize("jump", [5e6, -5e6], ids=["up", "down"])
def test_lasting_jump_may_be_told_from_change(at_minute: int, jump: float) -> None:
    """A day in which somebody deleted files, or put some there."""
    jumped = points(1_440, lambda at: -60.0 * at + (jump if at >= at_minute else 0.0))

    line = trend(jumped, jumps=True)

    assert line is not None
    assert line.per_s == pytest.approx(-1.0, rel=0.05)
    assert line.clear


def test_batches_that_come_now_and_then_are_change() -> None:
    """A hundred records in the first hour of each day of a week: no jumps, but how it grows."""
    batches = points(7 * 1_440, lambda at: 100.0 * (at // 1_440) + min(100.0, (at % 1_440) * 100 / 60))

    assert found(batches).per_s * 86_400 == pytest.approx(100, rel=0.1)
    assert found(batches).clear


def test_figure_that_only_scatters_has_no_clear_trend() -> None:
    for seed in range(5):
        noise = random.Random(seed)
        scattered = [noise.gauss(1_000, 100) for _ in range(600)]
        assert not found(points(600, scattered.__getitem__)).clear, seed
    assert not found(points(600, lambda _: 7.0)).clear


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([], id="none"),
        pytest.param(points(29, lambda at: at), id="too-few"),
        pytest.param(points(60, lambda at: at), id="too-short"),
        pytest.param(points(600, lambda at: at, run=lambda at: at), id="each-its-own-run"),
    ],
)
def test_too_little_gives_no_trend(given: list[Point]) -> None:
    assert trend(given) is None
