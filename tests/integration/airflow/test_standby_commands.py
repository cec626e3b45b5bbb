"""Comparisons and snapshots that a task asks for."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import InstanceError
from airflow_provider.operators.instance_commands import CertifyStandbysOperator, SnapshotStandbysOperator
from tests.integration.airflow.conftest import Deploy, make_pair
from tests.integration.airflow.running import run
from tests.integration.launch.application import Application

KINDS = [CertifyStandbysOperator, SnapshotStandbysOperator]


@pytest.mark.parametrize("kind", KINDS, ids=["certify", "snapshot"])
def test_all_standbys_or_some_are_asked_and_waited_for(
    kind: Any, application: Application, pair: list[dict[str, Any]]
) -> None:
    def ask(**which: Any) -> Any:
        return run(kind(task_id="ask", application_id=application.id, timeout_s=30, **which))

    for instances in ("", None):
        assert ask(instances=instances, tasks="") == {"a": {"0_1": 10}, "b": {"0_0": 10}}
    assert ask(instances='["b"]', tasks="0_0, 0_1") == {"b": {"0_0": 10}}
    with pytest.raises(InstanceError, match=r"instance 'a' of .* holds no standby of 0_0"):
        ask(instances=["a"], tasks=["0_0"])


def test_standby_that_differs_fails_the_task(application: Application, deploy: Deploy) -> None:
    make_pair(application, deploy, env_vars={"DIVERGES": "1"})

    with pytest.raises(InstanceError, match=r"2 standby\(s\) .* task 0_1 on a: it held something else"):
        run(CertifyStandbysOperator(task_id="certify", application_id=application.id, timeout_s=30))


def test_job_that_takes_no_snapshots_refuses(application: Application, deploy: Deploy) -> None:
    make_pair(application, deploy, env_vars={"NO_SNAPSHOTS": "1"})

    with pytest.raises(InstanceError, match="refuses: the job takes no snapshots"):
        run(SnapshotStandbysOperator(task_id="snapshot", application_id=application.id, timeout_s=30))
