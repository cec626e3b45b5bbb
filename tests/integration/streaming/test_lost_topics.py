"""The sink, then the topic between two stages, is deleted under load: the named commands lose no more than is named."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from airflow_provider.cli.main import main
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import repartition_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.launch.sole_instance import InstanceProcesses
from tests.integration.streaming.accounts import environment
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import commits, newest_by_key, records_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = """
from airflow_provider.streaming import StatefulJob, run, stream
from airflow_provider.streaming import functions as F

words = stream("{id}-lines", schema="line STRING").select("explode(split(line, ' ')) AS word")
counts = words.group_by("word", partitions=2).aggregate(F.count().alias("count"), name="{name}")
job = StatefulJob("{id}", counts.sink("{id}-counted"))

if __name__ == "__main__":
    run(job)
"""
VOCABULARY = [f"w{number}" for number in range(40)]
START_S = 600.0


class Words:
    """Lines that are written all the while, by offset, and what the commands make of them."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        self.id, self.folder = application_id, folder
        self.connection = KafkaConnection(bootstrap_servers)
        self.at = ("--bootstrap-servers", bootstrap_servers)
        self.job = folder / "job.py"
        self.source, self.sink = f"{application_id}-lines", f"{application_id}-counted"
        self.lines: dict[int, list[str]] = {}
        self._chance = random.Random(11)
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        TopicAdmin(self.connection).ensure([TopicSpec(name=self.source, partitions=1)])
        self.name("counts")

    def name(self, name: str) -> None:
        """Give the aggregate a name in the job file, and create what it lacks."""
        self.job.write_text(JOB.format(id=self.id, name=name))
        assert main(["topics", "repair", str(self.job), "--apply", *self.at]) == 0

    def start(self) -> None:
        env = [word for name, value in environment().items() for word in ("--env", f"{name}={value}")]
        folders = ["--state-dir", str(self.folder / "state"), "--run-dir", str(self.folder / "run")]
        options = ["--instance", "a", "--master", "local[1]", "--start-timeout", str(START_S), "--detach"]
        conf = ["--conf", "spark.driver.memory=512m"]
        assert main(["run", str(self.job), *self.at, *options, *folders, *conf, *env]) == 0
        assert main(["assign", self.id, "--standbys", "0", *self.at]) == 0

    def write(self, words: list[str] | None = None) -> None:
        words = words or self._chance.choices(VOCABULARY, k=5)

        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None
            self.lines[message.offset() or 0] = words

        self._producer.produce(self.source, json.dumps({"line": " ".join(words)}), on_delivery=note)
        assert self._producer.flush(60) == 0

    def truth(self, since: int = 0) -> Counter[str]:
        """How often each word came, from an offset of the source on."""
        return Counter(word for offset, words in self.lines.items() if offset >= since for word in words)

    def counted(self) -> dict[str, int]:
        """The sink's last value of each word."""
        records = records_of(self.connection.bootstrap_servers, self.sink, settled=False)
        return {key.decode(): json.loads(value)["count"] for key, value in newest_by_key(records).items()}

    def read_up_to(self) -> int:
        """By the last commit of the first stage, the offset of the next line."""
        committed = commits(records_of(self.connection.bootstrap_servers, f"{self.id}-0-commits"), 0)
        return int(committed[-1]["sources"][self.source]["offset"])

    def delete(self, topic: str) -> InstanceStatus:
        """Under load; how the instance ends."""
        ends_later = sum(self.counted().values()) + 200
        wait_until(lambda: sum(self.counted().values()) > ends_later, START_S, "words to be counted under load")
        admin = AdminClient({"bootstrap.servers": self.connection.bootstrap_servers})  # its futures end with it
        admin.delete_topics([topic])[topic].result(60)
        wait_until(lambda: self.status().state is InstanceState.ENDED, START_S, "the instance to end")
        return self.status()

    def status(self) -> InstanceStatus:
        with ControlReader(self.connection, self.id) as reader:
            return reader.read_to_end().statuses["a"]

    def check(self, since: int = 0) -> None:
        """Every word comes once more; then the sink has what all lines since an offset come to, and nothing else."""
        self.write(VOCABULARY)
        wait_until(lambda: self.counted() == dict(self.truth(since)), START_S, "the counts to be those of the lines")

    def close(self) -> None:
        InstanceProcesses(self.folder / "run", self.id, "a").kill()


@pytest.fixture
def words(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Words]:
    words = Words(bootstrap_servers, application_id, tmp_path)
    yield words
    words.close()


def said(words: Words, capsys: pytest.CaptureFixture[str]) -> str:
    """By ``status``."""
    capsys.readouterr()
    assert main(["status", words.id, *words.at]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_commands_that_are_named_bring_a_lost_sink_and_a_lost_internal_topic_back(
    words: Words, capsys: pytest.CaptureFixture[str]
) -> None:
    words.start()

    # The sink: state and positions are where they were; what it held is not written again.
    with again_and_again(words.write, lambda: 0.05):
        ended = words.delete(words.sink)
        assert ended.error_kind == "TopicMissingError"
        assert words.sink in said(words, capsys)
        assert main(["topics", "repair", str(words.job), "--apply", *words.at]) == 0
        words.start()
        wait_until(lambda: bool(words.counted()), START_S, "the new sink to be written")
    words.check()

    # Between the stages: what the one behind has read is gone with its name, and what it had not read, for good.
    with again_and_again(words.write, lambda: 0.05):
        ended = words.delete(repartition_topic(words.id, "counts"))
        assert ended.error_kind == "TopicMissingError"
        assert "topics repair JOB.py --apply" in said(words, capsys)
        assert main(["topics", "repair", str(words.job), "--apply", *words.at]) == 3, "it is not to be created"
        goes_on_at = words.read_up_to()
        words.name("counts-2")
        words.start()
        wait_until(lambda: words.read_up_to() > goes_on_at, START_S, "the first stage to go on")
    assert 0 < goes_on_at < len(words.lines)
    words.check(since=goes_on_at)
