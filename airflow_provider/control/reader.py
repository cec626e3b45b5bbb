"""Reads and follows the control topics into a view."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.connection import KafkaConnection
from airflow_provider.control.records import apply
from airflow_provider.control.view import ControlView
from airflow_provider.errors import BrokerUnreachableError, TopicMissingError
from airflow_provider.names import assignment_topic, status_topic

__all__ = ["FETCH", "ControlReader", "missing"]

FETCH: Final = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    "allow.auto.create.topics": False,
    "reconnect.backoff.max.ms": 1000,
}
"""How control topics are read: small, soon, committed only, with word of their end."""

_LOOK_EVERY_S: Final = 5.0
_LOOK_TIMEOUT_S: Final = 1.0
_MISSING_S: Final = 20.0


class ControlReader:
    """The newest state of an application's control topics.

    Not safe for several threads. Close it, or use it as a context manager.

    Args:
        connection: the cluster.
        application_id: the application.
        statuses: whether to read ``<app>-status`` too; an instance needs only what it is told, not what all tell.
    """

    def __init__(self, connection: KafkaConnection, application_id: str, statuses: bool = True) -> None:
        self.view = ControlView(application_id)
        self._topics = (assignment_topic(application_id), *([status_topic(application_id)] if statuses else []))
        self._connection = connection
        self._at_end: set[str] = set()
        self._read_up_to: dict[str, int] = {}
        self._behind: dict[str, int] = {}
        self._missing_since: float | None = None
        self._looked_at = time.monotonic()
        self._consumer = self._opened()

    def __enter__(self) -> ControlReader:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def read_to_end(self, timeout_s: float = 10.0) -> ControlView:
        """Read everything that is in both topics now.

        Raises:
            TopicMissingError: a control topic does not exist.
            BrokerUnreachableError: the end was not reached in time.
        """
        ends = {topic: self._end_of(topic, timeout_s) for topic in self._topics}
        deadline = time.monotonic() + timeout_s
        while any(self._read_up_to.get(topic, -1) < end for topic, end in ends.items()):
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    f"{' and '.join(self._topics)} at {self._connection.bootstrap_servers} could not be read to their "
                    f"end within {timeout_s:g} s: check that the brokers answer."
                )
            self.poll(0.1)
        return self.view

    def poll(self, timeout_s: float) -> bool:
        """Apply what has come since, waiting at most `timeout_s` for a first record.

        After a broker's restart librdkafka sometimes fetches nothing any more and says nothing (librdkafka #5153). So
        the ends are asked for now and then; a consumer that stays behind them is replaced by a new one.

        Returns:
            Whether the view changed.

        Raises:
            TopicMissingError: a control topic is gone, and has been for 20 s.
        """
        changed = self._drain(timeout_s)
        if not changed and time.monotonic() - self._looked_at > _LOOK_EVERY_S:
            self._look()
        return changed

    def _drain(self, timeout_s: float) -> bool:
        changed = False
        wait = timeout_s
        while (message := self._consumer.poll(wait)) is not None:
            error = message.error()
            if error is None:
                _, appended_ms = message.timestamp()
                changed |= apply(self.view, message.key() or b"", message.value(), appended_ms)
                self._at_end.discard(str(message.topic()))
                self._read_up_to[str(message.topic())] = (message.offset() or 0) + 1
                wait = 0.0
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(str(message.topic()))
                self._read_up_to[str(message.topic())] = int(message.offset() or 0)
                if changed or len(self._at_end) == len(self._topics):
                    wait = 0.0
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                if self._missing_since is None:  # true, or a broker that has just started: see for ourselves
                    self._looked_at = float("-inf")
            elif error.fatal():
                raise KafkaException(error)
        return changed

    def _look(self) -> None:
        """Replace the consumer if it is behind an end and has not moved since the last look.

        A broker that has just started may not know its topics yet, and a client remembers for long what it was told. So
        a topic counts as missing only when new clients have been told so for a while.
        """
        behind, self._behind = self._behind, {}
        missing_since, self._missing_since = self._missing_since, None
        try:
            for topic in self._topics:
                at = self._read_up_to.get(topic, 0)
                if at < self._end_of(topic, _LOOK_TIMEOUT_S):
                    self._behind[topic] = at
        except BrokerUnreachableError:
            self._behind = {}
        except TopicMissingError:
            self._missing_since = time.monotonic() if missing_since is None else missing_since
            if time.monotonic() - self._missing_since > _MISSING_S:
                raise
        if self._missing_since is not None or self._behind.items() & behind.items():
            deaf, self._consumer, self._behind = self._consumer, self._opened(), {}
            deaf.close()
        self._looked_at = time.monotonic()

    def _opened(self) -> Consumer:
        application_id = self.view.application_id
        consumer = Consumer(
            self._connection.to_client_config()
            | FETCH
            | {"group.id": f"{application_id}-control", "client.id": f"{application_id}-control"}
        )
        self._at_end.clear()
        consumer.assign([TopicPartition(topic, 0, self._read_up_to.get(topic, 0)) for topic in self._topics])
        return consumer

    def _end_of(self, topic: str, timeout_s: float) -> int:
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
                raise missing(topic) from error
            raise BrokerUnreachableError(
                f"No broker of {self._connection.bootstrap_servers} told the end of {topic} within {timeout_s:g} s "
                f"({error.args[0].str()}): check the address and that the brokers answer."
            ) from error
        return int(high)


def missing(topic: str) -> TopicMissingError:
    """The error for a control topic that does not exist."""
    return TopicMissingError(
        f"Control topic {topic!r} does not exist: run the create-changelog-topics operator for this application first."
    )
