"""Where a branch of a job ends: a topic, and rows with a key on their way to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import check_topic
from airflow_provider.streaming.language.column_check import check_grouping
from airflow_provider.streaming.terms.argument_check import check_kind

if TYPE_CHECKING:
    from airflow_provider.streaming.language.stream import Stream
    from airflow_provider.streaming.language.table import Table


@dataclass(frozen=True)
class Sink:
    """A topic, and what is written there; a job is made of its sinks.

    Args:
        topic: created where it is missing, by the deploy DAG or ``topics repair JOB.py --apply``.
        of: a stream or a table whose rows are written as what makes them puts them out, or rows under a key.
    """

    topic: str
    of: Stream | Table | KeyedRows

    def __post_init__(self) -> None:
        """Check the topic."""
        check_kind("sink() got topic=", self.topic, str, "one text")
        check_topic("sink()", self.topic)


@dataclass(frozen=True)
class KeyedRows:
    """Rows that are written as they are; `Stream.sink` makes it.

    Args:
        key: the column whose text is the new records' key.
        columns: that the new values hold, in order, the key's among them.
    """

    stream: Stream
    key: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, stream: Stream, key: str | None) -> KeyedRows:
        """See `Stream.sink`.

        Raises:
            ConfigurationError: no column is known to be the key, or the columns are known to Spark alone.
        """
        known, columns = key or stream.key, stream.columns
        if known is None:
            raise ConfigurationError(
                f"sink() of the rows of {stream.topic!r} got no key, and none of their columns is known to be one: "
                'name the column, such as sink("words", key="word").'
            )
        names = stream.written_columns(f"sink() of the rows of {stream.topic!r}")
        if columns is not None:
            check_grouping(columns, known, "group_by()" if key is None else "sink()")
        return cls(stream, known, names)
