from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider.control.history.drill_age import passed_drill
from airflow_provider.control.outlook.predicted_rto import measured_rto_ms
from airflow_provider.control.outlook.rto_basis import phase_times
from airflow_provider.control.records.history import HistoryOutcome, HistoryRecord, history_key
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.errors import ConfigurationError
from airflow_provider.operators.checks import CheckBlackoutOperator

CONTEXT: Any = {"run_id": "scheduled-1", "ti": SimpleNamespace(dag_id="orders_drill_hang")}
ALWAYS, NEVER = "mon-sun", "mon 08:00-08:01 UTC"


class Noting(CheckBlackoutOperator):
    """Keeps what it notes in the history."""

    noted: list[HistoryRecord]

    def note_history(self, records: Iterable[HistoryRecord], *_: Any) -> bool:
        self.noted = [*records]
        return True


def check(blackout: Any, **more: Any) -> None:
    checking(blackout, **more).execute(CONTEXT)


def checking(blackout: Any, **more: Any) -> Noting:
    return Noting(task_id="check_blackout", application_id="orders", blackout=blackout, **more)


@pytest.mark.parametrize("blackout", [None, "", [], "[]"], ids=repr)
def test_without_a_blackout_a_drill_may_begin(blackout: Any) -> None:
    check(blackout)


@pytest.mark.parametrize("blackout", [[ALWAYS], ALWAYS, '["mon-sun"]', f"{NEVER}; {ALWAYS}"], ids=repr)
def test_drill_is_skipped_with_the_reason(blackout: Any) -> None:
    with pytest.raises(AirflowSkipException, match=r"orders: no drill begins \w+ \d\d:\d\d UTC, within the blackout"):
        check(blackout)


def test_skipped_drill_is_in_the_history_once_a_run_and_counts_for_nothing() -> None:
    keys = set()
    for _ in range(2):  # the task was cleared
        operator = checking([ALWAYS], kind="hang")
        with pytest.raises(AirflowSkipException):
            operator.execute(CONTEXT)
        (record,) = operator.noted
        keys.add(history_key(record))

    assert keys == {b"drill/orders_drill_hang/scheduled-1/skipped"}
    assert (record.cause, record.outcome, record.by) == ("hang", HistoryOutcome.SKIPPED, "scheduled-1")
    assert "within the blackout" in str(record.reason)
    assert passed_drill([record]) is None
    assert measured_rto_ms([record]) == {}
    assert phase_times([record], Timeouts()).failovers == 0


def test_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="flood"):
        check([ALWAYS], kind="flood")


def test_moment_is_that_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monday_at_8_ms = 1_795_420_800_000
    monkeypatch.setattr("airflow_provider.operators.checks.now_ms", lambda: monday_at_8_ms)
    with pytest.raises(AirflowSkipException, match="Mon 08:00 UTC"):
        check(NEVER)

    monkeypatch.setattr("airflow_provider.operators.checks.now_ms", lambda: monday_at_8_ms + 60_000)
    check(NEVER)


@pytest.mark.parametrize("blackout", ["sometimes", ["mon", 3], '["mon"'], ids=repr)
def test_what_cannot_be_read_ends_the_task_at_once(blackout: Any) -> None:
    with pytest.raises(ConfigurationError) as found:
        check(blackout)

    assert isinstance(found.value, AirflowFailException)
