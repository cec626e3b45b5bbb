"""The topic of lookups on a real broker: what others write into it holds nobody up."""

from __future__ import annotations

import uuid

from confluent_kafka import Producer

from airflow_provider.control.lookup.channel import LookupChannel
from airflow_provider.control.records.lookup import Question, lookup_key
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import lookups_spec

QUESTION = Question(id="q", store="state", key=("ann",))


def test_question_comes_behind_garbage_and_behind_a_transaction_that_is_left_open(
    bootstrap_servers: str, application_id: str
) -> None:
    connection, spec = KafkaConnection(bootstrap_servers), lookups_spec(application_id, 1)
    TopicAdmin(connection).ensure([spec])
    other = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": uuid.uuid4().hex})
    other.init_transactions(30)
    with LookupChannel(connection, application_id) as asks, LookupChannel(connection, application_id) as answers:
        other.begin_transaction()
        other.produce(spec.name, b'{"id":"\xff","store":"state","key":["ann"]}', lookup_key(QUESTION))
        assert other.flush(30) == 0
        asks.send(QUESTION)

        assert answers.receive(30) == QUESTION
        other.abort_transaction(30)
