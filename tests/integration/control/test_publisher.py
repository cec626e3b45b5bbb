"""Publishers of assignments that meet at a real broker."""

from __future__ import annotations

import logging

import pytest

from airflow_provider.control.publisher import AssignmentPublisher
from airflow_provider.errors import FencedError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import control_specs
from tests.builders import assigned


def test_publisher_that_a_newer_one_took_over_from_says_so_by_its_error_alone(
    bootstrap_servers: str,
    application_id: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure(control_specs(application_id))
    first = AssignmentPublisher(connection, application_id)
    AssignmentPublisher(connection, application_id).publish(assigned("a", application_id=application_id))

    with caplog.at_level(logging.DEBUG), pytest.raises(FencedError, match="A newer publisher"):
        first.publish(assigned("b", application_id=application_id))

    said = "".join(capfd.readouterr()) + caplog.text
    assert "fenced" not in said.lower()
