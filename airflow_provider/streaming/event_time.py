"""Which time the records of a source have, and how long is waited for those that come late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["EVENT_MS", "RECORD_TIME", "EventTime"]

RECORD_TIME: Final = "_source.timestamp"
"""The time of the record itself, as Kafka has it."""

EVENT_MS: Final = "__event_ms"
"""The column of the rows in a worker that holds a record's event time, epoch ms."""


@dataclass(frozen=True)
class EventTime:
    """A source's event time.

    Args:
        column: TIMESTAMP, or BIGINT in epoch ms.
        delay_ms: by how much the watermark lies behind the greatest event time seen.
    """

    column: str
    delay_ms: int

    @property
    def of_record(self) -> bool:
        """Whether it is the time of the record itself."""
        return self.column == RECORD_TIME
