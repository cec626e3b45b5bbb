from __future__ import annotations

import dataclasses

from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import TaskAssignment
from airflow_provider.control.topics.view import ControlView
from airflow_provider.demo.run import Backlog
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.builders import active, assigned, instance, view_of
from tests.waiting import wait_until


def view_at(*offsets: int | None) -> ControlView:
    """Of stage 2, by task the offset that is processed next."""
    tasks = {TaskId(2, number): TaskAssignment("a", (), 1) for number in range(len(offsets))}
    statuses = [active(task, source_offset=offset) for task, offset in zip(tasks, offsets, strict=True)]
    return view_of(dataclasses.replace(assigned(), tasks=tasks), instance("a", *statuses))


def test_backlog_is_empty_when_all_committed_records_are_processed(bootstrap_servers: str, application_id: str) -> None:
    connection = KafkaConnection(bootstrap_servers)
    TopicAdmin(connection).ensure([TopicSpec(name=application_id, partitions=2)])
    producer = Producer(connection.to_client_config() | {"transactional.id": application_id})
    producer.init_transactions(30.0)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(application_id, b"{}", partition=1)
    producer.commit_transaction(30.0)

    with Backlog(connection, application_id, 2) as backlog:
        assert not backlog.is_empty(view_at(None, None))
        assert not backlog.is_empty(view_at(0, 2))
        # Behind the last record there is the transaction's marker: found out by the second look.
        wait_until(lambda: backlog.is_empty(view_at(0, 3)), 30.0, "the end to be seen")
