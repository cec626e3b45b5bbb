"""Word count that changes, with what its words come to."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.changing_application import ChangingApplication
from tests.integration.streaming.changing_words_job import PARTITIONS
from tests.integration.streaming.committed import last_commits, records_of

JOB = Path(__file__).parent / "changing_words_job.py"
LINES = 2
"""Partitions of the source."""
WORDS = ["a", "the", "then", "to", "tomorrow", *(f"{letter}{number}" for letter in "xyz" for number in range(20))]


class ChangingWords(ChangingApplication):
    """The application, with lines for orders."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, JOB, {0: LINES, 1: PARTITIONS})
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

    def lines_of(self, stage: int) -> int:
        """How many lines the commits of a stage that reads them count."""
        committed = records_of(self.connection.bootstrap_servers, f"{self.id}-{stage}-commits")
        return sum(record["processed"] for record in last_commits(committed))
