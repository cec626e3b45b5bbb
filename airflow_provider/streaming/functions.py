"""Aggregate functions, with the names of ``pyspark.sql.functions``.

from airflow_provider.streaming import functions as F

job.aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))
"""

from __future__ import annotations

from airflow_provider.streaming.operations.aggregate import Aggregate
from airflow_provider.streaming.operations.aggregate_function import Function

__all__ = ["avg", "count", "first", "last", "max", "mean", "min", "sum"]


def count(column: str | None = None) -> Aggregate:
    """How many rows, or how many values of `column` that are not null."""
    return Aggregate(name="count" if column is None else f"count({column})", function=Function.COUNT, column=column)


def sum(column: str) -> Aggregate:
    """The sum of the values that are not null; null while there is none."""
    return Aggregate(name=f"sum({column})", function=Function.SUM, column=column)


def min(column: str) -> Aggregate:
    """The least value that is not null."""
    return Aggregate(name=f"min({column})", function=Function.MIN, column=column)


def max(column: str) -> Aggregate:
    """The greatest value that is not null. NaN is greater than any number, as in Spark."""
    return Aggregate(name=f"max({column})", function=Function.MAX, column=column)


def mean(column: str) -> Aggregate:
    """The mean of the values that are not null, as a double."""
    return Aggregate(name=f"mean({column})", function=Function.MEAN, column=column)


def avg(column: str) -> Aggregate:
    """The same as `mean`, under Spark's other name for it."""
    return Aggregate(name=f"avg({column})", function=Function.MEAN, column=column)


def first(column: str, ignorenulls: bool = False) -> Aggregate:
    """The value of the earliest row, by offset; with `ignorenulls`, of the earliest that is not null."""
    return Aggregate(name=f"first({column})", function=Function.FIRST, column=column, ignorenulls=ignorenulls)


def last(column: str, ignorenulls: bool = False) -> Aggregate:
    """The value of the latest row, by offset; with `ignorenulls`, of the latest that is not null."""
    return Aggregate(name=f"last({column})", function=Function.LAST, column=column, ignorenulls=ignorenulls)
