"""The examples of the docs as they stand, side by side on a real instance whose workers are killed under load.

They share the broker and the instance, and nothing else: each reads and writes topics of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import tasks_of
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.job_description import JobDescription, TopicKind
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.examples import PARTITIONS, Example, Outcome, Sent, examples
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import last_commits, records_of
from tests.integration.streaming.examples_job import example_of, job_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

JOB = Path(__file__).parent / "examples_job.py"
DEADLINE_S = 400.0
_MANY = 2_000
"""Records of an example, from which on they come more slowly: all are looked through again and again."""


class RunningExample:
    """One of the examples, and all that was sent to it.

    Args:
        servers: the brokers'.
        example: which.
        description: of its own job.
    """

    def __init__(self, servers: str, example: Example, description: JobDescription) -> None:
        self.example, self.sent = example, list[Sent]()
        self.sources = set(description.names(TopicKind.SOURCE))
        (self.sink,) = description.names(TopicKind.SINK)
        self._servers = servers
        self._sender = Producer({"bootstrap.servers": servers, "enable.idempotence": True})

    def send(self, records: list[Sent]) -> None:
        for record in records:
            self._sender.produce(record.topic, record.json, record.key, partition=record.partition)
        assert self._sender.flush(60) == 0
        self.sent += records

    @property
    def wanted(self) -> Outcome:
        return self.example.outcome(self.sent)

    def has_written(self, rows: Counter[tuple[Any, ...]]) -> bool:
        return self.rows() == rows

    def rows(self) -> Counter[tuple[Any, ...]]:
        """Of the sink, as it is now."""
        records = records_of(self._servers, self.sink, settled=False)
        return self.example.rows((r.key.decode(), json.loads(r.value)) for r in records if r.value is not None)


class RunningExamples(Accounts):
    """The application of all of them."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path, seed: int) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.job = (str(JOB), application_id)
        self.chance = random.Random(seed)
        self.each = [
            RunningExample(bootstrap_servers, example, example_of(file).description())
            for file, example in examples().items()
        ]
        self._next = itertools.cycle(self.each)
        admin, description = TopicAdmin(self.connection), job_of(application_id).description()
        sources = description.names(TopicKind.SOURCE)
        admin.ensure([TopicSpec(name=name, partitions=PARTITIONS) for name in sources])
        self.described, _ = create_described_topics(admin, description)
        write_control(self.connection, self.id, self.described)

    def give_all(self, name: str) -> None:
        self.give(dict.fromkeys(tasks_of(self.described.num_partitions), name))

    def flowing(self) -> AbstractContextManager[None]:
        """Records are sent all the while to one after the other, but no more than can be looked through."""

        def send() -> None:
            one = next(self._next)
            if len(one.sent) < _MANY or self.chance.random() < 0.1:
                one.send(one.example.some(self.chance, 20))

        return again_and_again(send, lambda: 0.1)

    def kill_workers(self) -> int:
        """All Python workers of the instance; how many."""
        killed = 0
        for process in self.processes("i1"):
            with contextlib.suppress(psutil.NoSuchProcess):
                if any("pyspark.daemon" in word for word in process.cmdline()) and not process.children():
                    process.kill()
                    killed += 1
        return killed

    def committed(self, *kinds: TopicKind) -> list[dict[str, Any]]:
        """The last commit record of each task that keeps its own in a topic of these kinds."""
        topics = self.described.names(*kinds)
        records = [records_of(self.connection.bootstrap_servers, topic, settled=False) for topic in topics]
        return list(itertools.chain.from_iterable(map(last_commits, records)))

    def processed_by_example(self) -> list[int]:
        """Of each example, how many of the records that were sent."""
        found = self.committed(TopicKind.CHANGELOG, TopicKind.COMMITS)
        return [
            sum(record["processed"] for record in found if one.sources & record["sources"].keys()) for one in self.each
        ]

    def has_processed_all(self) -> bool:
        return self.processed_by_example() == [len(one.sent) for one in self.each]

    def have_processed_more(self, than: list[int]) -> bool:
        return all(now > before for now, before in zip(self.processed_by_example(), than, strict=True))

    def joined(self) -> int:
        """How many records the stages with a store have processed."""
        return sum(record["processed"] for record in self.committed(TopicKind.CHANGELOG))

    def late(self) -> int:
        return sum(record["late"] for record in self.committed(TopicKind.CHANGELOG, TopicKind.COMMITS))

    def filtered(self) -> Counter[str]:
        found = Counter[str]()
        for record in self.committed(TopicKind.CHANGELOG, TopicKind.COMMITS):
            found.update(record["filtered"])
        return +found


@pytest.fixture
def running(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[RunningExamples]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    running = RunningExamples(bootstrap_servers, application_id, tmp_path, seed)
    yield running
    running.close()


def test_examples_are_exact_though_their_workers_are_killed_under_load(running: RunningExamples) -> None:
    running.launch("i1")
    running.wait_for_state("i1", InstanceState.RUNNING, DEADLINE_S)
    running.give_all("i1")
    running.wait(running.settled, "every task to run", DEADLINE_S)
    for one in running.each:
        one.send(one.example.first(running.chance))
    first = [len(one.sent) for one in running.each]
    running.wait(lambda: running.joined() >= sum(first), "what comes first to be known", DEADLINE_S)

    with running.flowing():
        running.wait(lambda: running.have_processed_more(first), "the first records to be processed", DEADLINE_S)
        assert running.kill_workers() > 0
        seen = [number + 100 for number in running.processed_by_example()]
        running.wait(lambda: running.have_processed_more(seen), "records to be processed after that", DEADLINE_S)

    # What ends time is to come behind all of it, in whatever order the partitions of the sources are read.
    running.wait(running.has_processed_all, "all of them to be processed", DEADLINE_S)
    for one in running.each:
        one.send(one.example.end())
        rows = one.wanted.rows
        running.wait(partial(one.has_written, rows), f"all of {one.sink} to come out", DEADLINE_S)
    for one in running.each:
        one.send(one.example.too_late())
    wanted = [one.wanted for one in running.each]
    running.wait(running.has_processed_all, "the last records to be processed", DEADLINE_S)
    late = sum(outcome.late for outcome in wanted)
    running.wait(lambda: running.late() == late, "what is late to be counted", DEADLINE_S)
    assert [one.rows() for one in running.each] == [outcome.rows for outcome in wanted]
    assert running.filtered() == sum((Counter(outcome.filtered) for outcome in wanted), Counter[str]())
    assert all(outcome.rows.total() > 20 for outcome in wanted)
