"""A clean shutdown on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider.errors import (
    InstanceError,
)
from airflow_provider.operators.instance_commands import StopInstanceOperator
from tests.builders import placed
from tests.integration.airflow.conftest import Deploy
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application
from tests.waiting import wait_until


def test_clean_shutdown_ends_the_process(application: Application, pair: list[dict[str, Any]]) -> None:
    run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

    wait_until(lambda: not Path(f"/proc/{pair[0]['pid']}").exists(), 5.0, "the process to end")
    assert application.view().statuses["a"].process.exit_code is None


def test_its_tasks_are_handed_over_first(application: Application, pair: list[dict[str, Any]]) -> None:
    run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

    view = application.view()
    assert view.assignment is not None
    assert placed(view.assignment) == ["b", "b"]


def test_without_a_hand_over_the_assignment_stays(application: Application, pair: list[dict[str, Any]]) -> None:
    run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a", hand_over=False))

    view = application.view()
    assert view.assignment is not None
    assert placed(view.assignment) == ["a b", "b a"]


def test_stopped_instance_may_be_stopped_again(application: Application, deploy: Deploy) -> None:
    run(deploy("a"))
    for _ in range(2):
        run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))


def test_unknown_instance_is_an_error(application: Application) -> None:
    with pytest.raises(InstanceError, match="No status of instance"):
        StopInstanceOperator(task_id="stop", application_id=application.id, instance="z").execute(context())
