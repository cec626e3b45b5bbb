from __future__ import annotations

import pytest

from airflow_provider.common.table import ago, seconds, table, table_lines, utc


def test_columns_are_as_wide_as_their_widest_cell_and_lines_end_with_their_last() -> None:
    rows = [("0_0", "a"), ("0_1", "longer"), ("0_2", "")]

    assert table(("task", "on"), rows) == "task  on\n0_0   a\n0_1   longer\n0_2"
    assert table_lines(("task", "on"), []) == ["task  on"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"),
        (119_999, "119 s"),
        (120_000, "2 min"),
        (7_199_999, "119 min"),
        (7_200_000, "2 h"),
        (3 * 86_400_000, "3 d"),
    ],
)
def test_age_is_one_number_with_its_unit(ms: int, text: str) -> None:
    assert ago(ms) == text


def test_seconds_have_as_many_decimals_as_asked() -> None:
    assert (seconds(2_349, 1), seconds(2_349), seconds(None)) == ("2.3 s", "2.35 s", "-")


def test_time_that_no_calendar_has_is_shown_as_its_number() -> None:
    assert [utc(0), utc(10**18)] == ["1970-01-01T00:00:00+00:00", "1000000000000000000 ms"]
