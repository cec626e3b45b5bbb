"""The narrow steps of a stage as the worker takes them, over the columns that `JsonDecoder` makes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions.expression import (
    ARROW,
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

_CONTROL: Final = re.compile(r"\\u00[0-9a-f]{2}")
_ESCAPED: Final = r'["\\\x00-\x1f]'


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
class _Composite:
    """Adds the JSON array of some texts; null where one is null."""

    name: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class _Latest:
    """Adds the greatest of some numbers; a null counts for nothing."""

    name: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class SteppedDecoder:
    """Decodes JSON values, and takes steps with their columns.

    Args:
        kinds: by column that there is at the end, its type (`expression.ARROW`).
    """

    decoder: JsonDecoder
    steps: tuple[_Mark | _Columns | _Composite | _Latest, ...]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, decoder: JsonDecoder, steps: Sequence[Step]) -> SteppedDecoder:
        """Decodes as that one does, and takes these steps then.

        Raises:
            LeftToSparkError: a step is one that only Spark can take.
        """
        kinds = {field.name: field.kind for field in decoder.fields}
        made = list[_Mark | _Columns | _Composite | _Latest]()
        number = 0
        for step in steps:
            made.append(_made(step, kinds, number))
            kinds = _kinds_after(made[-1], kinds)
            number += isinstance(step, (Filter, Select)) and step.name is not None
        return cls(decoder, tuple(made), kinds)

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """The columns after all steps, and by which a row is dropped.

        Raises:
            CannotComputeError: a step's expression cannot be computed for one of the values.
        """
        decoded = self.decoder.decode(values)
        columns, filtered = dict[str, Any](decoded.columns), pa.nulls(len(values), pa.int32())
        for step in self.steps:
            match step:
                case _Mark():
                    dropped = pc.invert(pc.fill_null(step.condition.of(columns), False))
                    mark = pa.scalar(step.number, pa.int32())
                    filtered = pc.coalesce(filtered, pc.if_else(dropped, mark, pa.scalar(None, pa.int32())))
                case _Columns():
                    columns = {name: _whole(one.of(columns), len(values)) for name, one in step.made.items()}
                case _Composite():
                    columns[step.name] = _composite([one.of(columns) for one in step.parts])
                case _Latest():
                    columns[step.name] = pc.max_element_wise(*(one.of(columns) for one in step.parts))
        if decoded.bad:
            # What does not decode is dropped by no step.
            bad = pa.array([at in decoded.bad for at in range(len(values))])
            filtered = pc.if_else(bad, pa.scalar(None, pa.int32()), filtered)
        return Decoded(columns, decoded.bad, _whole(filtered, len(values)))


def _made(step: Step, kinds: Mapping[str, str], number: int) -> _Mark | _Columns | _Composite | _Latest:
    match step:
        case Filter():
            condition = parse_expression(_text(step.condition), kinds)
            if condition.kind != BOOLEAN:
                raise LeftToSparkError("a condition that is no BOOLEAN")
            return _Mark(condition, FAILED_ROW if step.name is None else number)
        case WithColumn():
            _refuse_other_case(step.name, kinds)
            made = parse_expression(_text(step.expression), kinds)
            return _Columns({name: Column(name, kind) for name, kind in kinds.items()} | {step.name: made})
        case Select():
            return _selected(step, kinds)
        case CompositeKey():
            _refuse_other_case(step.name, kinds)
            return _Composite(step.name, tuple(_key_text(_column(name, kinds)) for name in step.columns))
        case LatestTime():
            parts = tuple(_column(name, kinds) for name in step.columns)
            if any(part.kind != BIGINT for part in parts):
                raise LeftToSparkError("an event time that is no BIGINT")
            return _Latest(step.name, parts)


def _selected(step: Select, kinds: Mapping[str, str]) -> _Columns:
    made = dict[str, Expression]()
    for selected in step.columns:
        if selected.generator is not None:
            raise LeftToSparkError(f"{selected.generator}()")
        if not selected.names:
            given: dict[str, Expression] = {name: Column(name, kind) for name, kind in kinds.items()}
        else:
            given = {selected.names[0]: parse_expression(selected.expression, kinds)}
        for name in given:
            _refuse_other_case(name, made)
        if given.keys() & made.keys():
            raise LeftToSparkError("two columns of one name")
        made |= given
    return _Columns(made)


def _kinds_after(step: _Mark | _Columns | _Composite | _Latest, kinds: Mapping[str, str]) -> dict[str, str]:
    match step:
        case _Columns():
            return {name: one.kind for name, one in step.made.items()}
        case _Composite():
            return {**kinds, step.name: STRING}
        case _Latest():
            return {**kinds, step.name: BIGINT}
        case _Mark():
            return dict(kinds)


def _text(expression: object) -> str:
    if not isinstance(expression, str):
        raise LeftToSparkError("a Column of Spark's")
    return expression


def _refuse_other_case(name: str, known: Mapping[str, object]) -> None:
    if any(name != other and name.lower() == other.lower() for other in known):
        raise LeftToSparkError("columns whose names differ by case alone")
    if name.startswith("__"):
        raise LeftToSparkError(f"{name!r}, a name that rows have for themselves")


def _column(name: str, kinds: Mapping[str, str]) -> Column:
    if name not in kinds:
        raise LeftToSparkError(f"{name!r}, which is no column of a plain type")
    return Column(name, kinds[name])


def _key_text(column: Column) -> Expression:
    if column.kind in (DOUBLE, TIMESTAMP):
        raise LeftToSparkError(f"a {column.kind} as a part of a key")
    return column if column.kind == STRING else Call("to_text", (column,), STRING)


def _whole(values: Any, count: int) -> pa.Array:
    """One value for each row."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, count)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _composite(parts: Sequence[Any]) -> pa.Array:
    """As Spark's ``to_json(array(...))`` writes texts."""
    if any(pc.any(pc.match_substring_regex(part, _ESCAPED)).as_py() for part in parts):
        rows = zip(*(part.to_pylist() for part in parts), strict=True)
        return pa.array([None if None in row else _json_array(row) for row in rows], ARROW[STRING])
    between = pa.scalar('","')
    inner = pc.binary_join_element_wise(*parts, between, null_handling="emit_null")
    return pc.binary_join_element_wise(pa.scalar('["'), inner, pa.scalar('"]'), pa.scalar(""))


def _json_array(texts: Sequence[str]) -> str:
    written = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    # Jackson writes the digits of a control character in upper case.
    return _CONTROL.sub(lambda found: "\\u" + found[0][2:].upper(), written)
