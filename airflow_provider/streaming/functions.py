"""Aggregate functions, with the names of ``pyspark.sql.functions``.

from airflow_provider.streaming import functions as F

job.aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))
"""

from __future__ import annotations

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Function
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.terms.argument_check import check_kind

__all__ = ["avg", "count", "first", "last", "max", "mean", "min", "sum"]


def count(column: str | None = None) -> Aggregate:
    """How many rows, or how many values of `column` that are not null.

    Raises:
        ConfigurationError: it is no column's name, as of every function here.
    """
    if column is None:
        return Aggregate(name="count", function=Function.COUNT)
    if column == "*":
        raise ConfigurationError("F.count() got '*': say F.count() to count rows, F.count(\"amount\") for a column.")
    return _of("count", Function.COUNT, column)


def sum(column: str) -> Aggregate:
    """The sum of the values that are not null; null while there is none."""
    return _of("sum", Function.SUM, column)


def min(column: str) -> Aggregate:
    """The least value that is not null."""
    return _of("min", Function.MIN, column)


def max(column: str) -> Aggregate:
    """The greatest value that is not null. NaN is greater than any number, as in Spark."""
    return _of("max", Function.MAX, column)


def mean(column: str) -> Aggregate:
    """The mean of the values that are not null, as a double."""
    return _of("mean", Function.MEAN, column)


def avg(column: str) -> Aggregate:
    """The same as `mean`, under Spark's other name for it."""
    return _of("avg", Function.MEAN, column)


def first(column: str, ignorenulls: bool = False) -> Aggregate:
    """The value of the earliest row, by offset; with `ignorenulls`, of the earliest that is not null."""
    return _of("first", Function.FIRST, column, ignorenulls=ignorenulls)


def last(column: str, ignorenulls: bool = False) -> Aggregate:
    """The value of the latest row, by offset; with `ignorenulls`, of the latest that is not null."""
    return _of("last", Function.LAST, column, ignorenulls=ignorenulls)


def _of(name: str, function: Function, column: object, ignorenulls: bool = False) -> Aggregate:
    check_kind(f"F.{name}() got ", column, str, f'the name of one column, such as F.{name}("amount")')
    assert isinstance(column, str)
    return Aggregate(name=f"{name}({column})", function=function, column=column, ignorenulls=ignorenulls)
