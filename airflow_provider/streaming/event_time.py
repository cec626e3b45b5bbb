"""Which time the records of a source have, and how long is waited for those that come late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.argument_check import check_kind
from airflow_provider.streaming.duration import duration_ms

__all__ = ["EVENT_MS", "RECORD_TIME", "EventTime", "event_time_of"]

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


def event_time_of(method: str, column: str | None, watermark: str | None) -> EventTime | None:
    """What a source was told of time.

    Args:
        method: that was told, for the errors.
        column: of the event time; None for the time of the record itself.
        watermark: for how long late records are waited for; None where no event time is read.

    Raises:
        ConfigurationError: there is a column and no watermark, or the watermark is no duration.
    """
    check_kind(f"{method} got event_time=", column, (str, type(None)), "the name of a column")
    if watermark is None:
        if column is None:
            return None
        raise ConfigurationError(
            f"{method} got event_time={column!r} without watermark=: say for how long late records are waited for, "
            "such as watermark='10 minutes', or '0 seconds' where none is to be waited for."
        )
    delay_ms = duration_ms(f"{method.removesuffix('()')}(watermark=...)", watermark, zero=True)
    return EventTime(RECORD_TIME if column is None else column, delay_ms)
