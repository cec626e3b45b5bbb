"""A promotion by choice."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import (
    AssignmentError,
)
from airflow_provider.operators.assignment import PromoteStandbyOperator
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application


def test_standby_runs_the_task(application: Application, pair: list[dict[str, Any]]) -> None:
    promote = PromoteStandbyOperator(task_id="promote", application_id=application.id, tasks="0_0", to="b")

    assert run(promote) == {"generation": 2, "active": {"0_0": "b"}}


def test_retry_waits_for_the_same_promotion(application: Application, pair: list[dict[str, Any]]) -> None:
    promote = PromoteStandbyOperator(task_id="promote", application_id=application.id, tasks="0_0")
    run(promote)

    assert run(promote) == {"generation": 2, "active": {"0_0": "b"}}


def test_before_the_first_assignment_it_is_refused(application: Application) -> None:
    with pytest.raises(AssignmentError, match="assigned yet"):
        PromoteStandbyOperator(task_id="t", application_id=application.id, tasks="0_0").execute(context())
