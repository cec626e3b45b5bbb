"""Aggregate functions, with the names of ``pyspark.sql.functions``.

from airflow_provider.streaming import functions as F

orders.group_by("customer").aggregate(F.count().alias("n"), F.sum("amount", filter="country = 'AT'").alias("spent"))

``filter`` is the condition of Spark's ``FILTER (WHERE ...)``, as text: rows for which it is not true do not count.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Sequence
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.aggregates.aggregator import Aggregator
from airflow_provider.streaming.aggregates.built_in import (
    ApproxCountDistinct,
    CollectList,
    CollectSet,
    CountDistinct,
    Moments,
    Pick,
    PickInOrder,
    Quantiles,
    Top,
)
from airflow_provider.streaming.json.types import arrow_type
from airflow_provider.streaming.terms.argument_check import check_kind, check_number, given_text

__all__ = [
    "approx_count_distinct",
    "approx_percentile",
    "avg",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "first",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top",
    "udaf",
    "var_pop",
    "var_samp",
    "variance",
]

DISTINCT_LIMIT: Final = 1_000
"""How many different values of a key `count_distinct` keeps, unless it is told."""


def count(column: str | None = None, *, filter: str | None = None) -> Aggregate:
    """How many rows, or how many values of `column` that are not null.

    Raises:
        ConfigurationError: it is no column's name, or the filter no text, as of every function here.
    """
    if column is None:
        return _filtered(Aggregate(name="count", function=Function.COUNT), filter)
    if column == "*":
        raise ConfigurationError("F.count() got '*': say F.count() to count rows, F.count(\"amount\") for a column.")
    return _of("count", Function.COUNT, column, filter)


def sum(column: str, *, filter: str | None = None) -> Aggregate:
    """The sum of the values that are not null; null while there is none."""
    return _of("sum", Function.SUM, column, filter)


def min(column: str, *, filter: str | None = None) -> Aggregate:
    """The least value that is not null."""
    return _of("min", Function.MIN, column, filter)


def max(column: str, *, filter: str | None = None) -> Aggregate:
    """The greatest value that is not null. NaN is greater than any number, as in Spark."""
    return _of("max", Function.MAX, column, filter)


def mean(column: str, *, filter: str | None = None) -> Aggregate:
    """The mean of the values that are not null, as a double."""
    return _of("mean", Function.MEAN, column, filter)


def avg(column: str, *, filter: str | None = None) -> Aggregate:
    """The same as `mean`, under Spark's other name for it."""
    return _of("avg", Function.MEAN, column, filter)


def first(column: str, ignorenulls: bool = False, *, by: str | None = None, filter: str | None = None) -> Aggregate:
    """The value of the earliest row, by offset; with `ignorenulls`, of the earliest that is not null.

    Args:
        by: the column that says which is the earliest, such as that of the event time: then it is as `min_by`, and may
            be used where rows come in no certain order.
    """
    return _picked("first", column, by, ignorenulls, greatest=False, filter=filter)


def last(column: str, ignorenulls: bool = False, *, by: str | None = None, filter: str | None = None) -> Aggregate:
    """The value of the latest row, by offset; with `ignorenulls`, of the latest that is not null.

    Args:
        by: as of `first`; then it is as `max_by`.
    """
    return _picked("last", column, by, ignorenulls, greatest=True, filter=filter)


def max_by(column: str, by: str, *, filter: str | None = None) -> Aggregate:
    """The value of the row with the greatest `by`; of several such rows the greatest value, and null last.

    A row whose `by` is null does not count.
    """
    return _kept((column, by), Pick("max_by"), filter)


def min_by(column: str, by: str, *, filter: str | None = None) -> Aggregate:
    """The value of the row with the least `by`; of several such rows the least value, and null last."""
    return _kept((column, by), Pick("min_by", greatest=False), filter)


def top(column: str, n: int, *, by: str | None = None, filter: str | None = None) -> Aggregate:
    """The values of the `n` rows with the greatest `by`, greatest first, as an array; of equal ones as `max_by`.

    Args:
        by: default the column itself, whose nulls do not count then.
    """
    check_kind("F.top() got n=", n, int, "the number of rows, such as 3")
    check_number("F.top() got n", n, "rows", whole=True)
    return _kept((column,) if by is None else (column, by), Top("top", n), filter)


def count_distinct(column: str, *columns: str, limit: int = DISTINCT_LIMIT, filter: str | None = None) -> Aggregate:
    """How many different values there are, or combinations of several columns' values; exact. Nulls do not count.

    Args:
        limit: how many it keeps of a key. A record with one more is a record error.
    """
    return _kept((column, *columns), CountDistinct("count_distinct", _limit("count_distinct", limit)), filter)


def approx_count_distinct(column: str, rsd: float = 0.05, *, filter: str | None = None) -> Aggregate:
    """About how many different values there are, by a HyperLogLog sketch.

    Args:
        rsd: the relative standard deviation that is allowed; from 0.0008 on. The sketch takes about 1 / rsd² bytes.
    """
    check_kind("F.approx_count_distinct() got rsd=", rsd, (int, float), "the deviation that is allowed, such as 0.05")
    if not 0.0008 <= rsd <= 0.25:
        raise ConfigurationError(f"F.approx_count_distinct() got rsd={rsd!r}: give 0.0008 to 0.25, such as 0.05.")
    lg_k = math.ceil(2 * math.log2(1.04 / rsd))
    return _kept((column,), ApproxCountDistinct("approx_count_distinct", lg_k if lg_k > 7 else 7), filter)


def approx_percentile(column: str, percentage: float | Sequence[float], *, filter: str | None = None) -> Aggregate:
    """About the value below which a share of the values lies, as a double, by a t-digest; of several shares an array.

    Args:
        percentage: from 0 to 1, such as 0.99, or several.
    """
    many = isinstance(percentage, (list, tuple))
    shares = tuple(percentage) if isinstance(percentage, (list, tuple)) else (percentage,)
    if not shares or not all(isinstance(share, (int, float)) and 0 <= share <= 1 for share in shares):
        raise ConfigurationError(
            f"F.approx_percentile() got percentage={given_text(percentage)}: give a share from 0 to 1, such as 0.99, "
            "or a list of some."
        )
    return _kept((column,), Quantiles("approx_percentile", tuple(map(float, shares)), many), filter)


def collect_list(column: str, *, limit: int | None = None, filter: str | None = None) -> Aggregate:
    """The values that are not null, each as often as it comes, in ascending order, as an array.

    Args:
        limit: how many it keeps of a key; there is no default. A record with one more is a record error.
    """
    return _kept((column,), CollectList("collect_list", _limit("collect_list", limit)), filter)


def collect_set(column: str, *, limit: int | None = None, filter: str | None = None) -> Aggregate:
    """The different values that are not null, in ascending order, as an array; `limit` as of `collect_list`."""
    return _kept((column,), CollectSet("collect_set", _limit("collect_set", limit)), filter)


def var_samp(column: str, *, filter: str | None = None) -> Aggregate:
    """The variance of a sample; null for fewer than two values that are not null."""
    return _kept((column,), Moments("var_samp", population=False, root=False), filter)


def variance(column: str, *, filter: str | None = None) -> Aggregate:
    """The same as `var_samp`, under Spark's other name for it."""
    return _kept((column,), Moments("variance", population=False, root=False), filter)


def var_pop(column: str, *, filter: str | None = None) -> Aggregate:
    """The variance of a population."""
    return _kept((column,), Moments("var_pop", population=True, root=False), filter)


def stddev_samp(column: str, *, filter: str | None = None) -> Aggregate:
    """The standard deviation of a sample; null for fewer than two values that are not null."""
    return _kept((column,), Moments("stddev_samp", population=False, root=True), filter)


def stddev(column: str, *, filter: str | None = None) -> Aggregate:
    """The same as `stddev_samp`, under Spark's other name for it."""
    return _kept((column,), Moments("stddev", population=False, root=True), filter)


def stddev_pop(column: str, *, filter: str | None = None) -> Aggregate:
    """The standard deviation of a population."""
    return _kept((column,), Moments("stddev_pop", population=True, root=True), filter)


def udaf(aggregator: Aggregator, column: str, *columns: str, filter: str | None = None) -> Aggregate:
    """An aggregate of your own, of the values of some columns.

    Args:
        aggregator: an object of your class; see `Aggregator`.

    Raises:
        ConfigurationError: it is none, or its `result_type` is not the name of a type that can be written.
    """
    check_kind("F.udaf() got ", aggregator, Aggregator, "an object of a subclass of Aggregator")
    name, kind = type(aggregator).__name__, getattr(aggregator, "result_type", None)
    if not isinstance(kind, str) or arrow_type(kind) is None:
        raise ConfigurationError(
            f"F.udaf() got {name}, whose result_type is {kind!r}: give the type of what result() returns in Spark DDL, "
            "such as 'DOUBLE' or 'ARRAY<STRING>'; plain types, and ARRAY and STRUCT of them."
        )
    try:
        inspect.signature(aggregator.add).bind(None, column, *columns)
    except TypeError as error:
        raise ConfigurationError(
            f"F.udaf() got {name} with the columns {', '.join(map(repr, (column, *columns)))}, and its add() takes a "
            f"state and the value of each: {error}."
        ) from None
    return _kept((column, *columns), aggregator, filter)


def _of(name: str, function: Function, column: object, filter: object, ignorenulls: bool = False) -> Aggregate:
    _check_column(name, column)
    assert isinstance(column, str)
    kept = Aggregate(name=f"{name}({column})", function=function, column=column, ignorenulls=ignorenulls)
    return _filtered(kept, filter)


def _picked(
    name: str, column: str, by: str | None, ignorenulls: bool, *, greatest: bool, filter: str | None
) -> Aggregate:
    expected = f'True or False; a column goes into by=, such as F.{name}("amount", by="at")'
    check_kind(f"F.{name}() got ignorenulls=", ignorenulls, bool, expected)
    if by is not None:
        return _kept((column, by), Pick(name, ignorenulls=ignorenulls, greatest=greatest), filter)
    function = Function.LAST if greatest else Function.FIRST
    if filter is None:
        return _of(name, function, column, None, ignorenulls)
    return _kept((column,), PickInOrder(name, greatest, ignorenulls), filter, function)


def _kept(
    columns: tuple[str, ...], aggregator: Aggregator, filter: object, function: Function = Function.STATE
) -> Aggregate:
    for column in columns:
        _check_column(aggregator.name, column)
    name = f"{aggregator.name}({', '.join((*columns, *aggregator.parameters))})"
    return _filtered(Aggregate(name=name, function=function, aggregator=aggregator, columns=columns), filter)


def _filtered(aggregate: Aggregate, filter: object) -> Aggregate:
    if filter is None:
        return aggregate
    expected = 'a condition in Spark SQL, as text, such as filter="amount > 100"'
    check_kind(f"F.{aggregate.function_name}() got filter=", filter, str, expected)
    assert isinstance(filter, str)
    return dataclasses.replace(aggregate, name=f"{aggregate.name} FILTER (WHERE {filter})", filter=filter)


def _check_column(name: str, column: object) -> None:
    check_kind(f"F.{name}() got ", column, str, f'the name of one column, such as F.{name}("amount")')


def _limit(name: str, limit: object) -> int:
    check_number(f"F.{name}() got limit", limit, "values of a key", whole=True)
    if not isinstance(limit, int):
        raise ConfigurationError(
            f"F.{name}() got no limit: state has to be bounded. Say how many values of a key it may keep, such as "
            f'F.{name}("product", limit=100).'
        )
    return limit
