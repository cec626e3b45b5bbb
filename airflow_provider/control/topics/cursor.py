"""Where a reader of the control topics stands, and what that says of its consumer: no client and no clock in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from airflow_provider.control.topics.codec import apply, forget_decisions
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import StatefulStreamsError, TopicMissingError
from airflow_provider.kafka.broker_error import broker_error, damage
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic

LOOK_EVERY_S: Final = 5.0
"""How often a reader asks for the ends of its topics."""
LOOK_TIMEOUT_S: Final = 1.0
"""How long it waits for an answer, each time."""
UNKNOWN_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
"""The errors by which a topic is said not to exist."""

MISSING_S: Final = 20.0
"""For so long brokers may not know a topic yet; after that it does not exist."""

Ends = Mapping[str, int | None]
"""By topic, the offset after its last record; None where the brokers do not know the topic."""
Ids = Mapping[str, str]
"""By topic, its id in the cluster, which another topic of the same name does not have; empty where it is not known."""


def consumer_config(connection: KafkaConnection, application_id: str) -> dict[str, Any]:
    """How control topics are read: small, soon, committed records only, with an event at each end."""
    return connection.to_client_config() | {
        "group.id": f"{application_id}-control",
        "client.id": f"{application_id}-control",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "allow.auto.create.topics": False,
        "reconnect.backoff.max.ms": 1000,
    }


def missing(topic: str) -> TopicMissingError:
    """The error for a control topic that does not exist."""
    return TopicMissingError(
        f"Control topic {topic!r} does not exist: correct the application id if it is misspelt, or create the "
        "application's topics first: run CreateChangelogTopicsOperator, or 'stateful-streams topics repair JOB.py "
        "--apply'."
    )


def missing_beside(what: str, topic: str) -> TopicMissingError:
    """The error for a topic beside these that does not exist."""
    return TopicMissingError(
        f"{what} topic {topic!r} does not exist: correct the application id if it is misspelt, or create it with "
        "'stateful-streams topics repair' or 'Repair topics' of its operate DAG."
    )


class ControlCursor:
    """The position in each control topic, and the judgement of the consumer that brings their records.

    After a broker's restart librdkafka sometimes fetches nothing any more and reports nothing (librdkafka #5153). So a
    reader asks for the ends of its topics now and then; a consumer that is behind an end, or past it because the topic
    was created again, and has not moved since the look before is replaced. A broker that has just started may not know
    its topics yet, and a client remembers such an answer for long: a topic counts as missing only when new clients got
    it for 20 s.

    Where a topic that was created again holds more than was read of the one before, offsets say nothing: a consumer
    reads on in its middle. Only its id tells them apart (`identify`).

    Where a new leader lacks the newest records (an unclean election), a consumer goes back to where its log ends, and
    reads on there (KIP-320). What was forgotten stands before that, so the topic is begun anew at once.

    Args:
        topics: the topics that are read, each of one partition.
        forgets: whether the view forgets the decisions of an assignment topic that was deleted and created again: a
            watcher has to see what is in force, while an instance goes on with what it read until a later generation
            comes.
    """

    def __init__(self, view: ControlView, topics: Sequence[str], now: float, *, forgets: bool = False) -> None:
        self.view = view
        self._forgets = forgets
        self.began_anew = False
        """Whether the view forgot since this was last set to False."""
        self.topics = tuple(topics)
        self._ids: dict[str, str] = {}
        self._positions: dict[str, int] = {}
        self._gone_back: set[str] = set()
        """Topics of which decisions were forgotten in their middle."""
        self._at_end: set[str] = set()
        self._behind: dict[str, int] = {}
        self._missing_since: float | None = None
        self._refused: dict[str, StatefulStreamsError] = {}
        self._looked_at = now

    @property
    def at_end(self) -> bool:
        """Whether the end of every topic was seen after its last record."""
        return len(self._at_end) == len(self.topics)

    def reached(self, ends: Ends) -> bool:
        """Whether everything up to these ends was read; never so of a topic that is not known."""
        return all(end is not None and self._positions.get(topic, -1) >= end for topic, end in ends.items())

    def beyond(self, ends: Ends) -> bool:
        """Whether more was read of a topic than it holds: it was created again, and nothing of it may have been read.

        Args:
            ends: as the brokers gave them after the last record was taken.
        """
        return any(end is not None and self._positions.get(topic, 0) > end for topic, end in ends.items())

    def take(self, message: Message) -> bool:
        """Apply a record, or note what a consumer's event says; returns whether the view changed.

        Raises:
            TopicDamagedError: a record is not what was written.
            KafkaException: the consumer reports a fatal error.
        """
        error, topic = message.error(), str(message.topic())
        if error is None:
            self._at_end.discard(topic)
            self._refused.pop(topic, None)
            self._move(topic, int(message.offset() or 0))
            self._positions[topic] += 1
            _, appended_ms = message.timestamp()
            return apply(self.view, message.key() or b"", message.value(), appended_ms)
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(topic)
            self._refused.pop(topic, None)
            self._move(topic, int(message.offset() or 0))
        elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._refused[topic] = broker_error(error, f"Reading {topic}", "check that the brokers answer.")
            raise self._refused[topic]
        elif error.code() in UNKNOWN_TOPIC:
            if self._missing_since is None:  # true, or a broker that has just started: look soon
                self._looked_at = float("-inf")
        elif (damaged := damage(message)) is not None:
            raise damaged
        elif error.fatal():
            raise KafkaException(error)
        return False

    def check(self) -> None:
        """Raise where a topic may not be read: a consumer says it once, and it is so until something of it comes.

        Raises:
            AccessError: as `take` raised it.
        """
        for refused in self._refused.values():
            raise refused

    def look_due(self, now: float) -> bool:
        """Whether the ends should be asked for again."""
        return bool(self._gone_back) or now - self._looked_at > LOOK_EVERY_S

    def looked(self, ends: Ends | None, now: float) -> bool:
        """Judge the consumer by the ends that the brokers gave.

        Args:
            ends: of every topic; None when the brokers did not answer.

        Returns:
            Whether the consumer has to be replaced by a new one, at `restart`.

        Raises:
            TopicMissingError: a topic has been unknown for 20 s.
        """
        before, self._behind = self._behind, {}
        since, self._missing_since = self._missing_since, None
        absent = [topic for topic in self.topics if ends is not None and ends[topic] is None]
        if absent:
            self._missing_since = now if since is None else since
            if now - self._missing_since > MISSING_S:
                raise missing(absent[0])
        elif ends is not None:
            at = {topic: self._positions.get(topic, 0) for topic in self.topics}
            self._behind = {topic: at[topic] for topic in self.topics if at[topic] != (ends[topic] or 0)}
        self._looked_at = now
        stalled = self._behind.items() & before.items()
        for topic, at_before in stalled:
            # A consumer does not always notice that its topic was created again (seen with librdkafka).
            if ends is not None and at_before > (ends[topic] or 0):
                self._move(topic, 0)
        gone_back, self._gone_back = self._gone_back, set()
        for topic in gone_back:
            self._positions[topic] = 0
        # One that was refused does not say that it reads again where nothing new is there to read.
        return bool(absent) or bool(stalled) or bool(self._refused) or bool(gone_back)

    def identify(self, ids: Ids) -> bool:
        """Take the ids of the topics, asked for before anything is read and with each look at the ends.

        What was read of a topic before its id was known may be another's.

        Returns:
            Whether the consumer has to be replaced by a new one, at `restart`: one of them is begun anew.
        """
        others = [topic for topic, id in ids.items() if topic in self._positions and self._ids.get(topic) != id]
        self._ids.update(ids)
        for topic in others:
            self._move(topic, 0)
        return bool(others)

    def _move(self, topic: str, offset: int) -> None:
        """Stand at an offset. One that was passed before is of a topic that was created again."""
        again = offset < self._positions.get(topic, 0)
        if again and self._forgets and topic == assignment_topic(self.view.application_id):
            forget_decisions(self.view)
            self.began_anew = True
            if offset > 0:
                self._gone_back.add(topic)
        self._positions[topic] = offset

    def restart(self) -> Mapping[str, int]:
        """By topic, the offset at which a new consumer begins."""
        self._at_end.clear()
        self._behind = {}
        return {topic: self._positions.get(topic, 0) for topic in self.topics}
