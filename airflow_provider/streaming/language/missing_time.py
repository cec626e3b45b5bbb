"""Rows whose event time ended with a join of two streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.language.join import Join

if TYPE_CHECKING:
    from airflow_provider.streaming.language.stream import Stream


def refuse_missing_time(method: str, stream: Stream) -> None:
    """Refuse to ask for an event time behind a join of two streams, with what to do instead.

    Other streams without one pass: what needs it says how to name it.

    Args:
        method: that needs the event time, for the error.
        stream: of whose rows it does.

    Raises:
        ConfigurationError: the rows come from a join of two streams.
    """
    for branch in stream.branches:
        if branch.event_time is None and _is_of_two_streams(branch.origin):
            raise ConfigurationError(
                f"{method} needs an event time, and the result of a join of two streams has no event time yet "
                f"({branch.topic}): write it to a topic with sink(), and read that with event_time=... and "
                "watermark=... in another job."
            )


def _is_of_two_streams(join: Join | None) -> bool:
    if join is None or not isinstance(join.operation, StreamTableJoin):
        return join is not None and isinstance(join.operation, IntervalJoin)
    return any(_is_of_two_streams(branch.origin) for branch in join.left.branches)
