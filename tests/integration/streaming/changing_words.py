"""An application of several stages, of which one instance runs now this version, now another."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from airflow_provider.control.command import CommandKind
from airflow_provider.control.liveness import Timeouts
from airflow_provider.control.publication import publish_by
from airflow_provider.control.status import InstanceState
from airflow_provider.control.task_placement import TaskPlacement, place_tasks
from airflow_provider.control.tasks import tasks_of
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.changing_words_job import PARTITIONS
from tests.integration.streaming.committed import commits, ends_of, newest_by_key, records_of

JOB = Path(__file__).parent / "changing_words_job.py"
LINES = 2
"""Partitions of the source."""
WORDS = ["a", "the", "then", "to", "tomorrow", *(f"{letter}{number}" for letter in "xyz" for number in range(20))]


class ChangingWords(Accounts):
    """The application, with lines for orders."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.admin = TopicAdmin(self.connection)
        self.admin.ensure([TopicSpec(name=f"{application_id}-lines", partitions=LINES)])
        self.truth: Counter[str] = Counter()
        self.lines = 0
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
        self.lines += number
        return written

    def start(self, version: str) -> None:
        """Have a version run, whose topics are there."""
        self.launch_version(version)
        self.wait(lambda: self.runs("i1"), f"the version {version} to run", 240)
        wanted = TaskPlacement(instances=["i1"], num_standby_replicas=0, reason="the test says so")
        publish_by(
            self.connection,
            self.id,
            lambda publisher: place_tasks(publisher, wanted, lambda: tasks_of({0: LINES, 1: PARTITIONS}), Timeouts()),
        )

    def launch_version(self, version: str) -> None:
        self.job = (str(JOB), self.id, version)
        self.launch("i1", "local[1]")

    def stop(self) -> None:
        self.command(CommandKind.STOP, "i1")
        self.wait_for_state("i1", InstanceState.STOPPED, 120)

    def values(self, sink: str, since: dict[int, int] | None = None) -> dict[str, Any]:
        """The sink's last value of each key, by what was written since it ended there; None for all of it."""
        records = records_of(self.connection.bootstrap_servers, f"{self.id}-{sink}", settled=False)
        found = [record for record in records if record.offset >= (since or {}).get(record.partition, 0)]
        return {key.decode(): json.loads(value) for key, value in newest_by_key(found).items()}

    def counted(self, since: dict[int, int] | None = None) -> bool:
        """Whether each word's last count is right."""
        found = self.values("word-counts", since)
        return {word: value["count"] for word, value in found.items()} == self.truth

    def counted_by_letter(self, since: dict[int, int] | None = None) -> bool:
        """Whether each letter's last count is right."""
        truth = Counter[str]()
        for word, number in self.truth.items():
            truth[word[0]] += number
        found = self.values("letter-counts", since)
        return {letter: value["count"] for letter, value in found.items()} == truth

    def ends(self) -> dict[str, dict[int, int]]:
        """By topic of the application, where its partitions end; but for the control topics."""
        control = tuple(f"-{name}" for name in ("assignment", "status", "history", "metrics"))
        names = (name for name in self.admin.names() if name.startswith(f"{self.id}-") and not name.endswith(control))
        return {name: ends_of(self.connection.bootstrap_servers, name) for name in sorted(names)}

    def lines_of(self, stage: int) -> int:
        """How many lines the commits of a stage that reads them count."""
        committed = records_of(self.connection.bootstrap_servers, f"{self.id}-{stage}-commits")
        return sum(commits(committed, number)[-1]["processed"] for number in range(LINES))
