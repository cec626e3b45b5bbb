from __future__ import annotations

import asyncio
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


def test_consumer_that_gets_nothing_any_more_is_replaced_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeConsumer.made = []
    monkeypatch.setattr(follower, "AIOConsumer", FakeConsumer)
    monkeypatch.setattr(cursor, "LOOK_EVERY_S", -1.0)

    async def follow() -> ControlFollower:
        async with ControlFollower(KafkaConnection("127.0.0.1:1"), APPLICATION) as control:
            for _ in range(4):
                await control.poll(0.0)
            return control

    control = asyncio.run(follow())

    assert control.view.assignment is not None
    assert control.view.assignment.generation == 2
    assert [consumer.begun_at for consumer in FakeConsumer.made] == [0, 1]
    assert all(consumer.closed for consumer in FakeConsumer.made)
