"""The values of an expression, and the rows for which it has none.

Where integers overflow, something is divided by zero or a text is no number, Spark ends the query in ANSI mode. Here it
is the error of the record, which the job's policy is for. What is not needed does not fail: behind a condition, on the
right of an ``AND`` that is false already, in a row that an earlier step has dropped. Spark has the same rules, but its
optimizer may compute something earlier than they say, or not at all.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions.expression import Call, Case, Expression, arrow_of
from airflow_provider.streaming.expressions.row_functions import LACKING
from airflow_provider.streaming.expressions.time_functions import Values

Columns = Mapping[str, pa.Array]

_ALL_PARTS: Final = frozenset({"concat", "json_object", "composite_key", "latest", "is_null"})
"""Functions of which Spark computes all arguments, whatever the first ones are; of others none behind a null."""
_RIGHT_FIRST: Final = frozenset({"divide", "divide_decimals", "div", "remainder"})
_NO_REASON: Final = pa.nulls(1, pa.string())[0]


def computed(expression: Expression, columns: Columns, live: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """One value for each row, and by row why there is none; None where nothing is lacking.

    Args:
        live: whether the row's value is needed.
    """
    if not expression.may_lack:
        return _whole(expression.of(columns), len(live)), None
    try:
        return _whole(expression.of(columns), len(live)), None
    except pa.ArrowInvalid:
        values, why = _among(expression, columns, live)
        return values, why if why.null_count < len(why) else None


def _among(expression: Expression, columns: Columns, needed: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Of the rows that need it; null in the others."""
    at = pc.indices_nonzero(needed)
    place = np.full(len(needed), -1)
    place[at.to_numpy()] = np.arange(len(at))
    back = pa.array(place, mask=place < 0)
    values, why = _step_by_step(expression, {name: columns[name].take(at) for name in expression.names}, len(at))
    return values.take(back), why.take(back)


def _step_by_step(expression: Expression, columns: Columns, count: int) -> tuple[pa.Array, pa.Array]:
    """The same of all rows, of which some may have no value."""
    try:
        return _whole(expression.of(columns), count), pa.nulls(count, pa.string())
    except pa.ArrowInvalid:
        if isinstance(expression, Case):
            return _case(expression, columns, count)
        assert isinstance(expression, Call)
        if expression.function in ("and", "or", "coalesce"):
            return _until_known(expression, columns, count)
        return _call(expression, columns, count)


def _case(case: Case, columns: Columns, count: int) -> tuple[pa.Array, pa.Array]:
    left, why = pa.repeat(True, count), pa.nulls(count, pa.string())
    result = pa.nulls(count, arrow_of(case.kind))
    for condition, value in case.branches:
        holds, lacking = _among(condition, columns, left)
        taken = pc.fill_null(holds, False)
        values, lacking_value = _among(value, columns, taken)
        result, why = pc.if_else(taken, values, result), pc.coalesce(why, lacking, lacking_value)
        left = pc.and_(left, pc.and_not(pc.is_null(lacking), taken))
    values, lacking = _among(case.otherwise, columns, left)
    return pc.if_else(left, values, result), pc.coalesce(why, lacking)


def _until_known(call: Call, columns: Columns, count: int) -> tuple[pa.Array, pa.Array]:
    """Each argument where those before it do not say what it comes to."""
    left, why, found = pa.repeat(True, count), pa.nulls(count, pa.string()), list[pa.Array]()
    for argument in call.arguments:
        values, lacking = _among(argument, columns, left)
        found.append(values)
        why = pc.coalesce(why, lacking)
        if call.function == "coalesce":
            known = pc.is_valid(values)
        else:
            known = pc.fill_null(pc.equal(values, call.function == "or"), False)
        left = pc.and_(left, pc.and_not(pc.is_null(why), known))
    return call.with_arguments(found), why


def _call(call: Call, columns: Columns, count: int) -> tuple[pa.Array, pa.Array]:
    left, why = pa.repeat(True, count), pa.nulls(count, pa.string())
    order = range(len(call.arguments))
    found = dict[int, pa.Array]()
    for at in reversed(order) if call.function in _RIGHT_FIRST else order:
        found[at], lacking = _among(call.arguments[at], columns, left)
        why = pc.coalesce(why, lacking)
        if call.function not in _ALL_PARTS:
            left = pc.and_(left, pc.is_valid(found[at]))
    return _of_some(call, [found[at] for at in order], why)


def _of_some(call: Call, values: Sequence[pa.Array], why: pa.Array) -> tuple[pa.Array, pa.Array]:
    """What a function comes to where it has a value."""
    there = functools.reduce(pc.and_, map(pc.is_valid, values))
    first, *others = values
    for lacks, reason in LACKING.get(call.function, ()):
        lacking = pc.and_(there, pc.fill_null(lacks(first, *others, *call.options), False))
        why = pc.coalesce(why, pc.if_else(lacking, pa.scalar(reason), _NO_REASON))
        there = pc.and_not(there, lacking)
    if call.function in LACKING:
        first = pc.if_else(there, first, pa.scalar(None, first.type))
    return _whole(call.with_arguments([first, *others]), len(why)), why


def _whole(values: Values, count: int) -> pa.Array:
    """One value for each row."""
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, count)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
