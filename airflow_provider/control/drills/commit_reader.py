"""Reads the commits of tasks from a changelog."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from confluent_kafka import Message

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.commit_chain import COMMIT_KEY, Commit
from airflow_provider.control.span_reader import SpanReader
from airflow_provider.errors import TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin

__all__ = ["last_commits", "read_commits"]

log = logging.getLogger(__name__)

_NEAR: Final = 64
"""How many offsets before its end a task's last commit is looked for at first."""
_FURTHER: Final = 64
"""How many times as many the next time: what was aborted may lie behind it."""


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
    found: dict[TaskId, list[Commit]] = {task: [] for task in positions}
    if not positions:
        return found
    topic, tasks = changelog_topic(application_id, store), {task.partition: task for task in positions}
    try:
        ends = TopicAdmin(connection).latest_offsets(topic, tasks, committed=True)
    except TopicMissingError:
        return found
    spans = {number: (positions[task], ends[number]) for number, task in tasks.items()}
    with SpanReader(connection, application_id, topic, timeout_s=timeout_s) as reader:
        for number, commit in _commits_in(reader.read(spans)):
            found[tasks[number]].append(commit)
    return found


def last_commits(
    connection: KafkaConnection, application_id: str, store: str, ends: Mapping[TaskId, int], timeout_s: float = 120.0
) -> dict[TaskId, Commit | None]:
    """The last commit of each task before an offset of its changelog; None where it had none.

    Args:
        connection: the cluster.
        application_id: the application.
        store: whose changelog it is.
        ends: by task, the offset before which it lies; at none of them a transaction is open.
        timeout_s: how long it may take in all.

    Raises:
        BrokerUnreachableError: an end was not reached in time.
        StatefulStreamsError: there is no such changelog, or it may not be read.
    """
    topic, tasks = changelog_topic(application_id, store), {task.partition: task for task in ends}
    found: dict[TaskId, Commit | None] = dict.fromkeys(ends)
    left, back = [task for task, end in ends.items() if end > 0], _NEAR
    with SpanReader(connection, application_id, topic, timeout_s=timeout_s) as reader:
        while left:
            spans = {task.partition: (max(0, ends[task] - back), ends[task]) for task in left}
            for number, commit in _commits_in(reader.read(spans)):
                found[tasks[number]] = commit
            left, back = [task for task in left if found[task] is None and ends[task] > back], back * _FURTHER
    return found


def _commits_in(records: Iterable[Message]) -> Iterator[tuple[int, Commit]]:
    """The commits among a changelog's records, each with its partition."""
    for record in records:
        if record.key() != COMMIT_KEY:
            continue
        try:
            commit = msgspec.json.decode(record.value() or b"", type=Commit)
        except msgspec.DecodeError as why:
            log.warning("A commit record of %s cannot be read and is left out: %s", record.topic(), why)
        else:
            yield int(record.partition() or 0), commit
