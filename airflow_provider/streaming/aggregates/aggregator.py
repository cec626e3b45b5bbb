"""What an aggregate is that keeps a state by itself: a user's own, and those built in that are made like it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json.json_rows import python_values
from airflow_provider.streaming.json.types import arrow_type
from airflow_provider.streaming.json.user_values import decode_state, encode_state

Taken = Literal["any", "ordered", "number"]
"""What a column of an aggregate has to be: nothing, of a type that has an order, or a number.

Those built in read what has to be a number as doubles: an integer beyond 2**53 is rounded. What has to stay exact is
"ordered", and refuses what it cannot add.
"""

ADVICE: Final[dict[str, str]] = {
    "any": "",
    "ordered": "Cast the column with with_column() to STRING, or name a part of it.",
    "number": "Cast the column with with_column() to a number.",
}
"""By what a column has to be and is not, what to do."""


def needed_of(taken: Sequence[Taken], at: int) -> Taken:
    """What the column at a place has to be; behind the last one as that."""
    return taken[min(at, len(taken) - 1)]


def suits(needed: Taken, *, ordered: bool, number: bool) -> bool:
    """Whether a column is what it has to be.

    Args:
        ordered: whether its type has an order that is kept.
        number: whether it is a number.
    """
    return {"any": True, "ordered": ordered, "number": number}[needed]


class Aggregator(ABC):
    """An aggregate of your own: ``F.udaf(Ratio(), "won", "played").alias("ratio")``.

    The words are those of Spark's ``Aggregator``. Its methods compute the same from the same arguments, because a
    micro-batch may be computed again. A state is what a function of ``process()`` may keep (`json.user_values`), and
    not None; a method may change the state that it is given first, and returns it. What a method raises is laid on the
    record that it was called for.

    One whose order of rows matters, or whose states cannot become one, leaves `merge` out: its rows are not combined
    before an internal topic, and it is refused in sessions.

    Attributes:
        result_type: of what `result` returns, in Spark DDL, such as ``"DOUBLE"`` or ``"ARRAY<STRING>"``.
        version: of the state, as its author counts: the state of another version is refused, not misread.
    """

    result_type: ClassVar[str]
    version: ClassVar[int] = 1

    taken: ClassVar[tuple[Taken, ...]] = ("any",)
    """What each column has to be; of others as the last one."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if unknown := set(cls.taken) - ADVICE.keys():
            raise ConfigurationError(
                f"{cls.__name__} has taken={cls.taken}, and there is no {min(unknown)!r}: of each column say one of "
                f"{', '.join(map(repr, ADVICE))}."
            )

    @abstractmethod
    def zero(self) -> Any:
        """The state before the first row; a new one with each call."""

    @abstractmethod
    def add(self, state: Any, *values: Any) -> Any:
        """The state with one row more.

        Args:
            values: of the row's columns, with the types that rows have in ``process()``; None for a null.
        """

    def merge(self, state: Any, other: Any) -> Any:
        """One state of two, for the same result as if all of their rows had been added to one."""
        raise NotImplementedError(f"{type(self).__name__} has no merge()")

    @abstractmethod
    def result(self, state: Any) -> Any:
        """What comes out; None for a null. It leaves the state as it is."""

    # -- what those built in do otherwise ------------------------------------------------------------------------

    @property
    def mergeable(self) -> bool:
        """Whether two states can become one."""
        return type(self).merge is not Aggregator.merge

    @property
    def name(self) -> str:
        """Of the function, in descriptions and in what a store's state means."""
        return type(self).__name__

    @property
    def parameters(self) -> tuple[str, ...]:
        """What else its state depends on."""
        return () if self.version == 1 else (f"version={self.version}",)

    def type_of_result(self, types: Sequence[pa.DataType]) -> pa.DataType:
        """See `result_type`."""
        kind = arrow_type(self.result_type)
        assert kind is not None, "F.udaf() has looked at it"
        return kind

    def read(self, columns: Sequence[pa.ChunkedArray]) -> list[tuple[Any, ...] | None]:
        """By row, what `add` is given; None for a row that adds nothing."""
        return list(zip(*map(_as_in_process, columns), strict=True))

    def encode(self, state: Any) -> bytes:
        """The same bytes of the same state."""
        if state is None:
            raise ValueError("a state is None: let zero() and add() return one")
        return encode_state(state)

    def decode(self, data: bytes) -> Any:
        """The inverse of `encode`."""
        return decode_state(data)

    def results(self, states: Sequence[Any], types: Sequence[pa.DataType]) -> pa.Array:
        """The results of many states."""
        return pa.array([self.result(state) for state in states], self.type_of_result(types))


class NoRoomError(ValueError):
    """A state has no room for what is added; it is as it was."""


def _as_in_process(column: pa.ChunkedArray) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (ValueError, OverflowError, KeyError):  # a date that Python cannot hold is its text
        values = python_values(column.combine_chunks())
    return values
