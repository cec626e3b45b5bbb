"""A drill is refused where its failure would not be answered."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import DiskStatus, InstanceStatus, TaskStatus
from airflow_provider.errors import InstanceError
from airflow_provider.operators.checks import CheckDrillReadinessOperator
from tests.builders import active, assigned, instance, standby
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application
from tests.watched import watched

ENDED = Incident(
    application_id="app", kind=IncidentKind.INSTANCE_ENDED, instance="a", incarnation=1, tasks=(), evidence="killed"
)


def check(application: Application, paused: bool = False) -> dict[str, Any]:
    ti = SimpleNamespace(map_index=-1, get_dag=lambda dag_id: SimpleNamespace(dag_id=dag_id, is_paused=paused))
    operator = CheckDrillReadinessOperator(
        task_id="check_watch", application_id=application.id, failover_dag_id="orders_failover"
    )
    watcher: dict[str, Any] = run(operator, context(ti=ti))
    return watcher


def test_drill_is_refused_unless_the_application_is_watched_now(application: Application) -> None:
    with pytest.raises(InstanceError, match=r"nothing watches .*, and nothing ever did"):
        check(application)

    with watched(application.id):
        assert check(application)["application_id"] == application.id

    with pytest.raises(InstanceError, match=r"its watcher was last heard of at .*\. Look whether a triggerer runs"):
        check(application)


def test_drill_is_refused_where_a_standbys_disk_could_not_take_a_restore(application: Application) -> None:
    application.publish(assigned("a b", application_id=application.id))
    application.write(holding(application, "a", active(0), DiskStatus("/state", 2 << 30, 1 << 40)))
    application.write(holding(application, "b", standby(0), DiskStatus("/state", 2 << 30, 1 << 30)))

    with watched(application.id):
        with pytest.raises(InstanceError, match=r"b has 1,024 MiB free at /state on .* would need 2,048 MiB"):
            check(application)
        application.write(holding(application, "b", standby(0), DiskStatus("/state", 2 << 30, 2 << 30)))
        check(application)


def holding(application: Application, name: str, task: TaskStatus, disk: DiskStatus) -> InstanceStatus:
    return dataclasses.replace(instance(name, task, disk=disk), application_id=application.id)


def test_drill_is_refused_while_the_failover_dag_is_paused_or_a_failure_is_not_repaired(
    application: Application,
) -> None:
    open_one = IncidentRecord(incident=ENDED, answered_by="run", detected_at_ms=1, decided_at_ms=2, generation=1)
    application.write(open_one)

    with watched(application.id):
        with pytest.raises(InstanceError) as found:
            check(application, paused=True)
        application.write(dataclasses.replace(open_one, resolved_at_ms=3))
        check(application)

    assert "failover DAG 'orders_failover' is paused" in str(found.value)
    assert "instance_ended of a is answered and not repaired" in str(found.value)
    assert "nothing watches" not in str(found.value)
