from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider.errors import ConfigurationError
from airflow_provider.operators.blackout_check import CheckBlackoutOperator

ALWAYS, NEVER = "mon-sun", "mon 08:00-08:01 UTC"


def check(blackout: Any) -> None:
    CheckBlackoutOperator(task_id="check_blackout", application_id="orders", blackout=blackout).execute({})


@pytest.mark.parametrize("blackout", [None, "", [], "[]"], ids=repr)
def test_without_a_blackout_a_drill_may_begin(blackout: Any) -> None:
    check(blackout)


@pytest.mark.parametrize("blackout", [[ALWAYS], ALWAYS, '["mon-sun"]', f"{NEVER}; {ALWAYS}"], ids=repr)
def test_drill_is_skipped_with_the_reason(blackout: Any) -> None:
    with pytest.raises(AirflowSkipException, match=r"orders: no drill begins \w+ \d\d:\d\d UTC, within the blackout"):
        check(blackout)


def test_moment_is_that_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monday_at_8_ms = 1_795_420_800_000
    monkeypatch.setattr("airflow_provider.operators.blackout_check.now_ms", lambda: monday_at_8_ms)
    with pytest.raises(AirflowSkipException, match="Mon 08:00 UTC"):
        check(NEVER)

    monkeypatch.setattr("airflow_provider.operators.blackout_check.now_ms", lambda: monday_at_8_ms + 60_000)
    check(NEVER)


@pytest.mark.parametrize("blackout", ["sometimes", ["mon", 3], '["mon"'], ids=repr)
def test_what_cannot_be_read_ends_the_task_at_once(blackout: Any) -> None:
    with pytest.raises(ConfigurationError) as found:
        check(blackout)

    assert isinstance(found.value, AirflowFailException)
