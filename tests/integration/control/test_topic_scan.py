"""What a missing right does to a topic that is read once."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider.control.history.record import HistoryKind, HistoryRecord
from airflow_provider.control.history.topic import read_history, write_history
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import history_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import history_spec
from tests.integration.guarded_broker import GuardedBroker


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DESCRIBE], ids=lambda one: one.name.lower())
def test_topic_that_may_not_be_read_is_an_error_that_names_the_right(
    operation: AclOperation, guarded: GuardedBroker, application_id: str
) -> None:
    connection = KafkaConnection(guarded.bootstrap_servers)
    TopicAdmin(connection).ensure([history_spec(application_id)])
    write_history(
        connection,
        application_id,
        HistoryRecord(application_id=application_id, kind=HistoryKind.DRILL, id="d", cause="crash", at_ms=1, by="me"),
    )
    guarded.grant_application(application_id, "source", "sink")
    guarded.deny(ResourceType.TOPIC, history_topic(application_id), operation)

    with pytest.raises(
        ConfigurationError, match=rf"Reading {history_topic(application_id)} is not authorized .* Read on"
    ):
        read_history(guarded.user, application_id, timeout_s=20.0)
