from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from airflow_provider.control.outlook.forecast import Forecast, Outlook, Point, Trend, forecast, trend

MINUTE_MS = 60_000
BEGIN_MS = 1_700_000_000_000
HOURS_10 = 600
NOW_MS = BEGIN_MS + MINUTE_MS * (HOURS_10 - 1)


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
    assert line.clear


def test_order_does_not_matter() -> None:
    shuffled = points(600, lambda at: -60.0 * at)
    random.Random(1).shuffle(shuffled)

    assert found(shuffled).per_s == pytest.approx(-1.0)


def test_gap_is_no_change() -> None:
    whole = points(1_440, lambda at: 60.0 * at)

    assert found([*whole[:300], *whole[1_200:]]).per_s == pytest.approx(1.0)


def test_jump_between_two_runs_is_no_change() -> None:
    restarted = points(600, lambda at: 60.0 * at + (1e9 if at >= 300 else 0.0), run=lambda at: at >= 300)

    assert found(restarted).per_s == pytest.approx(1.0)


def test_saw_of_compactions_shows_what_stays() -> None:
    """Twenty minutes of writing, then half of it is compacted away."""
    saw = points(1_440, lambda at: 6_000.0 * (at // 20) + 600.0 * (at % 20))

    assert found(saw).per_s == pytest.approx(5.0, rel=0.05)


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
        pytest.param(points(600, lambda at: at, run=lambda at: at), id="each-its-own-run"),
    ],
)
def test_too_little_gives_no_trend(given: list[Point]) -> None:
    assert trend(given) is None


def rising(limit: float, now_ms: int = NOW_MS, given: list[Point] | None = None) -> Forecast:
    """One a second, from 0, seen for ten hours: 35,940 now, and 86,400 a day."""
    given = points(HOURS_10, lambda at: 60.0 * at) if given is None else given
    return forecast(given, limit, rises=True, now_ms=now_ms)


def test_limit_that_lies_ahead_has_a_time() -> None:
    found = rising(100_000)

    assert found.outlook is Outlook.AHEAD
    # The median of the newest five is that of two minutes ago.
    assert found.value == pytest.approx(35_940 - 120)
    assert found.per_day == pytest.approx(86_400)
    assert found.in_s == pytest.approx(100_000 - 35_940 + 120)
    assert (found.within(70_000), found.within(60_000), found.within(None)) == (True, False, False)


def test_figure_that_falls_reaches_a_limit_below() -> None:
    falling = points(HOURS_10, lambda at: 1e6 - 60.0 * at)

    found = forecast(falling, 0, rises=False, now_ms=NOW_MS)

    assert found.outlook is Outlook.LATER
    assert found.per_day == pytest.approx(-86_400)
    assert forecast(falling, 900_000, rises=False, now_ms=NOW_MS).in_s == pytest.approx(100_000 - 35_940 + 120)


def test_limit_that_is_reached_is_so_with_a_single_record() -> None:
    found = rising(10, given=[Point(NOW_MS, 11)])

    assert (found.outlook, found.in_s, found.within(None)) == (Outlook.REACHED, 0.0, True)


def test_future_is_told_ten_times_as_far_as_the_past_was_seen() -> None:
    assert rising(35_940 + 9 * 36_000).outlook is Outlook.AHEAD
    later = rising(35_940 + 11 * 36_000)
    assert (later.outlook, later.in_s, later.within(1e12)) == (Outlook.LATER, None, False)


@pytest.mark.parametrize("per_minute", [0.0, -60.0], ids=["flat", "away-from-it"])
def test_figure_that_does_not_get_nearer_does_not_get_there(per_minute: float) -> None:
    found = rising(1e6, given=points(HOURS_10, lambda at: per_minute * at))

    assert (found.outlook, found.in_s) == (Outlook.STEADY, None)


@pytest.mark.parametrize(
    ("given", "now_ms", "why"),
    [
        pytest.param([], NOW_MS, "there is no record", id="none"),
        pytest.param(
            points(20, lambda at: at),
            BEGIN_MS + 19 * MINUTE_MS,
            "20 record(s) over 19 minutes, 30 over 60 minutes are needed",
            id="few",
        ),
        pytest.param(
            points(HOURS_10, lambda at: at), NOW_MS + 60 * MINUTE_MS, "the newest record is 60 minutes old", id="old"
        ),
    ],
)
def test_too_little_says_what_is_missing_and_invents_nothing(given: list[Point], now_ms: int, why: str) -> None:
    found = rising(1e6, now_ms, given)

    assert (found.outlook, found.in_s, found.within(1e12)) == (Outlook.NOT_ENOUGH, None, False)
    assert found.why == why


def test_limit_that_old_records_had_reached_is_not_taken_for_now() -> None:
    assert rising(10, NOW_MS + 60 * MINUTE_MS).outlook is Outlook.NOT_ENOUGH


def test_time_that_has_passed_since_the_newest_record_counts() -> None:
    assert rising(100_000).in_s == pytest.approx((rising(100_000, NOW_MS + 600_000).in_s or 0.0) + 600)


def test_level_is_that_of_the_newest_run() -> None:
    """A disk of which much was given free an hour ago."""
    freed = points(HOURS_10, lambda at: 1e6 - 60.0 * at + (5e6 if at >= 540 else 0.0), run=lambda at: at >= 540)

    found = forecast(freed, 0, rises=False, now_ms=NOW_MS)

    assert found.value == pytest.approx(6e6 - 35_940, abs=200)
    assert found.per_day == pytest.approx(-86_400)
