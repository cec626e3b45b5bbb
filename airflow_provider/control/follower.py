"""Follows the control topics within an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.aio import AIOConsumer

from airflow_provider.connection import KafkaConnection
from airflow_provider.control.reader import FETCH, missing
from airflow_provider.control.records import apply, instance_of
from airflow_provider.control.silence import SilenceClock
from airflow_provider.control.view import ControlView
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.names import assignment_topic, status_topic

__all__ = ["ControlFollower"]

_BATCH: Final = 1000
# Longer than this for nothing, and the loop was blocked, the process stood still, or the brokers hang.
_BLOCKED_S: Final = 1.0
_GONE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


class ControlFollower:
    """The newest state of an application's control topics, read from their beginning and kept up to date.

    Because it begins at the beginning of compacted topics, it can be started at any time and misses no state.
    Silence is counted only while the follower can hear: a broker's outage and a blocked event loop count for nobody.
    An asynchronous context manager; not for several tasks at once.

    Args:
        connection: the cluster.
        application_id: the application.

    Raises:
        TopicMissingError: (on entering, or from `poll`) a control topic does not exist.
        BrokerUnreachableError: (on entering) no broker answered.
    """

    def __init__(self, connection: KafkaConnection, application_id: str) -> None:
        self.view = ControlView(application_id)
        self.silence = SilenceClock()
        self._connection = connection
        self._topics = (assignment_topic(application_id), status_topic(application_id))
        self._positions: dict[str, int] = {}
        self._hearing = False
        self._polled_at = time.monotonic()

    async def __aenter__(self) -> ControlFollower:
        """Begin at the beginning of both topics."""
        self._consumer = AIOConsumer(
            self._connection.to_client_config()
            | FETCH
            | {"group.id": f"{self.view.application_id}-control", "error_cb": self._broker_error},
            max_workers=2,
        )
        try:
            await self._require_topics()
            await self._consumer.assign([TopicPartition(topic, 0, 0) for topic in self._topics])
        except BaseException:
            await self._close()
            raise
        self._polled_at = time.monotonic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster."""
        await self._close()

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

        Returns:
            Whether the view changed.

        Raises:
            TopicMissingError: a control topic was deleted.
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
        return changed

    async def confirm(self, timeout_s: float = 2.0) -> bool:
        """Apply everything that the brokers hold now: what is silent then is silent itself.

        After an outage or a blockage the silence of everybody begins anew with the first success.

        Returns:
            False when the brokers did not answer at once, or the end was not reached in time. Then nothing can be
            said of silence.
        """
        asked_at = time.monotonic()
        try:
            ends = {topic: await self._end_of(topic, _BLOCKED_S) for topic in self._topics}
        except KafkaException:
            self._hearing = False
            return False
        self._polled_at = time.monotonic()
        # An end that was told long ago says nothing of now.
        reached = self._polled_at - asked_at <= _BLOCKED_S
        while reached and any(self._positions.get(topic, 0) < end for topic, end in ends.items()):
            await self.poll(0.1)
            reached = time.monotonic() - asked_at <= timeout_s
        if reached and not self._hearing:
            self.silence.restart(time.monotonic())
        self._hearing = reached
        return reached

    def _take(self, message: Message) -> bool:
        error, topic = message.error(), str(message.topic())
        if error is None:
            self._positions[topic] = int(message.offset() or 0) + 1
            key = message.key() or b""
            if (instance := instance_of(key)) is not None:
                self.silence.heard(instance, time.monotonic())
            _, appended_ms = message.timestamp()
            return apply(self.view, key, message.value(), appended_ms)
        if error.code() == KafkaError._PARTITION_EOF:
            self._positions[topic] = int(message.offset() or 0)
        elif error.code() in _GONE:
            raise missing(topic)
        return False

    async def _broker_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._hearing = False

    async def _require_topics(self, timeout_s: float = 10.0) -> None:
        try:
            # Without a name: asking for one topic would create it where the brokers allow that.
            metadata: Any = await self._consumer.list_topics(timeout=timeout_s)
        except KafkaException as error:
            raise BrokerUnreachableError(
                f"No broker of {self._connection.bootstrap_servers} answered within {timeout_s:g} s "
                f"({error.args[0].str()}): check the address, the credentials and that they answer."
            ) from error
        for topic in self._topics:
            if topic not in metadata.topics:
                raise missing(topic)

    async def _end_of(self, topic: str, timeout_s: float) -> int:
        _, end = await self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=timeout_s)
        return int(end)

    async def _close(self) -> None:
        await asyncio.shield(self._consumer.close())
