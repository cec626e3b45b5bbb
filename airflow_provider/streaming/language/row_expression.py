"""Whether an expression can be computed from its own row: what needs others would depend on micro-batches."""

from __future__ import annotations

from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.language.sql_text import calls_in, has_over, words_in

_AGGREGATES: Final = frozenset(
    {
        *("approx_count_distinct", "approx_percentile", "avg", "bool_and", "bool_or", "collect_list", "collect_set"),
        *("corr", "count", "count_if", "covar_pop", "covar_samp", "first_value", "kurtosis", "last_value", "listagg"),
        *("max", "max_by", "mean", "median", "min", "min_by", "percentile", "percentile_approx", "skewness", "std"),
        *("stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "try_avg", "try_sum", "var_pop", "var_samp"),
        "variance",
    }
)
"""Those of Spark's that are nothing else, unlike ``any`` of ``LIKE ANY (...)``."""


def refuse_other_rows_needed(where: str, expression: object) -> None:
    """Refuse window functions and aggregates in a step.

    Args:
        where: the method, for the error.
        expression: what it was given; a Column is left to Spark, and so is one with a subquery or a comment.

    Raises:
        ConfigurationError: it needs other rows than its own.
    """
    if not isinstance(expression, str) or "select" in words_in(expression):
        return
    if "--" in expression or "/*" in expression:
        return  # a comment may name anything
    if has_over(expression):
        raise ConfigurationError(
            f"{where} got {expression!r}, with a window function (OVER): a step sees one row, and which others are "
            "near depends on where a micro-batch ends. Keep what is needed as state: aggregate(), also by window(), or "
            "process()."
        )
    if found := sorted(calls_in(expression) & _AGGREGATES):
        raise ConfigurationError(
            f"{where} got {expression!r}, and {found[0]}() is of many rows: a step sees one. Use group_by() and "
            "aggregate(), or for values of one row greatest(), least(), array_max() and the like."
        )
