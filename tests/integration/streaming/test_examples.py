"""The examples of the docs as they stand, each on a real instance whose worker is killed under load.

They share the broker, and nothing else: each reads and writes topics of its own.
"""

from __future__ import annotations

import json
import random
import runpy
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import tasks_of
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.streaming import StatefulJob
from tests.docs.commands import ROOT
from tests.integration.examples import PARTITIONS, Example, Outcome, Sent, examples
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import commits, records_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

_MANY = 5_000


class RunningExample(Accounts):
    """An example's application, and all that was sent to it."""

    def __init__(self, bootstrap_servers: str, folder: Path, example: Example, seed: int) -> None:
        file = ROOT / "docs" / "examples" / f"{example.file}.py"
        job = runpy.run_path(str(file))["job"]
        assert isinstance(job, StatefulJob)
        super().__init__(bootstrap_servers, job.application_id, folder, num_tasks=1, seed=1)
        self.job, self.example = (str(file),), example
        self.chance, self.sent = random.Random(seed), list[Sent]()
        admin = TopicAdmin(self.connection)
        sources = job.description().names(TopicKind.SOURCE)
        admin.ensure([TopicSpec(name=name, partitions=PARTITIONS) for name in sources])
        self.described, _ = create_described_topics(admin, job.description())
        write_control(self.connection, self.id, self.described)
        (self.sink,) = self.described.names(TopicKind.SINK)
        self._sender = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})

    def send(self, records: list[Sent]) -> None:
        for record in records:
            self._sender.produce(record.topic, record.json, record.key, partition=record.partition)
        assert self._sender.flush(60) == 0
        self.sent += records

    def give_all(self, name: str) -> None:
        self.give(dict.fromkeys(tasks_of(self.described.num_partitions), name))

    def flowing(self) -> AbstractContextManager[None]:
        """Records are sent all the while, but no more than can be looked through again and again."""
        return again_and_again(
            lambda: self.send(self.example.some(self.chance, 40)),
            lambda: 0.2 if len(self.sent) < _MANY else 2.0,
        )

    @property
    def wanted(self) -> Outcome:
        return self.example.outcome(self.sent)

    def rows(self) -> Counter[tuple[Any, ...]]:
        """Of the sink, as it is now."""
        records = records_of(self.connection.bootstrap_servers, self.sink, settled=False)
        return self.example.rows((r.key.decode(), json.loads(r.value)) for r in records if r.value is not None)

    def committed(self, *kinds: TopicKind) -> list[dict[str, Any]]:
        """The last commit record of each task that keeps its own in a topic of these kinds."""
        topics = self.described.names(*kinds)
        records = [records_of(self.connection.bootstrap_servers, topic, settled=False) for topic in topics]
        return [of[-1] for each in records for number in range(PARTITIONS) if (of := commits(each, number))]

    def processed(self) -> int:
        """How many of the records that were sent."""
        sources = set(self.described.names(TopicKind.SOURCE))
        found = self.committed(TopicKind.CHANGELOG, TopicKind.COMMITS)
        return sum(record["processed"] for record in found if sources & record["sources"].keys())

    def joined(self) -> int:
        """How many records the stages with a store have processed."""
        return sum(record["processed"] for record in self.committed(TopicKind.CHANGELOG))

    def late(self) -> int:
        return sum(record["late"] for record in self.committed(TopicKind.CHANGELOG))

    def filtered(self) -> Counter[str]:
        found = Counter[str]()
        for record in self.committed(TopicKind.CHANGELOG, TopicKind.COMMITS):
            found.update(record["filtered"])
        return +found


@pytest.fixture(params=list(examples()))
def running(request: pytest.FixtureRequest, bootstrap_servers: str, tmp_path: Path) -> Iterator[RunningExample]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    running = RunningExample(bootstrap_servers, tmp_path, examples()[request.param], seed)
    yield running
    running.close()


def test_example_is_exact_though_its_worker_is_killed_under_load(running: RunningExample) -> None:
    example = running.example
    running.launch("i1")
    running.wait_for_state("i1", InstanceState.RUNNING, 300)
    running.give_all("i1")
    running.wait(running.settled, "every task to run", 300)
    running.send(example.first(running.chance))
    first = len(running.sent)
    running.wait(lambda: running.joined() >= first, "what comes first to be known", 300)

    with running.flowing():
        running.wait(lambda: running.processed() > first, "the first records to be processed", 300)
        running.worker_of("i1", 0).send_signal(signal.SIGKILL)
        seen = running.processed()
        running.wait(lambda: running.processed() > seen + 200, "records to be processed after that", 300)

    # What ends time is to come behind all of it, in whatever order the partitions of the sources are read.
    running.wait(lambda: running.processed() == len(running.sent), "all of them to be processed", 300)
    running.send(example.end())
    rows = running.wanted.rows
    running.wait(lambda: running.rows() == rows, "all to come out", 300)
    running.send(example.too_late())
    wanted = running.wanted
    running.wait(lambda: running.processed() == len(running.sent), "the last records to be processed", 300)
    running.wait(lambda: running.late() == wanted.late, "what is late to be counted", 120)
    assert running.rows() == wanted.rows
    assert running.filtered() == wanted.filtered
    assert wanted.rows.total() > 20
