"""The history of an application on a real broker."""

from __future__ import annotations

import dataclasses
import time

import pytest
from confluent_kafka import Producer

from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.topic import read_history, write_history
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, history_key
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.errors import BrokerUnreachableError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import history_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import history_spec
from tests.unit.control.records.test_history import DRILL, PLAIN_ONE
from tests.waiting import wait_until


@pytest.fixture
def connection(bootstrap_servers: str, application_id: str) -> KafkaConnection:
    found = KafkaConnection(bootstrap_servers)
    TopicAdmin(found).ensure([history_spec(application_id)])
    return found


def test_retries_overwrite_and_filters_choose(connection: KafkaConnection, application_id: str) -> None:
    assert read_history(connection, application_id) == ()
    opened = dataclasses.replace(DRILL, outcome=HistoryOutcome.OPEN, ended_at_ms=None)
    for record in (DRILL, PLAIN_ONE, opened, DRILL):
        write_history(connection, application_id, record)

    assert read_history(connection, application_id) == (PLAIN_ONE, DRILL)
    assert read_history(connection, application_id, since=DRILL.at_ms) == (DRILL,)
    assert read_history(connection, application_id, kind=HistoryKind.RESTORE) == (PLAIN_ONE,)


def test_what_was_stored_before_a_time_is_not_read_however_late_it_began(
    connection: KafkaConnection, application_id: str
) -> None:
    write_history(connection, application_id, DRILL)
    (stored_ms,) = stored_at(connection, application_id)
    wait_until(lambda: now_ms() > stored_ms, 10.0, "the next millisecond")
    write_history(connection, application_id, PLAIN_ONE)

    assert read_history(connection, application_id, stored_since=stored_ms) == (PLAIN_ONE, DRILL)
    assert read_history(connection, application_id, stored_since=stored_ms + 1) == (PLAIN_ONE,)
    assert read_history(connection, application_id, stored_since=now_ms() + 3_600_000) == ()


def stored_at(connection: KafkaConnection, application_id: str) -> list[int]:
    """The time of each record."""
    topic = history_topic(application_id)
    with SpanReader(connection, application_id, topic) as reader:
        return [message.timestamp()[1] for message in reader.read({0: reader.bounds(0)})]


def test_record_that_cannot_be_read_hides_no_other(
    connection: KafkaConnection, application_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(connection.to_client_config())
    producer.produce(history_topic(application_id), b"{no json", b"drill/stray", partition=0)
    assert producer.flush(10.0) == 0
    write_history(connection, application_id, DRILL)

    assert read_history(connection, application_id) == (DRILL,)
    assert "drill/stray" in caplog.text


def test_topic_is_what_its_verification_asks_for(connection: KafkaConnection, application_id: str) -> None:
    admin, spec = TopicAdmin(connection), history_spec(application_id)

    assert admin.ensure([spec]) == ()
    found = admin.describe(spec.name)
    assert found is not None
    assert {name: found.config[name] for name in spec.config} == spec.config


def test_application_without_the_topic_is_told_what_to_do_and_gets_none(
    bootstrap_servers: str, application_id: str
) -> None:
    connection = KafkaConnection(bootstrap_servers)

    with pytest.raises(TopicMissingError, match="run CreateChangelogTopicsOperator"):
        read_history(connection, application_id)
    with pytest.raises(TopicMissingError, match="run CreateChangelogTopicsOperator"):
        write_history(connection, application_id, DRILL)
    assert TopicAdmin(connection).describe(history_topic(application_id)) is None


def test_brokers_that_do_not_answer_are_waited_for_no_longer_than_allowed() -> None:
    began = time.monotonic()

    with pytest.raises(BrokerUnreachableError, match=history_key(DRILL).decode()):
        write_history(KafkaConnection("127.0.0.1:1"), "app", DRILL, timeout_s=1.0)

    assert time.monotonic() - began < 5.0
