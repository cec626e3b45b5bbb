"""Who publishes and who only looks, at a real broker."""

from __future__ import annotations

import pytest

from airflow_provider.control.topics.publisher import AssignmentPublisher, publish_by
from airflow_provider.errors import FencedError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import control_specs
from tests.builders import assigned


def test_act_that_publishes_nothing_disturbs_no_publisher(bootstrap_servers: str, application_id: str) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    publisher = AssignmentPublisher(connection, application_id)

    assert publish_by(connection, application_id, lambda own: own.view.assignment) is None
    publisher.publish(assigned("a", application_id=application_id))


def test_act_that_publishes_does_so_once_and_takes_over(bootstrap_servers: str, application_id: str) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    other = AssignmentPublisher(connection, application_id)

    publish_by(connection, application_id, lambda own: own.publish(assigned("a", application_id=application_id)))

    with pytest.raises(FencedError):
        other.publish(assigned("b", application_id=application_id))
    found = publish_by(connection, application_id, lambda own: own.view.assignment)
    assert found is not None
    assert found.generation == 1
