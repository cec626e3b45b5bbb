"""Publishes the flights at a steady pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from airflow_provider.demo.errors import DemoError
from airflow_provider.kafka.connection import KafkaConnection

_TICK_S: Final = 0.05


class Publisher:
    """A thread that puts records into a topic, evenly over a time.

    It keeps to the clock: held up, it publishes what it is behind with at once.

    What lies behind `hold_at` waits for `release`, so that there is something to process after a moment that is not
    known before.

    Args:
        hold_at: the part of them that does not wait.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        records: Sequence[tuple[bytes | None, bytes]],
        duration_s: float,
        hold_at: float = 1.0,
    ) -> None:
        self._topic, self._records, self._duration_s = topic, records, duration_s
        self._allowed = int(len(records) * hold_at)
        self._producer = Producer(
            connection.to_client_config()
            | {
                "enable.idempotence": True,
                "linger.ms": 20,
                # The Java clients' partitioner, so that the job's output lands in the partition of its input.
                "partitioner": "murmur2_random",
                "client.id": "demo-publisher",
                "log.connection.close": False,
            }
        )
        self.published = 0
        """How many were published so far."""
        self._error: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    @property
    def total(self) -> int:
        """How many records there are."""
        return len(self._records)

    @property
    def done(self) -> bool:
        """Whether all of them are stored."""
        if self._error is not None:
            raise DemoError(f"The flights could not be published into {self._topic!r}: {self._error}.")
        return not self._thread.is_alive() and self.published == self.total

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def release(self) -> None:
        """Let the rest go, too."""
        self._allowed = self.total

    def stop(self) -> None:
        """Publish no more; returns when the thread has ended."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10.0)

    def _run(self) -> None:
        try:
            self._publish()
        except Exception as error:
            # A thread that ends in silence would be waited for until the limit.
            self._error = repr(error)

    def _publish(self) -> None:
        began = time.monotonic()
        sent = 0
        while sent < self.total and not self._stop.is_set() and self._error is None:
            due = min(self._allowed, int(self.total * (time.monotonic() - began) / self._duration_s))
            for key, value in self._records[sent:due]:
                self._produce(key, value)
            sent = due
            self._producer.poll(0)
            self._stop.wait(_TICK_S)
        if self._producer.flush(30.0) and self._error is None and not self._stop.is_set():
            self._error = "the broker did not take them in time"

    def _produce(self, key: bytes | None, value: bytes) -> None:
        while not self._stop.is_set():
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
            except BufferError:  # the broker is behind: what is queued goes first
                self._producer.poll(_TICK_S)
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.published += 1
        else:
            self._error = error.str()
