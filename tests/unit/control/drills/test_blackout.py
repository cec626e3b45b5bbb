from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider.control.drills.blackout import Blackout, blackout_at, parse_blackouts
from airflow_provider.errors import ConfigurationError

# 2026-11-23 is a Monday.
NIGHT = "22:00-06:00"


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment", "covered"),
    [
        pytest.param("mon-fri 08:00-18:00", at(23, 8), True, id="first minute"),
        pytest.param("mon-fri 08:00-18:00", at(23, 7, 59), False, id="minute before"),
        pytest.param("mon-fri 08:00-18:00", at(23, 18), False, id="end is outside"),
        pytest.param("mon-fri 08:00-18:00", at(28, 12), False, id="another day"),
        pytest.param("sat,sun", at(28, 0), True, id="whole day"),
        pytest.param("sat,sun", at(30, 0), False, id="whole day ends at midnight"),
        pytest.param(NIGHT, at(24, 3), True, id="over midnight"),
        pytest.param(NIGHT, at(24, 6), False, id="over midnight has an end"),
        pytest.param(f"fri {NIGHT}", at(28, 3), True, id="the night of a day ends on the next"),
        pytest.param(f"fri {NIGHT}", at(27, 3), False, id="the night before is another day's"),
        pytest.param("sat-mon 10:00-11:00", at(29, 10), True, id="days over the weekend"),
        pytest.param("sat-mon 10:00-11:00", at(24, 10), False, id="days over the weekend end"),
        pytest.param("mon 08:00-00:00", at(23, 23, 59), True, id="until midnight"),
        pytest.param("mon 08:00-18:00 Europe/Vienna", at(23, 7), True, id="clock of a place"),
        pytest.param("mon 08:00-18:00 Europe/Vienna", at(23, 17), False, id="clock of a place at the end"),
        pytest.param("mon Pacific/Auckland", at(22, 12), True, id="weekday of a place"),
        pytest.param("Mon,WED-fri", at(26, 1), True, id="list with a range"),
    ],
)
def test_moment_is_covered_or_not(text: str, moment: datetime, covered: bool) -> None:
    assert Blackout.parse(text).covers(moment) is covered


def test_hours_are_those_of_the_clocks_in_summer_and_in_winter() -> None:
    vienna = Blackout.parse("08:00-09:00 Europe/Vienna")

    assert vienna.covers(datetime(2026, 7, 1, 6, 30, tzinfo=UTC))
    assert not vienna.covers(datetime(2026, 12, 1, 6, 30, tzinfo=UTC))
    assert vienna.covers(datetime(2026, 12, 1, 7, 30, tzinfo=UTC))


@pytest.mark.parametrize("text", ["mon,tue 08:00-18:00 UTC", "sat,sun Europe/Vienna", "22:00-06:00 UTC"])
def test_text_comes_back_as_it_is_read(text: str) -> None:
    assert str(Blackout.parse(text)) == text


def test_whole_week_comes_back_as_days() -> None:
    assert Blackout.parse(str(Blackout.parse("mon-sun"))) == Blackout.parse("mon-sun")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "UTC",
        "weekdays",
        "mon-fri 8-18",
        "mon-fri 08:00-24:30",
        "mon 08:00-18:00 Mars/Olympus",
        "mon 08:00-18:00 ../etc/passwd",
        "mon 08:00-18:00 UTC now",
        "08:00-18:00 mon-fri",
    ],
)
def test_text_that_cannot_be_meant_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected days, hours and a time zone, such as") as found:
        Blackout.parse(text)

    assert "\n" not in str(found.value)


def test_several_stand_in_one_text_or_in_a_list() -> None:
    two = (Blackout.parse("sat,sun"), Blackout.parse(NIGHT))

    assert parse_blackouts(f"sat,sun; {NIGHT};") == parse_blackouts(["sat,sun", NIGHT]) == two
    assert parse_blackouts("") == parse_blackouts([]) == ()


def test_reason_names_the_time_and_the_blackout() -> None:
    blackouts = parse_blackouts(["sat,sun", "mon 08:00-18:00 Europe/Vienna"])

    assert blackout_at(blackouts, at(24, 12)) is None
    assert blackout_at(blackouts, at(23, 7, 5)) == (
        "no drill begins Mon 08:05 Europe/Vienna, within the blackout mon 08:00-18:00 Europe/Vienna"
    )
