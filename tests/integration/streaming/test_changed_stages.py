"""A running application of two stages gets two more, loses them again, and is reset: on a real Spark and broker."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.control.application_reset import plan_reset
from airflow_provider.control.command import CommandKind
from airflow_provider.control.job_topics import create_job_topics, with_what_is_gone
from airflow_provider.control.liveness import Timeouts
from airflow_provider.control.publication import publish_by
from airflow_provider.control.status import InstanceState
from airflow_provider.control.task_placement import TaskPlacement, place_tasks
from airflow_provider.control.tasks import tasks_of
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.changing_stages_job import PARTITIONS, job_of
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.waiting import wait_until

JOB = Path(__file__).parent / "changing_stages_job.py"
LINES = 2
"""Partitions of the source."""
WORDS = ["a", "the", "then", "to", "tomorrow", *(f"{letter}{number}" for letter in "xyz" for number in range(20))]


class Words(Accounts):
    """The application, with lines for orders."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.admin = TopicAdmin(self.connection)
        self.admin.ensure([TopicSpec(name=f"{application_id}-lines", partitions=LINES)])
        self.truth: Counter[str] = Counter()
        self._chance = random.Random(11)
        self._sender = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})

    def write_lines(self, number: int) -> Counter[str]:
        """The words that were written."""
        written = Counter[str]()
        for _ in range(number):
            words = self._chance.choices(WORDS, k=self._chance.randrange(6))
            self._sender.produce(f"{self.id}-lines", json.dumps({"line": " ".join(words)}))
            written.update(words)
        assert self._sender.flush(30) == 0
        self.truth += written
        return written

    def deploy(self, version: str) -> tuple[str, ...]:
        """In the place of the version that runs, over its state; the topics that were created for it."""
        if self.runs("i1"):
            self.command(CommandKind.STOP, "i1")
            self.wait_for_state("i1", InstanceState.STOPPED, 120)
        _, created = create_job_topics(self.connection, self.admin, job_of(self.id, version).description())
        self.job = (str(JOB), self.id, version)
        self.launch("i1", "local[1]")
        self.wait(lambda: self.runs("i1"), f"the version {version} to run", 240)
        wanted = TaskPlacement(instances=["i1"], num_standby_replicas=0, reason="the test says so")
        publish_by(
            self.connection,
            self.id,
            lambda publisher: place_tasks(publisher, wanted, lambda: tasks_of({0: LINES, 1: PARTITIONS}), Timeouts()),
        )
        return created

    def values(self, sink: str) -> dict[str, Any]:
        """The sink's last value of each key."""
        records = records_of(self.connection.bootstrap_servers, f"{self.id}-{sink}", settled=False)
        return {key.decode(): json.loads(value) for key, value in newest_by_key(records).items() if value}

    def counts(self) -> dict[str, int]:
        return {word: value["count"] for word, value in self.values("word-counts").items()}

    def letters(self) -> dict[str, int]:
        return {letter: value["count"] for letter, value in self.values("letter-counts").items()}


@pytest.fixture
def words(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Words]:
    words = Words(bootstrap_servers, application_id, tmp_path)
    yield words
    words.close()


def by_letter(words: Counter[str]) -> Counter[str]:
    found = Counter[str]()
    for word, number in words.items():
        found[word[0]] += number
    return found


def test_stages_and_an_aggregate_are_added_and_what_is_taken_out_stays_until_a_reset(words: Words) -> None:
    words.deploy("first")
    words.write_lines(300)
    words.wait(lambda: words.counts() == words.truth, "the words to be counted", 240)

    # Two stages, a store and an aggregate more: what is there goes on, what is new begins.
    created = words.deploy("grown")
    added = tuple(f"{words.id}-{name}" for name in ("letters-repartition", "letters-changelog", "2-commits"))
    assert created == (*added, f"{words.id}-letter-counts")
    since = words.write_lines(300)
    words.wait(lambda: words.counts() == words.truth, "the words to be counted by the version with more stages", 240)
    words.wait(lambda: words.letters() == by_letter(words.truth), "the lines from their beginning, by letter", 240)
    longest = {word: value["longest"] for word, value in words.values("word-counts").items() if word in since}
    assert longest == {word: len(word) for word in since}

    # They are taken out again: listed, not deleted.
    words.deploy("first")
    words.write_lines(200)
    words.wait(lambda: words.counts() == words.truth, "the words to be counted by the first version again", 240)
    words.wait(lambda: {task.task.stage for task in words.status("i1").tasks} == {0, 1}, "the others' tasks to be gone")
    job = words.view.job
    assert job is not None
    assert with_what_is_gone(words.admin, job).gone == added
    assert words.admin.names() >= {*added}
    assert words.letters() != by_letter(words.truth)

    # A reset deletes them with the rest.
    words.command(CommandKind.STOP, "i1")
    words.wait_for_state("i1", InstanceState.STOPPED, 120)
    plan = plan_reset(words.view, words.admin.names(), job.stores)
    assert {*added} < {*plan.topics}
    words.admin.delete(plan.topics)
    wait_until(lambda: not words.admin.names() & {*plan.topics}, 60, "the topics to be gone")
    assert with_what_is_gone(words.admin, job).gone == ()
