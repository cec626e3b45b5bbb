"""Follows the control topics within an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.aio import AIOConsumer

from airflow_provider.control.topics.codec import instance_of
from airflow_provider.control.topics.cursor import (
    LOOK_TIMEOUT_S,
    UNKNOWN_TOPIC,
    ControlCursor,
    Ends,
    consumer_config,
    missing,
)
from airflow_provider.control.topics.liveness import SilenceClock
from airflow_provider.control.topics.reader import ids_of
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.broker_error import ConnectionErrors, refusal, refusal_to_describe
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin

_BATCH: Final = 1000
# Longer than this for nothing, and the loop was blocked, the process stood still, or the brokers hang.
_BLOCKED_S: Final = 1.0


class ControlFollower:
    """The newest state of an application's control topics, read from their beginning and kept up to date.

    Because it begins at the beginning of compacted topics, it can be started at any time and misses no state.
    Silence is counted only while the follower can read: a broker's outage and a blocked event loop do not count.
    An asynchronous context manager; not for several tasks at once.

    Raises:
        TopicMissingError: (on entering, or from `poll`) a control topic does not exist.
        ConfigurationError: (on entering, or from `poll` and `confirm`) a control topic may not be read.
        BrokerUnreachableError: (on entering) no broker answered.
    """

    def __init__(self, connection: KafkaConnection, application_id: str) -> None:
        self.view = ControlView(application_id)
        self.silence = SilenceClock()
        self._connection, self._errors = connection, ConnectionErrors(connection, logs=False)
        self._polled_at = time.monotonic()
        topics = (assignment_topic(application_id), status_topic(application_id))
        self._cursor = ControlCursor(self.view, topics, self._polled_at, forgets=True)
        self._hearing = False

    async def __aenter__(self) -> ControlFollower:
        self._consumer = self._new_consumer()
        try:
            await self._require_topics()
            self._admin = await asyncio.to_thread(TopicAdmin, self._connection, LOOK_TIMEOUT_S)
            await self._identify()
            await self._begin()
        except BaseException:
            await self._close(self._consumer)
            raise
        self._polled_at = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close(self._consumer)

    @property
    def hearing(self) -> bool:
        """Whether the follower was at the end of both topics and nothing kept it from reading since.

        While it is False, what an instance does not say proves nothing: call `confirm`.
        """
        return self._hearing

    def silent_for_s(self) -> Mapping[str, float]:
        """Seconds of silence of each instance, now."""
        return self.silence.silent_for_s(time.monotonic())

    async def poll(self, timeout_s: float) -> bool:
        """Apply what has come, the moment it comes; wait at most `timeout_s` for a first record.

        A consumer to which nothing comes any more is found and replaced (see `ControlCursor`).

        Returns:
            Whether the view changed.
        """
        first = await self._consumer.poll(timeout_s)
        messages: list[Message] = [] if first is None else [first]
        if first is not None:
            # Its timeout is waited out unless the batch is full: so only what is here already.
            messages += await self._consumer.consume(_BATCH, 0.0)
        changed = False
        for message in messages:
            changed |= self._take(message)
        now = time.monotonic()
        if now - self._polled_at > timeout_s + _BLOCKED_S:
            self._hearing = False
        self._polled_at = now
        if self._cursor.look_due(now):
            await self._look()
        self._cursor.check()
        return changed

    async def confirm(self, timeout_s: float = 2.0) -> bool:
        """Apply everything that the brokers hold now: what is silent then is silent itself.

        After an outage or a blockage every instance's silence begins again with the first success.

        Returns:
            False when the brokers did not answer at once, or the end was not reached in time. Then nothing can be
            said of silence.
        """
        asked_at = time.monotonic()
        ends = await self._ends(_BLOCKED_S)
        if ends is None:
            self._hearing = False
            return False
        self._polled_at = time.monotonic()
        # An end that was given long ago says nothing of now.
        reached = (
            self._polled_at - asked_at <= _BLOCKED_S and None not in ends.values() and not self._cursor.beyond(ends)
        )
        while reached and not self._cursor.reached(ends):
            await self.poll(0.1)
            reached = time.monotonic() - asked_at <= timeout_s
        if reached and not self._hearing:
            self.silence.restart(time.monotonic())
        self._hearing = reached
        return reached

    def _take(self, message: Message) -> bool:
        if message.error() is None and (instance := instance_of(message.key() or b"")) is not None:
            self.silence.heard(instance, time.monotonic())
        changed = self._cursor.take(message)
        if self._cursor.began_anew:  # what is in force now has to be read first
            self._cursor.began_anew = self._hearing = False
        return changed

    async def _look(self) -> None:
        ends = await self._ends(LOOK_TIMEOUT_S)
        again = ends is not None and await self._identify()
        if self._cursor.looked(ends, time.monotonic()) or again:
            self._hearing = False
            before, self._consumer = self._consumer, self._new_consumer()
            await self._begin()
            await self._close(before)
        self._polled_at = time.monotonic()

    async def _identify(self) -> bool:
        return self._cursor.identify(await asyncio.to_thread(ids_of, self._admin, self._cursor.topics))

    async def _ends(self, timeout_s: float) -> Ends | None:
        """The end of each topic; None when a broker did not answer."""
        ends: dict[str, int | None] = {}
        for topic in self._cursor.topics:
            try:
                _, end = await self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=timeout_s)
            except KafkaException as error:
                if (refused := refusal(error.args[0], f"Reading {topic}")) is not None:
                    raise refused from error
                if error.args[0].code() not in UNKNOWN_TOPIC:
                    return None
                await self._require_right_to_see(topic, timeout_s)
                end = None
            ends[topic] = end
        return ends

    def _new_consumer(self) -> AIOConsumer:
        config = consumer_config(self._connection, self.view.application_id)
        return AIOConsumer(config | {"error_cb": self._broker_error}, max_workers=2)

    async def _begin(self) -> None:
        await self._consumer.assign(
            [TopicPartition(topic, 0, offset) for topic, offset in self._cursor.restart().items()]
        )

    async def _broker_error(self, error: KafkaError) -> None:
        self._errors(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._hearing = False

    async def _require_topics(self, timeout_s: float = 10.0) -> None:
        try:
            # Without a name: asking for one topic would create it where the brokers allow that.
            metadata: Any = await self._consumer.list_topics(timeout=timeout_s)
        except KafkaException as error:
            await self._consumer.poll(0)  # hands over why its connections failed; nothing is assigned yet
            raise await asyncio.to_thread(
                self._errors.unreachable,
                f"No broker of {self._connection.bootstrap_servers} answered within {timeout_s:g} s",
                error.args[0].str(),
                "check the address and that they answer.",
            ) from error
        for topic in self._cursor.topics:
            if topic not in metadata.topics:
                await self._require_right_to_see(topic, timeout_s)
                raise missing(topic)

    async def _require_right_to_see(self, topic: str, timeout_s: float) -> None:
        """Raise where a topic is only unknown because the connection's user may not describe it."""
        with contextlib.suppress(KafkaException):  # no answer says nothing of it
            metadata: Any = await self._consumer.list_topics(topic, timeout=timeout_s)
            if (refused := refusal_to_describe(metadata, topic, f"Reading {topic}")) is not None:
                raise refused

    @staticmethod
    async def _close(consumer: AIOConsumer) -> None:
        await asyncio.shield(consumer.close())
