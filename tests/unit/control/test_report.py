from __future__ import annotations

from typing import Any

from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.report import report
from tests.builders import APPLICATION, active, assigned, instance, view_of

INCIDENT = Incident(APPLICATION, IncidentKind.INSTANCE_ENDED, "a", 1, (0, 1), "killed by signal 9")
RECORD = IncidentRecord(
    INCIDENT, "run", 1_100, 2_000, 2, ("task 0: promote on b",), resolved_at_ms=9_000, failed_at_ms=1_000
)
OWNED: dict[str, Any] = {"generation": 2, "restored_records": 4}


def test_last_task_counts() -> None:
    b = instance(
        "b",
        active(0, owned_at_ms=2_100, first_commit_at_ms=2_500, **OWNED),
        active(1, owned_at_ms=2_200, first_commit_at_ms=3_000, **OWNED),
    )

    told = report(RECORD, view_of(assigned("b", "b", generation=2), b))

    assert (told.owned_at_ms, told.first_commit_at_ms, told.restored_records) == (2_200, 3_000, 8)
    assert told.rto_ms == 2_000
    assert "RTO" in str(told)
    assert "2.00 s" in str(told)


def test_task_without_input_since_leaves_the_rto_open() -> None:
    b = instance("b", active(0, owned_at_ms=2_100, first_commit_at_ms=2_500), active(1, owned_at_ms=2_200))

    told = report(RECORD, view_of(assigned("b", "b", generation=2), b))

    assert (told.first_commit_at_ms, told.rto_ms) == (None, None)
    assert told.owned_at_ms == 2_200


def test_task_that_moved_on_tells_nothing_of_this_failover() -> None:
    c = instance("c", active(0, first_commit_at_ms=8_000, owned_at_ms=7_000), active(1, first_commit_at_ms=8_000))

    told = report(RECORD, view_of(assigned("c", "c", generation=3), c))

    assert (told.owned_at_ms, told.rto_ms) == (None, None)


def test_report_is_plain() -> None:
    plain = report(RECORD, view_of(None)).to_plain()

    assert plain["decisions"] == ["task 0: promote on b"]
