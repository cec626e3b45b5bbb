"""Where a branch of a job ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider.kafka.names import check_topic
from airflow_provider.streaming.terms.argument_check import check_kind

if TYPE_CHECKING:
    from airflow_provider.streaming.language.keyed_rows import KeyedRows
    from airflow_provider.streaming.language.result import Result
    from airflow_provider.streaming.language.table import Table


@dataclass(frozen=True)
class Sink:
    """A topic, and what is written there; a job is made of its sinks.

    Args:
        topic: which has to exist.
        of: what is written.

    Raises:
        ConfigurationError: the topic is no text, or no topic's name.
    """

    topic: str
    of: Result | KeyedRows | Table

    def __post_init__(self) -> None:
        """Check the topic."""
        check_kind("sink() got topic=", self.topic, str, "one text")
        check_topic("sink()", self.topic)
