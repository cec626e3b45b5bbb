"""Values and sentences, as people read them."""

from __future__ import annotations

import pytest

from airflow_provider.cli.text import ago, seconds


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


def test_seconds_have_one_decimal() -> None:
    assert (seconds(2_349), seconds(None)) == ("2.3 s", "-")
