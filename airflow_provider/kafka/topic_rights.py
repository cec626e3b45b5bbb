"""Which topics a user may not write to: a transaction is refused as a whole, and names none of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

__all__ = ["not_writable"]

_TIMEOUT_S: Final = 5.0


def not_writable(config: Mapping[str, Any], topics: Collection[str]) -> list[str]:
    """Those of some topics to which a client's user may not write, sorted; those of which no answer came are not named.

    Args:
        config: of a client of that user.
        topics: their names.
    """
    admin = AdminClient(dict(config))  # which has to live until it has answered
    asked = admin.describe_topics(
        TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=_TIMEOUT_S
    )
    lacking = []
    for topic, answer in asked.items():
        try:
            operations = answer.result(2 * _TIMEOUT_S).authorized_operations
        except (KafkaException, TimeoutError):  # not even to be seen, or no answer
            continue
        if operations is not None and not {AclOperation.WRITE, AclOperation.ALL} & set(operations):
            lacking.append(topic)
    return lacking
