from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.factory.spec import check_schedule


@pytest.mark.parametrize("schedule", ["0 4 * * 1", "*/10 * * * *", "@weekly", "@quarterly", None, timedelta(hours=1)])
def test_schedules_of_airflow_are_taken(schedule: Any) -> None:
    check_schedule("It has", schedule)


@pytest.mark.parametrize("schedule", ["every night", "0 4 * *", "@wekly", "0 25 * * *", "0 4 * * funday", ""])
def test_other_texts_are_refused_with_who_has_them_and_an_example(schedule: str) -> None:
    with pytest.raises(ConfigurationError) as found:
        check_schedule("It has", schedule)

    assert str(found.value).startswith(f"It has {schedule!r}, which is no schedule: give a cron expression")
