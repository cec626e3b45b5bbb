"""A record that a task left out, as it is written to the dead-letter topic."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.error_text import bounded
from airflow_provider.kafka.names import ERROR_HEADER

_STACK_CHARS: Final = 8000
_SHORT_CHARS: Final = 200
_OVERHEAD_BYTES: Final = 100
_HEADER_BYTES: Final = 10


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """The input record as it was, and why it was left out.

    The headers have the names that Kafka Streams gives them (KIP-1034), and two more.

    Args:
        timestamp_ms: its timestamp, epoch ms. The dead letter carries the same, or the time of writing where that is
            earlier: brokers refuse records of the future (``message.timestamp.after.max.ms``).
        message: what went wrong; cut in the record's headers where it is long.
        stack: the stack of the user's function; cut likewise; empty otherwise.
    """

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    task: TaskId
    error: str
    message: str
    stack: str = ""

    def written_timestamp_ms(self, now_ms: int) -> int:
        """The timestamp of the dead letter itself; `headers` have the record's own."""
        return max(0, min(self.timestamp_ms, now_ms))

    @property
    def size(self) -> int:
        """Bytes of the record in Kafka, rounded up."""
        headers = sum(len(name) + len(value or b"") + _HEADER_BYTES for name, value in self.headers())
        return len(self.key or b"") + len(self.value or b"") + headers + _OVERHEAD_BYTES

    def fitted(self, max_bytes: int) -> DeadLetter:
        """The same with less text in its headers, where it is larger than its topic takes; the record stays whole."""
        if self.size <= max_bytes:
            return self
        return dataclasses.replace(self, message=bounded(self.message, _SHORT_CHARS), stack="")

    def headers(self) -> list[tuple[str, str | bytes | None]]:
        """For the record."""
        fields = {
            "exception": self.error,
            "message": bounded(self.message),
            "stacktrace": bounded(self.stack, _STACK_CHARS),
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "task": self.task,
        }
        return [(f"{ERROR_HEADER}{name}", str(value).encode()) for name, value in fields.items()]
