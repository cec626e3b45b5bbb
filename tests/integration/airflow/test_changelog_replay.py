"""A replay on request."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import (
    AssignmentError,
)
from airflow_provider.operators.instance_commands import ReplayChangelogOperator
from airflow_provider.operators.repair import HistoryOperator
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application


def test_restored_records_are_reported(application: Application, pair: list[dict[str, Any]]) -> None:
    replay = ReplayChangelogOperator(
        task_id="replay",
        application_id=application.id,
        instance="a",
        tasks=["0_0", "0_1"],
        timeout_s=20.0,
    )

    reported = run(replay)

    assert [set(reported[figure]) for figure in ("restored_records", "restored_bytes", "restore_s")] == [
        {"0_0", "0_1"}
    ] * 3
    (restore,) = run(HistoryOperator(task_id="history", application_id=application.id, kind="restore"))
    assert (restore["outcome"], restore["instances"], restore["tasks"]) == ("passed", ["a"], ["0_0", "0_1"])
    assert {done["task"]: done["records"] for done in restore["restores"]} == reported["restored_records"]


def test_task_without_a_copy_there_is_refused(application: Application, pair: list[dict[str, Any]]) -> None:
    with pytest.raises(AssignmentError, match="holds no copy of"):
        ReplayChangelogOperator(task_id="replay", application_id=application.id, instance="a", tasks=["0_5"]).execute(
            context()
        )
