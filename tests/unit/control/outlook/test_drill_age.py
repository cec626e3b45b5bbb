from __future__ import annotations

import dataclasses

from airflow_provider.control.outlook.slo import drill_overdue
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord

DAY_MS = 86_400_000
WEEK_S = 7 * 86_400.0
PASSED = HistoryRecord(
    application_id="app",
    kind=HistoryKind.DRILL,
    id="1",
    cause="crash",
    at_ms=DAY_MS,
    ended_at_ms=DAY_MS + 60_000,
    by="run-1",
    outcome=HistoryOutcome.PASSED,
)


def failed(at_ms: int) -> HistoryRecord:
    return dataclasses.replace(PASSED, id="2", at_ms=at_ms, outcome=HistoryOutcome.SKIPPED, reason="no task had input")


def test_drill_within_the_time_that_is_promised_is_enough() -> None:
    assert drill_overdue([PASSED, failed(3 * DAY_MS)], WEEK_S, 8 * DAY_MS) is None


def test_application_that_never_passed_one_is_overdue() -> None:
    assert drill_overdue([failed(3 * DAY_MS)], WEEK_S, 8 * DAY_MS) == (
        "no drill was ever passed, one in 7.0 days is promised: run a drill DAG."
    )


def test_overdue_drill_says_what_became_of_the_last_one() -> None:
    assert drill_overdue([PASSED, failed(9 * DAY_MS)], WEEK_S, 11 * DAY_MS + 60_000) == (
        "no drill was passed for 10.0 days, one in 7.0 days is promised; the last one was skipped: no task had input. "
        "Look at the drill DAGs' runs."
    )


def test_failover_is_no_drill() -> None:
    real = dataclasses.replace(PASSED, kind=HistoryKind.FAILOVER)

    assert drill_overdue([real], WEEK_S, 2 * DAY_MS) is not None
