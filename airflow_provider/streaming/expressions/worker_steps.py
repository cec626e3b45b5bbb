"""The narrow steps of a stage as the worker takes them, over the columns that `JsonDecoder` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions.expression import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Call,
    Column,
    Expression,
)
from airflow_provider.streaming.expressions.spark_sql import LeftToSparkError, parse_elements, parse_expression
from airflow_provider.streaming.json.json_decoder import WINDOW, Decoded, JsonDecoder, JsonField
from airflow_provider.streaming.terms.steps import (
    CARRIED,
    FAILED_ROW,
    CompositeKey,
    Filter,
    LatestTime,
    Select,
    Selected,
    Step,
    WithColumn,
)

TIMES: Final = (BIGINT, TIMESTAMP, WINDOW)
"""The types of what may be an event time."""
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
class _Explode:
    """Makes a row of each element that a column is split into.

    Args:
        made: the columns from there on, by name, that one with what it is split into.
        number: marks a row that has none; None where it stays, with null.
    """

    made: Mapping[str, Expression]
    name: str
    number: int | None


class RawDecoder:
    """Takes the values of records without a schema as they are."""

    fields = (JsonField("value", BINARY),)

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """One column, and no value is bad."""
        return Decoded({"value": values.combine_chunks()}, {})


@dataclass(frozen=True)
class SteppedDecoder:
    """Decodes values, and takes steps with their columns.

    Args:
        kinds: by column that there is at the end, its type (`expression.ARROW`).
    """

    decoder: JsonDecoder | RawDecoder
    steps: tuple[_Mark | _Columns | _Explode, ...]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, decoder: JsonDecoder | RawDecoder, steps: Sequence[Step]) -> SteppedDecoder:
        """Decodes as that one does, and takes these steps then.

        Raises:
            LeftToSparkError: a step is one that only Spark can take.
        """
        kinds = {field.name: field.kind for field in decoder.fields}
        made = list[_Mark | _Columns | _Explode]()
        number = 0
        for step in steps:
            if isinstance(step, Filter):
                made.append(_mark(step, kinds, number))
            else:
                columns = _columns(step, kinds)
                exploded = _generator_of(step)
                if exploded is None:
                    made.append(_Columns(columns))
                else:
                    mark = number if exploded.generator == "explode" else None
                    made.append(_Explode(columns, exploded.names[0], mark))
                kinds = {name: one.kind for name, one in columns.items()}
            number += isinstance(step, (Filter, Select)) and step.name is not None
        return cls(decoder, tuple(made), {name: kind for name, kind in kinds.items() if kind != BINARY})

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """The columns after all steps, and by which a row is dropped."""
        decoded, rows = self.decoder.decode(values), None
        columns, filtered = dict[str, Any](decoded.columns), pa.nulls(len(values), pa.int32())
        bad = pa.array([at in decoded.bad for at in range(len(values))]) if decoded.bad else None
        for step in self.steps:
            if isinstance(step, _Mark):
                dropped = pc.invert(pc.fill_null(step.condition.of(columns), False))
                filtered = pc.coalesce(filtered, pc.if_else(dropped, pa.scalar(step.number, pa.int32()), _NO_MARK))
                continue
            columns = {name: _whole(one.of(columns), len(filtered)) for name, one in step.made.items()}
            if isinstance(step, _Explode):
                live = pc.is_null(filtered) if bad is None else pc.and_not(pc.is_null(filtered), bad)
                elements, of = _taken_apart(columns[step.name], live)
                columns = {name: elements if name == step.name else one.take(of) for name, one in columns.items()}
                lacking = pc.and_(pc.is_null(elements), live.take(of))
                mark = _NO_MARK if step.number is None else pa.scalar(step.number, pa.int32())
                filtered = pc.if_else(lacking, mark, filtered.take(of))
                bad = None if bad is None else bad.take(of)
                rows = of if rows is None else rows.take(of)
        why = decoded.bad
        if bad is not None:
            # What does not decode is dropped by no step, and taken apart by none.
            filtered = pc.if_else(bad, _NO_MARK, filtered)
            if rows is not None:
                why = {at: why[rows[at].as_py()] for at in pc.indices_nonzero(bad).to_pylist()}
        return Decoded({name: columns[name] for name in self.kinds}, why, filtered, rows)


def _taken_apart(lists: pa.ListArray, live: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Each element of the rows that are live, and a null of every other row; and of which row each is."""
    lists = pc.if_else(live, lists, pa.scalar(None, lists.type))
    there = lists.is_valid().to_numpy(zero_copy_only=False)
    counts = pc.fill_null(pc.list_value_length(lists), 1).to_numpy()
    elements = pc.list_flatten(lists)
    if not there.all():
        filled = np.repeat(there, counts)
        at = np.cumsum(filled) - 1
        elements = elements.take(pa.array(at, mask=~filled))
    return elements, pa.array(np.repeat(np.arange(len(counts)), counts))


def _generator_of(step: Step) -> Selected | None:
    return next((one for one in step.columns if one.generator), None) if isinstance(step, Select) else None


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
            if any(part.kind not in TIMES for part in parts):
                raise LeftToSparkError("an event time that is none")
            made = Call("latest", tuple(Call("event_ms", (part,), BIGINT) for part in parts), BIGINT)
        case Filter():
            raise AssertionError("a filter makes no columns")
    _refuse_name(step.name, kinds)
    return before | {step.name: made}


def _selected(step: Select, kinds: Mapping[str, str], before: dict[str, Expression]) -> dict[str, Expression]:
    made = dict[str, Expression]()
    for selected in step.columns:
        if len(selected.names) > 1:
            raise LeftToSparkError(f"{selected.generator}() of a map")
        parse = parse_expression if selected.generator is None else parse_elements
        given = {selected.names[0]: parse(selected.expression, kinds)} if selected.names else before
        for name in given:
            _refuse_name(name, made)
        if given.keys() & made.keys():
            raise LeftToSparkError("two columns of one name")
        made |= given
    return made | {name: before[name] for name in CARRIED if name in before}


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
    if column.kind in (BINARY, DOUBLE, TIMESTAMP, WINDOW):
        raise LeftToSparkError(f"a {column.kind} as a part of a key")
    return column if column.kind == STRING else Call("to_text", (column,), STRING)


def _whole(values: Any, count: int) -> pa.Array:
    """One value for each row."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, count)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
