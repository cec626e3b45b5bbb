"""Which time the records of a source have, and how long is waited for those that come late."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.terms.argument_check import check_kind, duration_ms
from airflow_provider.streaming.terms.steps import Select, Step, WithColumn

RECORD_TIME: Final = "_source.timestamp"
"""The time of the record itself, as Kafka has it."""

EVENT_MS: Final = "__event_ms"
"""The column of the rows in a worker that holds a record's event time, epoch ms."""

MAKE_TIME: Final = (
    "Make one of it with with_column(): try_to_timestamp() and try_cast() of a text give null where it is no time, and "
    "then on_error() decides; to_timestamp() fails the task."
)
"""What to do about a column that holds no time."""


@dataclass(frozen=True)
class EventTime:
    """A source's event time.

    Args:
        column: TIMESTAMP, or BIGINT in epoch ms.
        delay_ms: by how much the watermark lies behind the greatest event time seen.
        idle_ms: how long a task may be without records until its time goes on with the clock; None for ever.
    """

    column: str
    delay_ms: int
    idle_ms: int | None = None

    @property
    def of_record(self) -> bool:
        """Whether it is the time of the record itself."""
        return self.column == RECORD_TIME

    @property
    def text(self) -> str:
        """What it is, in words that a store's signature keeps."""
        return "that of the record" if self.of_record else f"event_time={self.column!r}"


OF_RECORD: Final = EventTime(RECORD_TIME, 0)
"""The time of the record, for which nothing waits."""


def event_time_of(
    method: str, column: str | None, watermark: str | None, idle_timeout: str | None = None
) -> EventTime | None:
    """What a source was told of time.

    Raises:
        ConfigurationError: a column or an idle timeout has no watermark, or one of the two is no duration.
    """
    check_kind(f"{method} got event_time=", column, (str, type(None)), "the name of a column")
    if watermark is None:
        if column is None and idle_timeout is None:
            return None
        given = f"idle_timeout={idle_timeout!r}" if column is None else f"event_time={column!r}"
        raise ConfigurationError(
            f"{method} got {given} without watermark=: say for how long late records are waited for, "
            "such as watermark='10 minutes', or '0 seconds' where none is to be waited for."
        )
    delay_ms = duration_ms(f"{method.removesuffix('()')}(watermark=...)", watermark, zero=True)
    idle_ms = None
    if idle_timeout is not None:
        idle_ms = duration_ms(f"{method.removesuffix('()')}(idle_timeout=...)", idle_timeout)
    return EventTime(RECORD_TIME if column is None else column, delay_ms, idle_ms)


def event_time_after(declared: EventTime, steps: Sequence[Step]) -> EventTime:
    """The event time, with the column that holds it after some steps: where `select` renames it, under the new name.

    A step that makes a column of the declared name again makes that one the event time: a job may put the text aside
    and compute the time under its name.
    """
    if declared.of_record:
        return declared
    name = declared.column
    for step in steps:
        if isinstance(step, Select):
            name = _name_after(declared.column, name, step)
        elif isinstance(step, WithColumn) and _same(step.name, declared.column):
            name = declared.column
    return dataclasses.replace(declared, column=name)


def _name_after(declared: str, name: str, step: Select) -> str:
    if any(_same(one, declared) for column in step.columns for one in column.names):
        return declared
    if any(not column.names for column in step.columns):
        return name
    own = [one.names[0] for one in step.columns if one.generator is None and _same(one.expression, name)]
    return name if not own or any(_same(one, name) for one in own) else own[0]


def _same(one: str, other: str) -> bool:
    return one.strip("`").lower() == other.strip("`").lower()
