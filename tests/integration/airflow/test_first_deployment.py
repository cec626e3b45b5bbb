"""What the monitor does before there is anything to monitor."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.control.records.status import InstanceState
from airflow_provider.errors import InstanceError, TopicError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, metrics_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.operators.checks import CheckSloOperator
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.topics import CheckTopicsOperator
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.builders import instance
from tests.integration.airflow.running import context
from tests.integration.launch.application import Application

NAMED = {"deploy_dag_id": "orders_deploy"}
CHECKS = pytest.mark.parametrize(
    ("check", "more"),
    [
        pytest.param(CheckSloOperator, {}, id="promises"),
        pytest.param(CheckTopicsOperator, {"source_topics": "absent"}, id="topics"),
    ],
)


def made(check: type[ControlOperator], application_id: str, more: dict[str, Any]) -> ControlOperator:
    return check(task_id="check", application_id=application_id, **more)


@CHECKS
def test_application_without_topics_is_skipped_and_its_deploy_dag_named(
    check: type[ControlOperator],
    more: dict[str, Any],
    bootstrap_servers: str,
    application_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(KafkaConnection(bootstrap_servers)))

    with pytest.raises(AirflowSkipException, match="is not deployed yet: run the DAG 'orders_deploy'"):
        made(check, application_id, more | NAMED).execute(context())


@CHECKS
def test_application_of_which_no_task_was_assigned_is_skipped(
    check: type[ControlOperator], more: dict[str, Any], application: Application
) -> None:
    starting = instance("a", state=InstanceState.STARTING)
    application.write(dataclasses.replace(starting, application_id=application.id))

    with pytest.raises(AirflowSkipException, match="run the DAG 'orders_deploy'"):
        made(check, application.id, more | NAMED).execute(context())


@CHECKS
def test_application_that_lost_its_control_topics_is_not_skipped(
    check: type[ControlOperator], more: dict[str, Any], application: Application
) -> None:
    lost = [assignment_topic(application.id), status_topic(application.id)]
    TopicAdmin(application.connection).delete(lost)
    assert metrics_topic(application.id) in TopicAdmin(application.connection).names()

    with pytest.raises(TopicError):
        made(check, application.id, more | NAMED).execute(context())


def test_application_whose_assignment_was_lost_is_not_skipped(application: Application) -> None:
    application.write(dataclasses.replace(instance("a", generation=3), application_id=application.id))

    with pytest.raises(InstanceError, match="was never deployed: run its deploy DAG"):
        made(CheckSloOperator, application.id, NAMED).execute(context())
