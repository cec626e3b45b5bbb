from __future__ import annotations

import pytest

from airflow_provider.cli.history import since_ms
from airflow_provider.cli.main import main

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("36h", 100 * DAY_MS - DAY_MS * 3 // 2),
        ("30d", 70 * DAY_MS),
        ("2w", 86 * DAY_MS),
        ("1970-01-03", 2 * DAY_MS),
        ("1970-01-03T01:00:00+01:00", 2 * DAY_MS),
    ],
)
def test_date_and_age_are_a_time(when: str, expected: int) -> None:
    assert since_ms(when, now=100 * DAY_MS) == expected


def test_what_is_neither_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["history", "orders", "--since", "lately"])

    assert ended.value.code == 2
    assert "'lately' is neither a date" in capsys.readouterr().err
