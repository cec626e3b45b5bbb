from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from airflow_provider.control.topics import cursor, reader
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from tests.builders import APPLICATION
from tests.unit.control.topics.fake_message import FakeMessage


class FakeConsumer:
    """The topic's end is 2; `stalls_at` is the first offset that this consumer never gets."""

    made: list[FakeConsumer]
    stalls_at: list[int]

    def __init__(self, _: dict[str, Any]) -> None:
        self._stalls_at = self.stalls_at[len(self.made)]
        self.closed = False
        self.made.append(self)

    def assign(self, partitions: list[TopicPartition]) -> None:
        (self._partition,) = partitions
        self.begun_at = self._at = self._partition.offset

    def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, 2

    def poll(self, _: float) -> FakeMessage | None:
        if self._at >= min(self._stalls_at, 2):
            return None
        self._at += 1
        return FakeMessage(self._partition.topic, self._at - 1)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeConsumer]:
    FakeConsumer.made, FakeConsumer.stalls_at = [], [1, 9]
    monkeypatch.setattr(reader, "Consumer", FakeConsumer)
    monkeypatch.setattr(cursor, "LOOK_EVERY_S", -1.0)
    return FakeConsumer.made


def following() -> ControlReader:
    return ControlReader(KafkaConnection("127.0.0.1:1"), APPLICATION, statuses=False)


def test_consumer_that_stays_behind_the_end_is_replaced_where_it_stopped(made: list[FakeConsumer]) -> None:
    control = following()
    for _ in range(4):
        control.poll(0.0)

    assert control.view.assignment is not None
    assert control.view.assignment.generation == 2
    assert [consumer.begun_at for consumer in made] == [0, 1]
    assert [consumer.closed for consumer in made] == [True, False]


def test_consumer_at_the_end_is_kept(made: list[FakeConsumer]) -> None:
    FakeConsumer.stalls_at = [9]
    control = following()
    for _ in range(6):
        control.poll(0.0)

    assert len(made) == 1


class FakeAdmin:
    """Of a topic that is another one from the second look on; its answers are counted."""

    asked = 0

    def __init__(self, _: KafkaConnection, timeout_s: float) -> None:
        assert timeout_s == cursor.LOOK_TIMEOUT_S

    def ids(self, names: list[str]) -> dict[str, str]:
        FakeAdmin.asked += 1
        if FakeAdmin.asked == 2:
            raise BrokerUnreachableError("no answer: nothing is said of the topic")
        return dict.fromkeys(names, "first" if FakeAdmin.asked < 4 else "second")


def test_follower_reads_a_topic_from_its_beginning_that_was_created_again_beyond_where_it_stands(
    made: list[FakeConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeAdmin.asked = 0
    FakeConsumer.stalls_at = [9, 9]
    monkeypatch.setattr(reader, "TopicAdmin", FakeAdmin)
    control = ControlReader(KafkaConnection("127.0.0.1:1"), APPLICATION, statuses=False, follows=True)
    for _ in range(5):
        control.poll(0.0)

    assert [consumer.begun_at for consumer in made] == [0, 0]
    assert [consumer.closed for consumer in made] == [True, False]


class ForgetfulConsumer(FakeConsumer):
    """Of a broker that has just started: it knows the topic again after as many looks."""

    unknown_looks = 0
    why: int | None = KafkaError.UNKNOWN_TOPIC_OR_PART

    def list_topics(self, topic: str, timeout: float) -> Any:
        found = SimpleNamespace(error=None if self.why is None else KafkaError(self.why))
        return SimpleNamespace(topics={topic: found})

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        if ForgetfulConsumer.unknown_looks > 0:
            ForgetfulConsumer.unknown_looks -= 1
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return super().get_watermark_offsets(partition, timeout)


@pytest.fixture
def forgetful(made: list[FakeConsumer], monkeypatch: pytest.MonkeyPatch) -> ControlReader:
    FakeConsumer.stalls_at = [9] * 9
    monkeypatch.setattr(reader, "Consumer", ForgetfulConsumer)
    return following()


def test_topic_that_a_broker_does_not_know_yet_is_not_missing(
    forgetful: ControlReader, made: list[FakeConsumer]
) -> None:
    ForgetfulConsumer.unknown_looks = 3

    for _ in range(8):
        forgetful.poll(0.0)

    # What an old client was answered is not believed: each look that fails is answered by a new one.
    assert [consumer.closed for consumer in made] == [True, True, True, False]
    assert forgetful.view.assignment is not None


def test_topic_that_may_not_be_seen_is_not_missing(forgetful: ControlReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForgetfulConsumer, "why", KafkaError.TOPIC_AUTHORIZATION_FAILED)
    ForgetfulConsumer.unknown_looks = 1

    with pytest.raises(ConfigurationError, match=r"-assignment is not authorized.*Describe and DescribeConfigs"):
        forgetful.read_to_end()


def test_topic_that_is_there_and_has_no_leader_is_not_missing(
    forgetful: ControlReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ForgetfulConsumer, "why", None)
    ForgetfulConsumer.unknown_looks = 1

    assert forgetful.read_to_end().assignment is not None

    ForgetfulConsumer.unknown_looks = 9
    with pytest.raises(BrokerUnreachableError, match=r"gave the end of .*-assignment"):
        forgetful.read_to_end(0.0)


def test_topic_that_stays_unknown_is_missing(forgetful: ControlReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "MISSING_S", 0.0)
    ForgetfulConsumer.unknown_looks = 9

    def poll_on() -> None:
        for _ in range(9):
            forgetful.poll(0.0)

    with pytest.raises(TopicMissingError, match="CreateChangelogTopicsOperator"):
        poll_on()
