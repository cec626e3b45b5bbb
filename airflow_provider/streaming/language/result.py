"""What a keyed operation comes to."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.operations.aggregate import Aggregation
from airflow_provider.streaming.operations.merge_aggregation import MergeAggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.partial_aggregation import PartialAggregation
from airflow_provider.streaming.operations.repartition import Repartition

if TYPE_CHECKING:
    from airflow_provider.streaming.language.grouped import GroupedStream

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """Aggregates by key, or what a function makes of each key; `GroupedStream` makes it.

    Args:
        grouped: the rows.
        operation: what is done with the rows of a key.
        name: of the store and of the internal topic; None for the sink's topic.
        combine: whether rows are aggregated before they go through an internal topic.
    """

    grouped: GroupedStream
    operation: Operation
    _: KW_ONLY
    name: str | None = None
    combine: bool = False

    @property
    def halves(self) -> tuple[Operation, Operation]:
        """The operation in two: what is done before an internal topic, and behind it."""
        if self.combine and isinstance(self.operation, Aggregation):
            aggregates = self.operation.aggregates
            return PartialAggregation(aggregates), MergeAggregation(aggregates)
        return Repartition(self.operation.columns), self.operation

    def sink(self, topic: str) -> Sink:
        """Write the output to a topic: the record's key is the key, its value a JSON object.

        Args:
            topic: which has to exist.

        Raises:
            ConfigurationError: it is no topic's name.
        """
        return Sink(topic, self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse what comes before an operation, with what to do.

            Raises:
                ConfigurationError: it is a method of a stream.
                AttributeError: it is anything else.
            """
            if name in ("select", "filter", "with_column", "group_by", "aggregate", "process", "union", "join"):
                raise ConfigurationError(
                    f"{name}() was called on the result of an operation, whose rows have no further steps yet: call "
                    "sink(topic) on it, and read that topic in another job; or compute it in process()."
                )
            raise AttributeError(name)
