"""How far other stages have committed, as it is read of a real broker's commits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from airflow_provider.changelog.commit_record import COMMIT_KEY, SourcePosition
from airflow_provider.common.task_id import TaskId
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.streaming import StatefulJob, stream, table
from airflow_provider.streaming.driver.watches.commit_positions import CommitPositions
from tests.builders import commit_of
from tests.unit.streaming.driver.fakes import compiled
from tests.waiting import wait_until

FIRST, OTHER = TaskId(1, 0), TaskId(1, 3)


class Commits:
    """Those of the stage that reads a table of four partitions."""

    def __init__(self, bootstrap_servers: str, application_id: str) -> None:
        orders = stream("orders", schema="id STRING, customer STRING")
        customers = table("customers", schema="customer STRING, country STRING", key="customer")
        job = compiled(StatefulJob(application_id, orders.join(customers, on="customer").sink("out")))
        stage, self.topic = job.stage(1), job.stage(1).spec.store.changelog
        connection = KafkaConnection(bootstrap_servers)
        TopicAdmin(connection).ensure([TopicSpec(name=self.topic, partitions=4)])
        self.positions = CommitPositions(connection, application_id, [stage])
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": application_id, "linger.ms": 0}
        )
        self._producer.init_transactions(30)

    def write(self, task: TaskId, offset: int, others: int = 0, *, commit: bool = True) -> None:
        """A transaction with a commit at an offset of the source, behind others records."""
        self._producer.begin_transaction()
        for number in range(others):
            self._producer.produce(self.topic, b"change", f"key-{number}", partition=task.partition)
        record = commit_of(task, sources={"customers": SourcePosition(offset)})
        self._producer.produce(self.topic, record.to_bytes(), COMMIT_KEY, partition=task.partition)
        self._producer.flush(30)
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(30)

    def wait_for(self, task: TaskId, offset: int) -> None:
        wait_until(lambda: self.positions.offset(task) == offset, 30, f"{task} to be at {offset}")


@pytest.fixture
def commits(bootstrap_servers: str, application_id: str) -> Iterator[Commits]:
    commits = Commits(bootstrap_servers, application_id)
    yield commits
    commits.positions.stop()


def test_newest_commit_counts_and_those_that_follow_are_seen(commits: Commits) -> None:
    commits.write(FIRST, 5)
    # Deeper than where it is looked for at first.
    commits.write(FIRST, 7)
    commits.write(FIRST, 9, others=500, commit=False)
    commits.positions.start()

    commits.wait_for(FIRST, 7)
    assert commits.positions.offset(OTHER) is None
    commits.write(FIRST, 8, others=3)
    commits.write(OTHER, 2)
    commits.wait_for(FIRST, 8)
    commits.wait_for(OTHER, 2)


def test_transaction_that_was_aborted_moves_nothing(commits: Commits) -> None:
    commits.positions.start()
    commits.write(FIRST, 5)
    commits.wait_for(FIRST, 5)

    commits.write(FIRST, 9, commit=False)
    commits.write(OTHER, 1)
    commits.wait_for(OTHER, 1)
    commits.write(FIRST, 6)
    commits.wait_for(FIRST, 6)
