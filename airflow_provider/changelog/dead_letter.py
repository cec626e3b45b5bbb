"""A record that a task left out, as it is written to the dead-letter topic."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeadLetter"]


@dataclass(frozen=True)
class DeadLetter:
    """The input record as it was, and why it was left out.

    The headers have the names that Kafka Streams gives them (KIP-1034), and one more for the timestamp.

    Args:
        key: the input record's key.
        value: its value.
        topic: its topic.
        partition: its partition.
        offset: its offset.
        timestamp_ms: its timestamp, epoch ms; the dead letter carries the same.
        error: the error's class.
        message: what went wrong.
        stack: the stack of the user's function; empty otherwise.
    """

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    error: str
    message: str
    stack: str = ""

    def headers(self) -> list[tuple[str, str | bytes | None]]:
        """For the record."""
        fields = {
            "exception": self.error,
            "message": self.message,
            "stacktrace": self.stack,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
        }
        return [(f"__streams.errors.{name}", str(value).encode()) for name, value in fields.items()]
