"""A task that is held while others go on by days holds time back, and loses no row: on two real instances."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import last_commits, records_of, values_by_key
from tests.integration.streaming.rides_job import PARTITIONS, job_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

JOB = Path(__file__).parent / "rides_job.py"
TASKS = tasks_of(dict.fromkeys(range(4), PARTITIONS))
HELD = TaskId(0, 1)
HOUR_MS = 3_600_000
DEADLINE_S = 240.0


class Rides(Accounts):
    """The application, with rides for orders."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.job = (str(JOB), application_id)
        self.rides, self.sink = f"{application_id}-rides", f"{application_id}-daily"
        admin = TopicAdmin(self.connection)
        admin.ensure([TopicSpec(name=self.rides, partitions=PARTITIONS)])
        described, _ = create_described_topics(admin, job_of(application_id).description())
        write_control(self.connection, application_id, described)
        self._sender = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})

    def write(self, partition: int, city: str, at_ms: int) -> None:
        self._sender.produce(self.rides, json.dumps({"city": city, "at": at_ms}), partition=partition)

    def flush(self) -> None:
        assert self._sender.flush(30) == 0

    def processed_by(self, topic: str) -> int:
        """How many records the tasks of a stage have committed, by the topic with its commits."""
        records = records_of(self.connection.bootstrap_servers, topic, settled=False)
        return sum(record["processed"] for record in last_commits(records))

    def days(self) -> dict[str, list[int]]:
        """By city and day, what came out."""
        return values_by_key(records_of(self.connection.bootstrap_servers, self.sink, settled=False), "rides")


@pytest.fixture
def rides(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Rides]:
    rides = Rides(bootstrap_servers, application_id, tmp_path)
    yield rides
    rides.close()


def test_rows_of_a_task_that_was_held_for_days_of_event_time_count(rides: Rides) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance, expected = random.Random(seed), Counter[str]()
    for partition in range(PARTITIONS):
        for hour in range(72):
            for _ in range(4):
                city, at_ms = chance.choice("ab"), hour * HOUR_MS + chance.randrange(HOUR_MS // 12)
                rides.write(partition, city, at_ms)
                expected[f"{city}@1970-01-0{1 + hour // 24}T00:00:00.000Z"] += 1
    rides.flush()
    rides.launch("i1")
    rides.launch("i2")
    for name in ("i1", "i2"):
        rides.wait_for_state(name, InstanceState.RUNNING, DEADLINE_S)
    by_turns = {task: ("i1", "i2")[number % 2] for number, task in enumerate(TASKS)}
    rides.give(by_turns | {HELD: None})
    # One of the source's partitions gets on by three days.
    hourly = f"{rides.id}-hourly-changelog"
    rides.wait(lambda: rides.processed_by(hourly) == 288, "the rows of one partition to be counted", DEADLINE_S)
    assert rides.days() == {}

    rides.signal("i2", signal.SIGKILL)
    rides.give(dict.fromkeys(TASKS, "i1"))
    rides.wait(lambda: rides.processed_by(hourly) == 576, "the rows of the other to be counted", DEADLINE_S)
    for partition in range(PARTITIONS):
        for day in (8, 20):
            rides.write(partition, "a", day * 24 * HOUR_MS)
    rides.flush()
    rides.wait(lambda: expected.keys() <= rides.days().keys(), "the days to be over", DEADLINE_S)

    days = rides.days()
    assert {key: days[key] for key in expected} == {key: [number] for key, number in expected.items()}
    for topic in (f"{rides.id}-0-commits", hourly, f"{rides.id}-2-commits", f"{rides.id}-daily-changelog"):
        records = records_of(rides.connection.bootstrap_servers, topic)
        assert [record["late"] for record in last_commits(records)] == [0, 0], topic
