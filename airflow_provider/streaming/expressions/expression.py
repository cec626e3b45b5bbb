"""Expressions over decoded columns, computed by pyarrow as Spark 4 computes them.

An expression has one of the types of `JsonDecoder`, or is the BINARY of a record without a schema. Which
expressions there are, and of which types, `spark_sql` decides; a random test holds both to Spark. For some values some
have none, as where integers overflow: `computed` says of which rows.
Source: Spark 4.2, ``sql/catalyst/expressions`` (``predicates``, ``arithmetic``, ``conditionalExpressions``, ``Cast``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions.row_functions import FUNCTIONS, LACKING
from airflow_provider.streaming.expressions.time_functions import Values
from airflow_provider.streaming.json.json_decoder import PLAIN, WINDOW, WINDOW_TYPE, JsonField
from airflow_provider.streaming.json.types import arrow_type

STRING, INT, BIGINT, DOUBLE, BOOLEAN = "STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN"
TIMESTAMP, DATE = "TIMESTAMP", "DATE"
BINARY: Final = "BINARY"
_ARROW: Final[Mapping[str, pa.DataType]] = {**PLAIN, BINARY: pa.binary(), WINDOW: WINDOW_TYPE}


def arrow_of(kind: str) -> pa.DataType:
    """Arrow's type of an expression's, such as ``DECIMAL(24,3)``."""
    found = _ARROW.get(kind) or arrow_type(kind)
    assert found is not None
    return found


@cache
def fields_of(kind: str) -> Mapping[str, str]:
    """The types of a STRUCT's fields, or of a window's, by name; none for another type."""
    if kind == WINDOW:
        return {"start": TIMESTAMP, "end": TIMESTAMP}
    inner = JsonField("", kind).inner
    return {} if inner is None else {field.name: field.kind for field in inner.fields}


def is_of_time(kind: str) -> bool:
    """Whether it has points in time, which have a text by a session's zone."""
    return kind == TIMESTAMP or any(map(is_of_time, fields_of(kind).values()))


class Expression(ABC):
    """One value for each row.

    Attributes:
        kind: its type: one of `JsonDecoder`'s, or BINARY.
    """

    kind: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What it is made of."""
        return ()

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset().union(*(part.names for part in self.parts))

    @cached_property
    def may_lack(self) -> bool:
        """Whether there are values for which it has none."""
        return any(part.may_lack for part in self.parts)

    @abstractmethod
    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        """Its values."""


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column."""

    name: str
    kind: str

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset([self.name])

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        return columns[self.name]


@dataclass(frozen=True)
class Literal(Expression):
    """The same value in every row; None for null."""

    value: str | int | float | bool | Decimal | date | None
    kind: str

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        return pa.scalar(self.value, arrow_of(self.kind))


@dataclass(frozen=True)
class Case(Expression):
    """The value behind the first condition that is true; without one, the last value."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    kind: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        return *(one for branch in self.branches for one in branch), self.otherwise

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        result = self.otherwise.of(columns)
        for condition, value in reversed(self.branches):
            result = pc.if_else(pc.fill_null(condition.of(columns), False), value.of(columns), result)
        return result


@dataclass(frozen=True)
class Call(Expression):
    """A function of `FUNCTIONS`.

    Args:
        options: of the function, such as a pattern.
    """

    function: str
    arguments: tuple[Expression, ...]
    kind: str
    options: tuple[Any, ...] = ()

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.arguments

    @cached_property
    def may_lack(self) -> bool:
        return self.function in LACKING or any(part.may_lack for part in self.parts)

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        return self.with_arguments([argument.of(columns) for argument in self.arguments])

    def with_arguments(self, values: Sequence[Values]) -> Values:
        """Its values where its arguments have these."""
        return FUNCTIONS[self.function](*values, *self.options)
