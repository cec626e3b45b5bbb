"""What lies between two stages and is not processed yet."""

from __future__ import annotations

from types import TracebackType

from confluent_kafka import KafkaException

from airflow_provider.control.topics.view import ControlView
from airflow_provider.demo.narrator import positions
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.streaming.driver.watches.source_ends import SourceEnds


class Backlog:
    """The records of an internal topic; a context manager.

    Args:
        topic: the internal topic.
        stage: that reads it.
    """

    def __init__(self, connection: KafkaConnection, topic: str, stage: int) -> None:
        self._ends, self._stage = SourceEnds(connection, topic), stage

    def __enter__(self) -> Backlog:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the cluster."""
        self._ends.close()

    def is_empty(self, view: ControlView) -> bool:
        """Whether all that lies there now is processed; not before it is known.

        Args:
            view: read before this is called.
        """
        offsets = positions(view, self._stage)
        try:
            ends = self._ends.look(offsets)
        except (KafkaException, TimeoutError):
            return False
        return all(ends[partition].lag_records(offset) == 0 for partition, offset in offsets.items())
