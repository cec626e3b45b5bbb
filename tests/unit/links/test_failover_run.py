from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.links.failover_run import FailoverRun, FailoverRunLink
from airflow_provider.operators.repair import ReportFailOverOperator

NO_KEY: Any = None


def answered(dag_id: str | None) -> IncidentRecord:
    incident = Incident(
        application_id="app", kind=IncidentKind.INSTANCE_ENDED, instance="a", incarnation=1, tasks=(), evidence="gone"
    )
    return IncidentRecord(
        incident=incident,
        answered_by="asset_triggered__2026-01-02T03:04:05+00:00_x",
        answered_by_dag=dag_id,
        detected_at_ms=1,
        decided_at_ms=2,
        generation=2,
    )


def link_of(dag_id: str | None) -> str:
    operator = ReportFailOverOperator(task_id="report", application_id="app", incident_id="i")
    operator.linked_run = FailoverRun.of(answered(dag_id))
    return FailoverRunLink().get_link(operator, ti_key=NO_KEY)


def test_run_that_answered_is_linked_in_this_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/team/")

    assert link_of("app_failover") == (
        "https://airflow.example.com/team/dags/app_failover/runs/asset_triggered__2026-01-02T03%3A04%3A05%2B00%3A00_x"
    )


def test_failure_that_the_command_line_answered_has_no_run() -> None:
    assert link_of(None) == ""
