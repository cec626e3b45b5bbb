"""A partition whose leader changes: what every request for a partition's offsets waits for, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

Answer = TypeVar("Answer")

LEADER_CHANGES: Final = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,  # its leader is not known to librdkafka
    }
)
"""Said while a topic is new, a broker of several restarts, or partitions are moved: another broker leads soon, or this
one does. Java's clients take them for retriable, too; librdkafka hands them over where offsets are asked for."""
_ASK_AGAIN: Final = LEADER_CHANGES | {KafkaError._TRANSPORT}
_PAUSE_S: Final = 0.1


def ask_leader(ask: Callable[[float], Answer], timeout_s: float) -> Answer:
    """The answer of the broker that leads a partition, asked again for as long as the leader changes.

    Args:
        ask: one request; called with the seconds that are left. It raises `KafkaException`.
        timeout_s: for all tries together.

    Raises:
        KafkaException: of the last try, where the time is over, or it says something else.
    """
    deadline = time.monotonic() + timeout_s
    left_s = timeout_s
    while True:
        try:
            return ask(left_s)
        except KafkaException as error:
            left_s = deadline - time.monotonic() - _PAUSE_S
            if left_s <= 0 or error.args[0].code() not in _ASK_AGAIN:
                raise
        time.sleep(_PAUSE_S)
