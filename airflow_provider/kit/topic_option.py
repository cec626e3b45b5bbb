"""The option that names a topic to create: ``name:partitions``."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import Final

from airflow_provider.kafka.topic_spec import TopicSpec

__all__ = ["topic_option"]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_option(text: str) -> TopicSpec:
    """Read ``orders:4`` as topic ``orders`` with 4 partitions, and ``orders`` as one with 1.

    Raises:
        ArgumentTypeError: the text is something else.
    """
    name, colon, number = text.partition(":")
    if not _NAME.fullmatch(name) or (colon and not (number.isascii() and number.isdigit() and int(number) > 0)):
        raise ArgumentTypeError(
            f"found {text!r}, expected name:partitions, such as orders:4, with a name of letters, digits, '.', '_' "
            "and '-' and at least 1 partition"
        )
    return TopicSpec(name=name, partitions=int(number) if colon else 1, replication_factor=1, required=frozenset())
