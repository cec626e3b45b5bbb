from __future__ import annotations

import dataclasses

from airflow_provider.control.history.report import history_table
from airflow_provider.control.records.history import HistoryOutcome
from tests.unit.control.records.test_history import DRILL, PLAIN_ONE


def test_table_has_a_line_for_each_record_and_aligned_columns() -> None:
    header, drill, restore = history_table([DRILL, PLAIN_ONE]).splitlines()

    for column, cell in {
        "began (UTC)": "1970-01-01 00:00:01",
        "kind": "drill",
        "cause": "crash",
        "outcome": "passed",
        "RTO": "2.00 s",
        "detected": "0.10 s",
        "decided": "0.90 s",
        "owned": "0.20 s",
        "output": "0.80 s",
        "predicted": "2.50 s (+25 %)",
        "restored": "400",
        "SLO": "met",
        "by": "run-1",
    }.items():
        assert drill[header.index(column) :].startswith(cell), column
    assert restore[header.index("RTO") :].startswith("-")


def test_reason_stands_below_its_line() -> None:
    failed = dataclasses.replace(DRILL, outcome=HistoryOutcome.FAILED, reason="later than\npromised")

    assert history_table([failed]).splitlines()[-1] == "    later than promised"


def test_no_history_is_said() -> None:
    assert history_table([]) == "no history"
