"""The narrow steps of a stage as the worker takes them, over the columns that `JsonDecoder` makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions.computed import computed
from airflow_provider.streaming.expressions.expression import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Call,
    Column,
    Expression,
    arrow_of,
    fields_of,
    is_of_time,
)
from airflow_provider.streaming.expressions.spark_sql import parse_elements, parse_expression
from airflow_provider.streaming.expressions.spark_types import LeftToSparkError
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
    TypedKey,
    WithColumn,
    step_text,
)

TIMES: Final = (BIGINT, TIMESTAMP, WINDOW)
"""The types of what may be an event time."""
_NO_MARK: Final = pa.nulls(1, pa.int32())[0]


@dataclass(frozen=True)
class _Mark:
    """Marks the rows for which a condition is not true, unless they are marked already."""

    condition: Expression
    number: int
    text: str


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
        kinds: by column that there is at the end, its type (`expression.arrow_of`).
        changes: whether a record without value is a deletion, which is dropped before all steps.
    """

    decoder: JsonDecoder | RawDecoder
    steps: tuple[_Mark | _Columns | _Explode, ...]
    kinds: Mapping[str, str]
    changes: bool = False

    @classmethod
    def of(
        cls,
        decoder: JsonDecoder | RawDecoder,
        steps: Sequence[Step],
        needed: Collection[str] | None = None,
        *,
        changes: bool = False,
    ) -> SteppedDecoder:
        """Decodes as that one does, and takes these steps then.

        Args:
            needed: the columns that anything is done with afterwards; None for all.

        Raises:
            LeftToSparkError: a step is one that only Spark can take.
        """
        kinds = {field.name: field.kind for field in decoder.fields}
        made = list[_Mark | _Columns | _Explode]()
        number = int(changes)
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
        if fields := _fields(needed or (), kinds):
            made.append(_Columns({name: Column(name, kind) for name, kind in kinds.items()} | fields))
            kinds |= {name: one.kind for name, one in fields.items()}
        kinds = {name: kind for name, kind in kinds.items() if kind != BINARY and (needed is None or name in needed)}
        first, pruned = _needed(made, kinds)
        return cls(decoder.only(first) if isinstance(decoder, JsonDecoder) else decoder, pruned, kinds, changes)

    @property
    def has_times(self) -> bool:
        """Whether a step has to do with points in time, which have a text by a session's zone."""
        made = [one for step in self.steps for one in _expressions(step)]
        return any(_is_of_time(one) for one in made)

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """The columns after all steps, by which a row is dropped, and why a row is bad."""
        decoded, rows = self.decoder.decode(values), None
        columns, filtered = dict[str, Any](decoded.columns), pa.nulls(len(values), pa.int32())
        if self.changes:
            filtered = pc.if_else(pc.is_null(values.combine_chunks()), pa.scalar(0, pa.int32()), _NO_MARK)
        why = pa.array([decoded.bad.get(at) for at in range(len(values))], pa.string()) if decoded.bad else None
        for step in self.steps:
            live = pc.is_null(filtered) if why is None else pc.and_(pc.is_null(filtered), pc.is_null(why))
            if isinstance(step, _Mark):
                holds, lacking = computed(step.condition, columns, live)
                why = _why(why, lacking, step.text)
                dropped = pc.invert(pc.fill_null(holds, False))
                filtered = pc.coalesce(filtered, pc.if_else(dropped, pa.scalar(step.number, pa.int32()), _NO_MARK))
                continue
            found = {name: computed(one, columns, live) for name, one in step.made.items()}
            for name, (_, lacking) in found.items():
                why = _why(why, lacking, f"the column {name!r}")
            columns = {name: one for name, (one, _) in found.items()}
            if isinstance(step, _Explode):
                live = live if why is None else pc.and_(live, pc.is_null(why))
                elements, of = _taken_apart(columns[step.name], live)
                columns = {name: elements if name == step.name else one.take(of) for name, one in columns.items()}
                lacking = pc.and_(pc.is_null(elements), live.take(of))
                mark = _NO_MARK if step.number is None else pa.scalar(step.number, pa.int32())
                filtered = pc.if_else(lacking, mark, filtered.take(of))
                why = None if why is None else why.take(of)
                rows = of if rows is None else rows.take(of)
        if why is not None:
            # What is bad is dropped by no step.
            filtered = pc.if_else(pc.is_valid(why), _NO_MARK, filtered)
        bad = {} if why is None else {at: why[at].as_py() for at in pc.indices_nonzero(pc.is_valid(why)).to_pylist()}
        return Decoded({name: columns[name] for name in self.kinds}, bad, filtered, rows)


def _fields(names: Collection[str], kinds: Mapping[str, str]) -> dict[str, Expression]:
    """Those of some names that are fields of a STRUCT, such as ``customer.city``."""
    paths = [name for name in names if name not in kinds and name.partition(".")[0] in kinds]
    return {name: parse_expression(name, kinds) for name in paths}


def _expressions(step: _Mark | _Columns | _Explode) -> Collection[Expression]:
    return (step.condition,) if isinstance(step, _Mark) else step.made.values()


def _is_of_time(expression: Expression) -> bool:
    return is_of_time(expression.kind) or any(map(_is_of_time, expression.parts))


def _why(known: pa.Array | None, lacking: pa.Array | None, of: str) -> pa.Array | None:
    """Why rows are bad, where some more have no value for a step."""
    if lacking is None:
        return known
    said = pc.binary_join_element_wise(pa.scalar(f"{of} cannot be computed: "), lacking, pa.scalar(""))
    return said if known is None else pc.coalesce(known, said)


def _needed(
    steps: Sequence[_Mark | _Columns | _Explode], names: Collection[str]
) -> tuple[set[str], tuple[_Mark | _Columns | _Explode, ...]]:
    """What is needed before the steps, and these without what nobody needs: what is not computed cannot be lacking."""
    needed, found = set(names), list[_Mark | _Columns | _Explode]()
    for step in reversed(steps):
        if isinstance(step, _Mark):
            needed |= step.condition.names
        else:
            kept = needed | {step.name} if isinstance(step, _Explode) else needed
            step = dataclasses.replace(step, made={name: one for name, one in step.made.items() if name in kept})
            needed = set[str]().union(*(one.names for one in step.made.values()))
        found.insert(0, step)
    return needed, tuple(found)


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
    return _Mark(condition, FAILED_ROW if step.name is None else number, step_text(step))


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
            made = Call("composite_key", tuple(_key_part(_column(name, kinds)) for name in step.columns), STRING)
        case TypedKey():
            made = _typed(_column(step.name, kinds), step.kind)
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
    return {name: before[name] for name in CARRIED if name in before} | made


def _text(expression: object) -> str:
    if not isinstance(expression, str):
        raise LeftToSparkError("a Column of Spark's")
    return expression


def _refuse_name(name: str, known: Mapping[str, object]) -> None:
    if any(name != other and name.lower() == other.lower() for other in known):
        raise LeftToSparkError("columns whose names differ by case alone")
    if name.startswith("__"):
        raise LeftToSparkError(f"{name!r}, a name that rows have for themselves")


def _column(name: str, kinds: Mapping[str, str]) -> Expression:
    if field := _fields([name], kinds):
        return field[name]
    if name not in kinds:
        raise LeftToSparkError(f"{name!r}, which is no column of a plain type")
    return Column(name, kinds[name])


def _key_part(column: Expression) -> Expression:
    if column.kind in (BINARY, DOUBLE) or fields_of(column.kind):
        raise LeftToSparkError(f"a {column.kind} as a part of a key")
    return column if column.kind == STRING else Call("to_text", (column,), STRING)


def _typed(text: Expression, kind: str) -> Expression:
    """A key's text as what it was made of."""
    if kind == TIMESTAMP:
        return Call("to_time_or_null", (text,), kind)
    if kind in (INT, BIGINT, DATE):
        return Call("read_text_or_null", (text,), kind, (arrow_of(kind),))
    if kind in (BOOLEAN, DOUBLE) or kind.startswith("DECIMAL"):
        return Call("cast", (text,), kind, (arrow_of(kind),))
    raise LeftToSparkError(f"a key of the type {kind}")
