"""The narrow steps of a stage as the worker takes them, over the columns that `JsonDecoder` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions.expression import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Call,
    Column,
    Expression,
)
from airflow_provider.streaming.expressions.spark_sql import LeftToSparkError, parse_expression
from airflow_provider.streaming.json.json_decoder import Decoded, JsonDecoder
from airflow_provider.streaming.terms.steps import (
    FAILED_ROW,
    CompositeKey,
    Filter,
    LatestTime,
    Select,
    Step,
    WithColumn,
)

_NO_MARK: Final = pa.nulls(1, pa.int32())[0]


@dataclass(frozen=True)
class _Mark:
    """Marks the rows for which a condition is not true, unless they are marked already."""

    condition: Expression
    number: int


@dataclass(frozen=True)
class _Columns:
    """The columns from there on, by name."""

    made: Mapping[str, Expression]


@dataclass(frozen=True)
class SteppedDecoder:
    """Decodes JSON values, and takes steps with their columns.

    Args:
        kinds: by column that there is at the end, its type (`expression.ARROW`).
    """

    decoder: JsonDecoder
    steps: tuple[_Mark | _Columns, ...]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, decoder: JsonDecoder, steps: Sequence[Step]) -> SteppedDecoder:
        """Decodes as that one does, and takes these steps then.

        Raises:
            LeftToSparkError: a step is one that only Spark can take.
        """
        kinds = {field.name: field.kind for field in decoder.fields}
        made = list[_Mark | _Columns]()
        number = 0
        for step in steps:
            if isinstance(step, Filter):
                made.append(_mark(step, kinds, number))
            else:
                columns = _columns(step, kinds)
                made.append(_Columns(columns))
                kinds = {name: one.kind for name, one in columns.items()}
            number += isinstance(step, (Filter, Select)) and step.name is not None
        return cls(decoder, tuple(made), kinds)

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """The columns after all steps, and by which a row is dropped."""
        decoded = self.decoder.decode(values)
        columns, filtered = dict[str, Any](decoded.columns), pa.nulls(len(values), pa.int32())
        for step in self.steps:
            if isinstance(step, _Columns):
                columns = {name: _whole(one.of(columns), len(values)) for name, one in step.made.items()}
            else:
                dropped = pc.invert(pc.fill_null(step.condition.of(columns), False))
                filtered = pc.coalesce(filtered, pc.if_else(dropped, pa.scalar(step.number, pa.int32()), _NO_MARK))
        if decoded.bad:
            # What does not decode is dropped by no step.
            bad = pa.array([at in decoded.bad for at in range(len(values))])
            filtered = pc.if_else(bad, _NO_MARK, filtered)
        return Decoded(columns, decoded.bad, _whole(filtered, len(values)))


def _mark(step: Filter, kinds: Mapping[str, str], number: int) -> _Mark:
    condition = parse_expression(_text(step.condition), kinds)
    if condition.kind != BOOLEAN:
        raise LeftToSparkError("a condition that is no BOOLEAN")
    return _Mark(condition, FAILED_ROW if step.name is None else number)


def _columns(step: Step, kinds: Mapping[str, str]) -> dict[str, Expression]:
    """All columns that there are behind a step that is no filter."""
    before: dict[str, Expression] = {name: Column(name, kind) for name, kind in kinds.items()}
    made: Expression
    match step:
        case Select():
            return _selected(step, kinds, before)
        case WithColumn():
            made = parse_expression(_text(step.expression), kinds)
        case CompositeKey():
            made = Call("key_text", tuple(_key_part(_column(name, kinds)) for name in step.columns), STRING)
        case LatestTime():
            parts = tuple(_column(name, kinds) for name in step.columns)
            if any(part.kind != BIGINT for part in parts):
                raise LeftToSparkError("an event time that is no BIGINT")
            made = Call("latest", parts, BIGINT)
        case Filter():
            raise AssertionError("a filter makes no columns")
    _refuse_name(step.name, kinds)
    return before | {step.name: made}


def _selected(step: Select, kinds: Mapping[str, str], before: dict[str, Expression]) -> dict[str, Expression]:
    made = dict[str, Expression]()
    for selected in step.columns:
        if selected.generator is not None:
            raise LeftToSparkError(f"{selected.generator}()")
        given = {selected.names[0]: parse_expression(selected.expression, kinds)} if selected.names else before
        for name in given:
            _refuse_name(name, made)
        if given.keys() & made.keys():
            raise LeftToSparkError("two columns of one name")
        made |= given
    return made


def _text(expression: object) -> str:
    if not isinstance(expression, str):
        raise LeftToSparkError("a Column of Spark's")
    return expression


def _refuse_name(name: str, known: Mapping[str, object]) -> None:
    if any(name != other and name.lower() == other.lower() for other in known):
        raise LeftToSparkError("columns whose names differ by case alone")
    if name.startswith("__"):
        raise LeftToSparkError(f"{name!r}, a name that rows have for themselves")


def _column(name: str, kinds: Mapping[str, str]) -> Column:
    if name not in kinds:
        raise LeftToSparkError(f"{name!r}, which is no column of a plain type")
    return Column(name, kinds[name])


def _key_part(column: Column) -> Expression:
    if column.kind in (DOUBLE, TIMESTAMP):
        raise LeftToSparkError(f"a {column.kind} as a part of a key")
    return column if column.kind == STRING else Call("to_text", (column,), STRING)


def _whole(values: Any, count: int) -> pa.Array:
    """One value for each row."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, count)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
