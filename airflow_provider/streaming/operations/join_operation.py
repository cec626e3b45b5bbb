"""What a join is to the planner, beside what every operation is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from airflow_provider.streaming.operations.join_rows import How, JoinedColumns, JoinRows
from airflow_provider.streaming.operations.operation import Operation

__all__ = ["JoinOperation"]


@runtime_checkable
class JoinOperation(Operation, Protocol):
    """An operation whose rows are those of two sides, as `operations.join_rows` describes them.

    Its `columns` are those of the rows that it emits.
    """

    @property
    def joined(self) -> JoinedColumns:
        """The columns, by side."""

    @property
    def how(self) -> How:
        """Which rows without a partner it emits."""

    @property
    def decoder(self) -> JoinRows:
        """Reads the values of the records."""
