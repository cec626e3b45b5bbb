"""A drill's fault is injected once, and only where the job allows it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryOutcome
from airflow_provider.control.records.status import InstanceState
from airflow_provider.errors import InstanceError, TopicMissingError
from airflow_provider.kafka.names import history_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.operators.drill import InjectFaultOperator
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application
from tests.waiting import wait_until


def fault(application: Application) -> InjectFaultOperator:
    return InjectFaultOperator(task_id="fault", application_id=application.id)


def test_a_later_try_or_a_cleared_task_kills_no_second_instance(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    first = run(fault(application))
    wait_until(lambda: application.view().statuses["a"].state is InstanceState.ENDED, 20.0, "a to end")
    again = run(fault(application))

    assert (again["instance"], again["incarnation"]) == (first["instance"], first["incarnation"])
    states = {name: status.state for name, status in application.view().statuses.items()}
    assert states == {"a": InstanceState.ENDED, "b": InstanceState.RUNNING}

    # Another run's drill would take the last copies: it injects nothing.
    with pytest.raises(InstanceError, match="is not ready for a drill any more"):
        run(fault(application), context("another-run"))
    assert application.view().statuses["b"].state is InstanceState.RUNNING


def test_instance_whose_job_allows_no_faults_refuses(application: Application, deploy: Any) -> None:
    from tests.integration.airflow.conftest import make_pair

    make_pair(application, deploy, env_vars={"REFUSE_FAULTS": "1"})

    with pytest.raises(InstanceError, match="a refuses: the job allows no faults"):
        run(fault(application))
    assert application.view().statuses["a"].state is InstanceState.RUNNING
    (drill,) = read_history(application.connection, application.id)
    assert drill.outcome is HistoryOutcome.FAILED
    assert "a refuses: the job allows no faults" in str(drill.reason)


def test_application_without_a_history_gets_no_fault(application: Application, pair: list[dict[str, Any]]) -> None:
    topic = history_topic(application.id)
    admin = AdminClient({**application.connection.to_client_config()})  # kept: its answer ends with it
    admin.delete_topics([topic])[topic].result(10.0)
    wait_until(lambda: TopicAdmin(application.connection).describe(topic) is None, 10.0, "the topic to be gone")

    with pytest.raises(TopicMissingError, match="run CreateChangelogTopicsOperator"):
        run(fault(application))

    assert application.view().statuses["a"].state is InstanceState.RUNNING
    assert application.view().faults == {}
