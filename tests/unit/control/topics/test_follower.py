from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from airflow_provider.control.topics import cursor, follower
from airflow_provider.control.topics.follower import ControlFollower
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, status_topic
from tests.builders import APPLICATION
from tests.unit.control.topics.fake_message import FakeMessage


class FakeConsumer:
    """The assignment topic holds two records; the first consumer never gets the second."""

    made: list[FakeConsumer]

    def __init__(self, _: dict[str, Any], max_workers: int) -> None:
        self._hears = 1 if not self.made else 2
        self.closed = False
        self.made.append(self)

    async def list_topics(self, timeout: float) -> Any:
        class Metadata:
            topics = (assignment_topic(APPLICATION), status_topic(APPLICATION))

        return Metadata

    async def assign(self, partitions: list[TopicPartition]) -> None:
        self.begun_at = self._at = partitions[0].offset

    async def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, 2 if partition.topic == assignment_topic(APPLICATION) else 0

    async def poll(self, _: float) -> FakeMessage | None:
        await asyncio.sleep(0)
        if self._at >= self._hears:
            return None
        self._at += 1
        return FakeMessage(assignment_topic(APPLICATION), self._at - 1)

    async def consume(self, _: int, timeout: float) -> list[FakeMessage]:
        return []

    async def close(self) -> None:
        self.closed = True


class FakeAdmin:
    """The assignment topic is another one from a look on."""

    asked, other_from = 0, 99

    def __init__(self, *_: object) -> None:
        """Of no cluster."""

    def ids(self, names: Sequence[str]) -> dict[str, str]:
        FakeAdmin.asked += 1
        return dict.fromkeys(names, "first") | ({names[0]: "second"} if FakeAdmin.asked > self.other_from else {})


def followed(monkeypatch: pytest.MonkeyPatch, polls: int, other_from: int = 99) -> ControlFollower:
    FakeConsumer.made = []
    FakeAdmin.asked, FakeAdmin.other_from = 0, other_from
    monkeypatch.setattr(follower, "AIOConsumer", FakeConsumer)
    monkeypatch.setattr(follower, "TopicAdmin", FakeAdmin)
    monkeypatch.setattr(cursor, "LOOK_EVERY_S", -1.0)

    async def follow() -> ControlFollower:
        async with ControlFollower(KafkaConnection("127.0.0.1:1"), APPLICATION) as control:
            for _ in range(polls):
                await control.poll(0.0)
            return control

    return asyncio.run(follow())


def test_topic_that_was_created_again_beyond_where_it_was_read_is_forgotten_and_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = followed(monkeypatch, polls=1, other_from=1)

    assert control.view.assignment is None
    assert not control.hearing
    assert [consumer.begun_at for consumer in FakeConsumer.made] == [0, 0]


def test_consumer_that_gets_nothing_any_more_is_replaced_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    control = followed(monkeypatch, polls=4)

    assert control.view.assignment is not None
    assert control.view.assignment.generation == 2
    assert [consumer.begun_at for consumer in FakeConsumer.made] == [0, 1]
    assert all(consumer.closed for consumer in FakeConsumer.made)
