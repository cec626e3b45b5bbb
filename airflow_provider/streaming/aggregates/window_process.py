"""A Python function that is called once for each key and window, with all rows of it, when it is over."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from airflow_provider.streaming.aggregates.aggregator import Aggregator, NoRoomError
from airflow_provider.streaming.json.json_rows import iso_times, key_parts
from airflow_provider.streaming.json.user_values import encode_state, rows_of
from airflow_provider.streaming.operations.process import Row, no_records_fault, python_rows, time_limit
from airflow_provider.streaming.operations.put_out import PutOut


class WindowBounds(NamedTuple):
    """The window that a function is called for.

    Args:
        start: its first moment, in UTC.
        end: the first one behind it; of a session the gap after its last row.
    """

    start: dt.datetime
    end: dt.datetime


WindowFunction = Callable[[str, list[Row], WindowBounds], Iterable[Row] | None]
"""``function(key, rows, window)``: returns output rows, or None for none."""


@dataclass(frozen=True)
class RowsOfWindow(Aggregator):
    """The rows themselves, in ascending order of their columns, so that they are the same in whatever order they came.

    Args:
        limit: how many rows there are at most.
    """

    names: tuple[str, ...]
    limit: int

    @property
    def name(self) -> str:
        return "rows"

    def zero(self) -> Any:
        return []

    def add(self, state: Any, *values: Any) -> Any:
        """See `Aggregator.add`; of a row that Python cannot hold it gets why alone."""
        if values and isinstance(values[0], _Unreadable):
            raise ValueError(values[0].why)
        return self.merge(state, [list(values)])

    def merge(self, state: Any, other: Any) -> Any:
        if len(state) + len(other) > self.limit:
            raise NoRoomError(
                f"process() keeps the rows of a window until it is over, and there are more than {self.limit:,} of one "
                "key: give process(limit=...) more, or let aggregate() keep less of them"
            )
        return state + other

    def encode(self, state: Any) -> bytes:
        return super().encode(sorted(state, key=lambda row: [*map(_place, row)]))

    def result(self, state: Any) -> Any:
        return [dict(zip(self.names, row, strict=True)) for row in state]

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        return pa.list_(pa.struct(list(zip(self.names, types, strict=True))))

    def read(self, columns: Sequence[pa.ChunkedArray]) -> list[tuple[Any, ...] | None]:
        rows, unreadable = python_rows(pa.table(list(columns), names=list(self.names)))
        return [
            (_Unreadable(unreadable[at]),) if at in unreadable else tuple(row.values()) for at, row in enumerate(rows)
        ]


class _Unreadable(NamedTuple):
    why: str


def _place(value: Any) -> tuple[int, Any]:
    """By which values of a column are ordered: null comes first, NaN last, and what has no order goes by its bytes."""
    if value is None:
        return 0, 0
    if isinstance(value, float) and math.isnan(value):
        return 2, 0
    return 1, encode_state(value) if isinstance(value, (dict, list)) else value


@dataclass(frozen=True)
class WindowCalls:
    """What is done with the windows that close.

    Args:
        timeout_s: how long a call may take, in seconds; None for no limit.
        by: the columns of a key of several, for the output; empty for one.
        schema: of the rows that it returns, in Spark DDL; None where nothing follows.
    """

    function: WindowFunction
    timeout_s: float | None
    by: tuple[str, ...]
    schema: str | None

    def put_out(
        self, key_name: str, groups: Sequence[bytes], windows: pa.StructArray, rows: pa.Array
    ) -> list[list[bytes]]:
        """By window, what comes out.

        Args:
            windows: with their `start` and `end`.
            rows: by window, a list of structs.

        Raises:
            ConfigurationError: the function raised, which is no record's fault.
        """
        texts = zip(*(iso_times(windows.field(name)).to_pylist() for name in WindowBounds._fields), strict=True)
        bounds = zip(*(windows.field(name).to_pylist() for name in WindowBounds._fields), strict=True)
        given = rows.to_pylist(maps_as_pydicts="strict")
        calls = zip(groups, map(WindowBounds._make, texts), map(WindowBounds._make, bounds), given, strict=True)
        return [self._called(key_name, *call) for call in calls]

    def _called(
        self, key_name: str, group: bytes, text: WindowBounds, window: WindowBounds, rows: list[Row]
    ) -> list[bytes]:
        key = group.decode("utf-8", "replace")
        try:
            with time_limit(self.timeout_s):
                returned = rows_of(self.function(key, rows, window))
            names = {**key_parts(key_name, self.by, key), "window": text._asdict()}
            return [row for _, row in PutOut.of(returned, group, names, {}).rows if row is not None]
        except MemoryError:
            raise  # the host's
        except Exception as error:
            called = (
                f"The function of process() was called for key {key!r} and the window from {text.start} to {text.end}, "
                f"with {len(rows):,} row(s)"
            )
            raise no_records_fault(called, f"it raised {type(error).__name__}: {error}", "window") from error
