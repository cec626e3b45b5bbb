"""How far tasks of any instance have committed: followed where they commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from airflow_provider.changelog.commit_record import COMMIT_KEY
from airflow_provider.common.in_thread import Background
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.topics.commits import CommitTopics, Source, last_of_tasks
from airflow_provider.control.topics.cursor import consumer_config
from airflow_provider.error_text import LastReported
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.streaming.planner.compiled_job import CompiledStage

log = logging.getLogger(__name__)

_AGAIN_S: Final = 5.0
_POLL_S: Final = 0.5
_BATCH: Final = 1000


class CommitPositions(Background):
    """Follows the commits of some stages' tasks, in a thread of its own. The commit record is the truth about sources.

    Args:
        stages: whose tasks' commits are followed; no thread and no client where there are none.
    """

    def __init__(self, connection: KafkaConnection, application_id: str, stages: Sequence[CompiledStage]) -> None:
        super().__init__("commit-positions")
        self._connection, self._application_id, self._stages = connection, application_id, stages
        self._topics = CommitTopics({stage.number: stage.spec.store.changelog for stage in stages})
        self._sources = {stage.number: stage.source.topic for stage in stages}
        self._offsets: dict[TaskId, int] = {}
        self._reported = LastReported()

    def start(self) -> None:
        if self._stages:
            super().start()

    def offset(self, task: TaskId) -> int | None:
        """The offset of the next record of its source by its newest commit; None before any, or before it was read."""
        return self._offsets.get(task)

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self._follow()
            except Exception as error:
                # Who waits for a position goes on waiting, and says so.
                if self._reported.is_news(error):
                    log.warning("how far other stages have committed is not known for now: %s", error)
                self.stopped.wait(_AGAIN_S)

    def _follow(self) -> None:
        """Find the newest commits, and read on from there."""
        admin, tasks = TopicAdmin(self._connection), [task for stage in self._stages for task in stage.tasks]
        by_topic = self._topics.tasks_by_topic(tasks)
        ends: dict[TaskId, int] = {}
        for topic, of_topic in by_topic.items():
            found = admin.latest_offsets(topic, of_topic, committed=True)
            ends |= {task: found[number] for number, task in of_topic.items()}
        last = last_of_tasks(
            self._connection, self._application_id, self._topics, ends, lambda record: record.value() or None
        )
        for task, commit in last.items():
            self._note(task, commit)
        own = {
            "group.id": f"{self._application_id}-input",
            "client.id": f"{self._application_id}-commits",
            "fetch.wait.max.ms": 500,
            "queued.max.messages.kbytes": 1024,
        }
        consumer = Consumer(consumer_config(self._connection, self._application_id) | own)
        try:
            consumer.assign(
                [
                    TopicPartition(topic, number, ends[task])
                    for topic, of_topic in by_topic.items()
                    for number, task in of_topic.items()
                ]
            )
            while not self.stopped.is_set():
                for message in consumer.consume(_BATCH, _POLL_S):
                    self._read(message, by_topic)
        finally:
            consumer.close()

    def _read(self, message: Message, by_topic: Mapping[str, Mapping[int, TaskId]]) -> None:
        # An error passes, and so does an end: brokers come back, and who waits says that it does.
        if message.error() is None and message.key() == COMMIT_KEY:
            self._reported.over()
            self._note(by_topic[str(message.topic())][int(message.partition() or 0)], message.value())

    def _note(self, task: TaskId, commit: bytes | None) -> None:
        if commit is None:
            return
        sources = msgspec.json.decode(commit, type=_Sources).sources
        if (at := sources.get(self._sources[task.stage])) is not None:
            self._offsets[task] = at.offset


class _Sources(msgspec.Struct):
    sources: dict[str, Source]
