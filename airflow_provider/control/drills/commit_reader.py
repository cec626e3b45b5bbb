"""Reads the commits of tasks from a changelog, from a position on."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.cursor import UNKNOWN_TOPIC, consumer_config
from airflow_provider.control.drills.commit_chain import COMMIT_KEY, Commit
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.connection_errors import ConnectionErrors
from airflow_provider.kafka.names import changelog_topic

__all__ = ["read_commits"]

log = logging.getLogger(__name__)

_BATCH: Final = 10_000


def read_commits(
    connection: KafkaConnection,
    application_id: str,
    store: str,
    positions: Mapping[TaskId, int],
    timeout_s: float = 120.0,
) -> dict[TaskId, list[Commit]]:
    """The commits of each task since a position, in their order; none where there is no such changelog.

    Args:
        connection: the cluster.
        application_id: the application.
        store: whose changelog it is.
        positions: by task, the offset of the first record to read.
        timeout_s: how long it may take in all.

    Raises:
        BrokerUnreachableError: its end was not reached in time.
    """
    topic, deadline = changelog_topic(application_id, store), time.monotonic() + timeout_s
    errors = ConnectionErrors(logs=False)
    config = {"client.id": f"{application_id}-drill", "error_cb": errors}
    consumer = Consumer(consumer_config(connection, application_id) | config)
    tasks = {task.partition: task for task in positions}
    found: dict[TaskId, list[Commit]] = {task: [] for task in positions}
    try:
        ends = {task.partition: _end_of(consumer, topic, task.partition, timeout_s) for task in positions}
        left = {task.partition for task, offset in positions.items() if (ends[task.partition] or 0) > offset}
        consumer.assign([TopicPartition(topic, n, positions[tasks[n]]) for n in sorted(left)])
        while left:
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    f"{topic} at {connection.bootstrap_servers} could not be read to its end within {timeout_s:g} s: "
                    "check that the brokers answer."
                )
            for message in consumer.consume(_BATCH, 0.2):
                number, error = int(message.partition() or 0), message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        left.discard(number)
                    continue
                if message.key() == COMMIT_KEY and number in left:
                    _take(found[tasks[number]], message.value(), topic)
                if int(message.offset() or 0) + 1 >= (ends[number] or 0):
                    left.discard(number)
    except KafkaException as error:
        consumer.poll(0)  # hands over why its connections failed
        raise BrokerUnreachableError(
            f"{topic} at {connection.bootstrap_servers} could not be read ({errors.because(error.args[0].str())}): "
            "check the address and that the brokers answer."
        ) from error
    finally:
        consumer.close()
    return found


def _take(commits: list[Commit], value: bytes | str | None, topic: str) -> None:
    try:
        commits.append(msgspec.json.decode(value or b"", type=Commit))
    except msgspec.DecodeError as why:
        log.warning("A commit record of %s cannot be read and is left out: %s", topic, why)


def _end_of(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> int | None:
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
    except KafkaException as error:
        if error.args[0].code() in (*UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
            return None
        raise
    return int(end)
