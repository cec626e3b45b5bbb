"""Aggregate functions, with the names of ``pyspark.sql.functions``.

from airflow_provider.streaming import functions as F

job.aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))
"""

from __future__ import annotations

from airflow_provider.streaming.aggregate import Aggregate, Function

__all__ = ["count", "first", "last", "max", "mean", "min", "sum"]


def count(column: str | None = None) -> Aggregate:
    """How many rows, or how many values of `column` that are not null."""
    return Aggregate("count" if column is None else f"count({column})", Function.COUNT, column)


def sum(column: str) -> Aggregate:
    """The sum of the values that are not null; null while there is none."""
    return Aggregate(f"sum({column})", Function.SUM, column)


def min(column: str) -> Aggregate:
    """The least value that is not null."""
    return Aggregate(f"min({column})", Function.MIN, column)


def max(column: str) -> Aggregate:
    """The greatest value that is not null. NaN is greater than any number, as in Spark."""
    return Aggregate(f"max({column})", Function.MAX, column)


def mean(column: str) -> Aggregate:
    """The mean of the values that are not null, as a double."""
    return Aggregate(f"mean({column})", Function.MEAN, column)


def first(column: str, ignorenulls: bool = False) -> Aggregate:
    """The value of the earliest row, by offset; with `ignorenulls`, of the earliest that is not null."""
    return Aggregate(f"first({column})", Function.FIRST, column, ignorenulls)


def last(column: str, ignorenulls: bool = False) -> Aggregate:
    """The value of the latest row, by offset; with `ignorenulls`, of the latest that is not null."""
    return Aggregate(f"last({column})", Function.LAST, column, ignorenulls)
