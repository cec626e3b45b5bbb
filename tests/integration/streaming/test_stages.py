"""Two counts of two stages each on two real instances with two slots each: killed under load, each word counts once."""

from __future__ import annotations

import json
import operator
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.application.job_topics import application_tasks
from airflow_provider.control.drills.outputs import count_outputs, take_cut
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.commits import CommitTopics
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.names import repartition_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import last_commits, newest_by_key, records_of
from tests.integration.streaming.words_job import COUNTS, PARTITIONS, job_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

JOB = Path(__file__).parent / "words_job.py"
LINES = 2
"""Partitions of the source."""
STAGES = (LINES, PARTITIONS) * len(COUNTS)
"""Tasks of each: the words of the lines, and how often each was there."""
TASKS = tuple(TaskId(stage, number) for stage, tasks in enumerate(STAGES) for number in range(tasks))
VOCABULARY = ["a", "the", "to", *(f"w{number}" for number in range(200))]


class Words(Accounts):
    """The application, with lines for orders."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.job = (str(JOB), application_id)
        self.lines, self.sinks = f"{application_id}-lines", [f"{application_id}-{name}-counts" for name in COUNTS]
        admin = TopicAdmin(self.connection)
        admin.ensure([TopicSpec(name=self.lines, partitions=LINES)])
        described, _ = create_described_topics(admin, job_of(application_id).description())
        write_control(self.connection, application_id, described)
        self.truth: Counter[str] = Counter()
        self.empty, self.written = 0, 0
        self._words = random.Random(7)
        self._sender = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})

    def write_lines(self, number: int) -> None:
        for _ in range(number):
            words = self._words.choices(VOCABULARY, [60, 30, 15, *[1] * 200], k=self._words.randrange(8))
            self._sender.produce(self.lines, json.dumps({"line": " ".join(words)}))
            self.truth.update(words)
            self.empty += not words
        self.written += number
        assert self._sender.flush(30) == 0

    def counts(self, sink: str) -> dict[str, int]:
        """The sink's last value of each word."""
        records = records_of(self.connection.bootstrap_servers, sink, settled=False)
        return {key.decode(): json.loads(value)["count"] for key, value in newest_by_key(records).items() if value}

    def counted(self) -> list[int]:
        """How many words, by each count."""
        return [sum(self.counts(sink).values()) for sink in self.sinks]

    def wait_for_more(self, than: list[int], what: str, deadline_s: float) -> None:
        """Every count has counted more words."""
        self.wait(lambda: all(map(operator.gt, self.counted(), than)), what, deadline_s)

    def finished(self) -> bool:
        return all(self.counts(sink) == dict(self.truth) for sink in self.sinks)


@pytest.fixture
def words(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Words]:
    words = Words(bootstrap_servers, application_id, tmp_path)
    yield words
    words.close()


def lines_flowing(words: Words) -> AbstractContextManager[None]:
    """Lines are written all the while."""
    return again_and_again(lambda: words.write_lines(40), lambda: 0.1)


def test_words_count_once_though_worker_and_instance_are_killed_under_load(words: Words) -> None:
    words.launch("i1")
    words.launch("i2")
    for name in ("i1", "i2"):
        words.wait_for_state(name, InstanceState.RUNNING, 240)
    by_turns = {task: ("i1", "i2")[number % 2] for number, task in enumerate(TASKS)}
    other = {task: {"i1": "i2", "i2": "i1"}[name] for task, name in by_turns.items()}
    words.give(by_turns, other)
    words.wait(words.settled, "every task to run and every standby to be warm", 240)

    with lines_flowing(words):
        words.wait_for_more([0] * len(COUNTS), "the first words to be counted", 120)
        worker = words.worker_of("i1", 0)
        worker.send_signal(signal.SIGKILL)
        seen = words.counted()
        words.wait_for_more([number + 500 for number in seen], "words to be counted after that", 240)
        words.signal("i2", signal.SIGKILL)
        words.give(dict.fromkeys(TASKS, "i1"))
        seen = words.counted()
        words.wait_for_more([number + 500 for number in seen], "the one that is left to count", 240)

    words.wait(words.finished, "all words to be counted", 240)
    assert application_tasks(words.connection, words.id, "state") == TASKS
    with ControlReader(words.connection, words.id) as reader:
        topics = CommitTopics.of(reader.read_to_end(), "state")
    before = take_cut(words.connection, words.id, topics, TASKS)
    words.write_lines(300)
    words.wait(words.finished, "the last words to be counted", 120)
    outputs = count_outputs(words.connection, words.id, topics, before).counts
    assert {one.topic: (one.missing, one.doubled) for one in outputs} == dict.fromkeys(words.sinks, (0, 0))
    assert all(one.found > 0 for one in outputs)
    for stage in range(0, len(STAGES), 2):
        committed = records_of(words.connection.bootstrap_servers, f"{words.id}-{stage}-commits")
        last = last_commits(committed)
        assert sum(record["processed"] for record in last) == words.written
        assert sum(record["filtered"].get("empty", 0) for record in last) == words.empty

    # What is processed of a repartition topic goes, but for the last records.
    def purged(topic: str) -> bool:
        earliest = TopicAdmin(words.connection).earliest_offsets(topic, range(PARTITIONS))
        ends = TopicAdmin(words.connection).latest_offsets(topic, range(PARTITIONS))
        return all(0 < ends[number] - earliest[number] <= 2 for number in range(PARTITIONS))

    for name in COUNTS:
        words.wait(partial(purged, repartition_topic(words.id, name)), "what was processed to be deleted", 180)
    # Its own source's end, for each task.
    words.wait(
        lambda: all(task.source.lag_records == 0 for task in words.status("i1").tasks), "every lag to be known as none"
    )
