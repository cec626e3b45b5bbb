"""Reads and follows the control topics into a view, blocking its thread."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from airflow_provider.control.topics.cursor import (
    LOOK_TIMEOUT_S,
    MISSING_S,
    UNKNOWN_TOPIC,
    ControlCursor,
    Ends,
    Ids,
    consumer_config,
    missing,
)
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import BrokerUnreachableError, StatefulStreamsError
from airflow_provider.kafka.broker_error import ConnectionErrors, ask_leader, refusal, refusal_to_describe
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin


class ControlReader:
    """The newest state of an application's control topics.

    Not safe for several threads. Close it, or use it as a context manager. All that reads raises `TopicMissingError`
    where the brokers have not known a control topic for 20 s.

    Args:
        statuses: whether to read ``<app>-status`` too; an instance needs only ``<app>-assignment``.
        follows: whether it is read for so long that a topic may be created again meanwhile, and hold more than was read
            of the one before: for one client more, and one more answer before the first record. With statuses, as who
            looks at an application, it forgets then what was decided before; an instance goes on with that
            (`ControlCursor`).
    """

    def __init__(
        self, connection: KafkaConnection, application_id: str, statuses: bool = True, *, follows: bool = False
    ) -> None:
        self.view = ControlView(application_id)
        topics = (assignment_topic(application_id), *([status_topic(application_id)] if statuses else []))
        self._cursor = ControlCursor(self.view, topics, time.monotonic(), forgets=follows and statuses)
        self._connection = connection
        self._errors = ConnectionErrors(connection)
        self._admin = TopicAdmin(connection, LOOK_TIMEOUT_S) if follows else None
        self._identify()
        self._consumer = self._opened()

    def __enter__(self) -> ControlReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()
        self._admin = None  # its clients end with it, also where an error that was kept refers to this reader

    def read_to_end(self, timeout_s: float = 10.0) -> ControlView:
        """Read everything that is in the topics now.

        Raises:
            TopicMissingError: a control topic does not exist.
        """
        ends: dict[str, int | None] = {}
        for topic in self._cursor.topics:
            try:
                ends[topic] = ask_leader(functools.partial(self._end_of, topic), timeout_s)
            except KafkaException as error:
                if (refused := refusal(error.args[0], f"Reading {topic}")) is not None:
                    raise refused from error
                self._drain(0.0)  # hands over why its connections failed
                raise self._errors.unreachable(
                    f"No broker of {self._connection.bootstrap_servers} gave the end of {topic} within {timeout_s:g} s",
                    error.args[0].str(),
                    "check the address and that the brokers answer.",
                ) from error
            if ends[topic] is None:
                raise missing(topic)
        deadline = time.monotonic() + timeout_s
        while not self._cursor.reached(ends):
            if time.monotonic() > deadline:
                raise BrokerUnreachableError(
                    f"{' and '.join(ends)} at {self._connection.bootstrap_servers} could not be read to their "
                    f"end within {timeout_s:g} s: check that the brokers answer."
                )
            self.poll(0.1)
        return self.view

    def listen(
        self, expected: Callable[[], Collection[str]], timeout_s: float, since: Mapping[str, int] | None = None
    ) -> set[str]:
        """Those of some instances that sent no heartbeat in time: one look cannot tell whether a lone one is silent.

        Args:
            expected: names those that are waited for, asked after each record.
            since: by instance, the append time (`ControlView.heard_at_ms`) after which one counts; None for now.
        """
        before, deadline = dict(self.view.heard_at_ms if since is None else since), time.monotonic() + timeout_s

        def unheard() -> set[str]:
            return {name for name in expected() if self.view.heard_at_ms.get(name, 0) <= before.get(name, 0)}

        while unheard() and time.monotonic() < deadline:
            self.poll(0.1)
        return unheard()

    def listen_for_watcher(self, timeout_s: float) -> bool:
        """Wait until a watcher says that it watches: what it said before proves nothing of now.

        Returns:
            Whether one did.
        """
        before, deadline = self.view.watcher, time.monotonic() + timeout_s
        while self.view.watcher is before and time.monotonic() < deadline:
            self.poll(0.1)
        return self.view.watcher is not before

    def poll(self, timeout_s: float) -> bool:
        """Apply what has come since, waiting at most `timeout_s` for a first record; returns whether the view changed.

        A consumer to which nothing comes any more is found and replaced (see `ControlCursor`).
        """
        changed = self._drain(timeout_s)
        if self._cursor.look_due(time.monotonic()):
            self._look()
        self._cursor.check()
        return changed

    def _drain(self, timeout_s: float) -> bool:
        changed = False
        wait = timeout_s
        while (message := self._consumer.poll(wait)) is not None:
            changed |= self._cursor.take(message)
            if message.error() is None or changed or self._cursor.at_end:
                wait = 0.0
        return changed

    def _look(self) -> None:
        ends = self._ends()
        again = ends is not None and self._identify()
        if self._cursor.looked(ends, time.monotonic()) or again:
            stalled, self._consumer = self._consumer, self._opened()
            stalled.close()

    def _ends(self) -> Ends | None:
        try:
            return {topic: self._end_of(topic, LOOK_TIMEOUT_S) for topic in self._cursor.topics}
        except KafkaException as error:
            if (refused := refusal(error.args[0], f"Reading {' and '.join(self._cursor.topics)}")) is not None:
                raise refused from error
            return None

    def _identify(self) -> bool:
        return self._admin is not None and self._cursor.identify(ids_of(self._admin, self._cursor.topics))

    def _end_of(self, topic: str, timeout_s: float) -> int | None:
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() in UNKNOWN_TOPIC:
                metadata = self._consumer.list_topics(topic, timeout=timeout_s)
                if (refused := refusal_to_describe(metadata, topic, f"Reading {topic}")) is not None:
                    raise refused from error
                found = metadata.topics.get(topic)
                if found is None or found.error is not None:
                    return None
                # It is there: a broker that was away is not its leader again yet.
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)) from error
            raise
        return int(end)

    def _opened(self) -> Consumer:
        consumer = Consumer(consumer_config(self._connection, self.view.application_id) | {"error_cb": self._errors})
        consumer.assign([TopicPartition(topic, 0, offset) for topic, offset in self._cursor.restart().items()])
        return consumer


def ids_of(admin: TopicAdmin, topics: Sequence[str]) -> Ids:
    """The ids of topics; empty where the brokers do not give all of them, of which their ends say why."""
    try:
        return admin.ids(topics)
    except StatefulStreamsError:
        return {}


_PAUSE_S: Final = 1.0


def stay_absent(connection: KafkaConnection, application_id: str) -> bool:
    """Whether the brokers do not know both control topics of an application, asked again and again for 20 s.

    Returns:
        False as soon as both are known, and where no broker answers: then nothing can be said.
    """
    topics = (assignment_topic(application_id), status_topic(application_id))
    deadline = time.monotonic() + MISSING_S
    while True:
        try:
            admin = TopicAdmin(connection)  # a new client: an old one remembers what it was answered
            if all(admin.describe(topic) is not None for topic in topics):
                return False
        except BrokerUnreachableError:
            return False
        if time.monotonic() >= deadline:
            return True
        time.sleep(_PAUSE_S)
