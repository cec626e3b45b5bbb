"""Topics as the command line names them, and an example to play with: the first job's, and orders that flow."""

from __future__ import annotations

import itertools
import json
import re
import threading
from argparse import ArgumentTypeError
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.records import produce

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


EXAMPLE_TOPICS: Final = (topic_option("orders:4"), topic_option("customer-totals-out:4"))
"""What the job of docs/first-job.md reads and writes."""

_CUSTOMERS: Final = ("ann", "bob", "cem", "dora", "eve", "finn", "gül", "hans")
_PAUSE_S: Final = 0.1


class OrdersInput:
    """Writes an order every tenth of a second into topic ``orders``, as a context manager.

    Args:
        connection: of the broker.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, name="orders", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, while the broker still serves."""
        self._ended.set()
        self._thread.join(_PAUSE_S + 10.0)

    def _write(self) -> None:
        produce(self._connection, EXAMPLE_TOPICS[0].name, self._lines())

    def _lines(self) -> Iterator[str]:
        for number in itertools.count():
            customer = _CUSTOMERS[number % len(_CUSTOMERS)]
            yield f"{customer}\t{json.dumps({'customer': customer, 'amount': 1.0})}"
            if self._ended.wait(_PAUSE_S):
                return
