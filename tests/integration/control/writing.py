"""Two tasks that commit what they write into a sink, and whatever else writes there; the writer is the product's."""

from __future__ import annotations

import dataclasses

from confluent_kafka import Consumer, Producer

from airflow_provider.changelog.commit_record import CommitRecord, SourcePosition
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.drills.outputs import count_outputs, take_cut
from airflow_provider.control.records.drill_fault import OutputCut
from airflow_provider.control.records.history import OutputCheck
from airflow_provider.control.topics.commits import CommitTopics
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec
from tests.builders import commit_of

__all__ = ["Writing"]

TASKS = (TaskId(0, 0), TaskId(0, 1))


class Writing:
    """Two tasks with a sink of three partitions, and whatever else writes there."""

    def __init__(self, bootstrap_servers: str, application_id: str) -> None:
        self.connection, self.id = KafkaConnection(bootstrap_servers), application_id
        self.sink, self.source = f"{application_id}-sink", f"{application_id}-source"
        specs = [TopicSpec(name=self.sink, partitions=3), TopicSpec(name=self.source, partitions=2)]
        TopicAdmin(self.connection).ensure([*specs, changelog_spec(application_id, "state", 2)])
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": application_id})
        self._writers: dict[TaskId, TransactionalWriter] = {}
        self._last = {task: self._record(task) for task in TASKS}

    def close(self) -> None:
        self._consumer.close()

    def _record(self, task: TaskId) -> CommitRecord:
        return commit_of(
            application_id=self.id,
            task=task,
            sequence=0,
            instance="a",
            sources={self.source: SourcePosition(0)},
            outputs={self.sink: 0},
        )

    def commit(self, number: int, outputs: int, written: int | None = None, counted: bool = True) -> None:
        """A commit that stands for some outputs, and writes as many or another number of them."""
        task = TASKS[number]
        if task not in self._writers:
            self._writers[task] = TransactionalWriter(self.connection, f"{self.id}-{task}", self.sink)
            self._writers[task].fence()
        last = self._last[task]
        total = (last.outputs or {}).get(self.sink, 0) + outputs
        source = SourcePosition(last.sources[self.source].offset + 1)
        record = self._last[task] = dataclasses.replace(
            last,
            sequence=last.sequence + 1,
            sources={self.source: source},
            outputs={self.sink: total} if counted else None,
        )
        rows = [(f"{task}-{n}".encode(), b"{}") for n in range(outputs if written is None else written)]
        self._writers[task].commit({f"{self.id}-state-changelog": rows}, {self.sink: rows}, record, self._consumer)

    def open_transaction(self, transactional_id: str) -> Producer:
        """Of another program or of an owner that died in the middle: outputs that no reader sees."""
        servers = self.connection.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
        producer.init_transactions(30)
        producer.begin_transaction()
        for n in range(6):
            producer.produce(self.sink, b"{}", f"open-{n}")
        producer.flush(30)
        return producer

    def cut(self, timeout_s: float = 20.0) -> OutputCut:
        return take_cut(self.connection, self.id, self.topics, TASKS, timeout_s)

    def count(self, before: OutputCut | None) -> OutputCheck:
        return count_outputs(self.connection, self.id, self.topics, before)

    @property
    def topics(self) -> CommitTopics:
        return CommitTopics({0: changelog_topic(self.id, "state")})
