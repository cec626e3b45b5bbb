"""The steps of streams and tables, as they are written: above all the expressions of `select()`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.language.column_check import Columns, find_column
from airflow_provider.streaming.terms.argument_check import check_kind, given_text
from airflow_provider.streaming.terms.sql_text import (
    call_of,
    calls_in,
    has_open_quote,
    has_over,
    has_star,
    is_column,
    split_alias,
    words_in,
)
from airflow_provider.streaming.terms.sql_type import refuse_name_of_rows
from airflow_provider.streaming.terms.steps import Filter, Select, Selected, WithColumn

if TYPE_CHECKING:
    from pyspark.sql import Column

_EXPLODE: Final = "explode"
_TAKEN: Final = (_EXPLODE, "explode_outer")
GENERATORS: Final = frozenset(
    {*_TAKEN, "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple", "variant_explode"}
)
"""Spark's functions that make several rows of one."""


def selection(expressions: Sequence[object], name: str | None, known: Columns | None) -> Select:
    """The step that some expressions describe.

    Args:
        expressions: each Spark SQL with ``AS`` and a name, the name of a column, or ``*``.
        name: under which records are counted of which ``explode`` makes nothing; None for ``no_<its column>``.
        known: the columns that there are; None where only Spark knows.
    """
    if not expressions:
        raise ConfigurationError('select() got nothing: give the columns that the rows shall have, such as "line".')
    columns = tuple(map(_selected, expressions))
    exploded = [column for column in columns if column.generator is not None]
    if len(exploded) > 1:
        texts = ", ".join(f"{one.generator}({one.expression})" for one in exploded)
        raise ConfigurationError(
            f"select() got {len(exploded)} generators ({texts}): it takes "
            "one, because a row for each pair is seldom meant. Call select() once for each."
        )
    _refuse_twice([one for column in columns for one in column.names])
    dropping = [column for column in exploded if column.generator == _EXPLODE]
    if name is not None and not dropping:
        raise ConfigurationError(
            f"select() got name={name!r}, and drops no record: only explode(...) can make nothing of one. Leave it out."
        )
    step = Select(columns, (name or f"no_{dropping[0].names[-1]}") if dropping else None)
    if known is not None:
        _refuse_again(step, known)
        for column in columns:
            if column.generator is None and column.names and is_column(column.expression):
                find_column("select()", column.expression, known)
    return step


def filter_step(condition: str | Column, name: str | None) -> Filter:
    """The step of `filter()`; see `Stream.filter` and `Table.filter`."""
    _refuse_no_expression("filter()", condition, '"amount > 0"')
    refuse_generator("filter()", condition)
    refuse_other_rows_needed("filter()", condition)
    return Filter(condition, name)


def column_step(name: str, expression: str | Column) -> WithColumn:
    """The step of `with_column()`; see `Stream.with_column`."""
    check_kind("with_column() got name=", name, str, 'one text, such as "half"')
    _refuse_no_expression("with_column()", expression, '"amount / 2"')
    refuse_generator("with_column()", expression)
    refuse_other_rows_needed("with_column()", expression)
    refuse_name_of_rows("with_column() names the column", name, "Name it otherwise.")
    return WithColumn(name, expression)


def _refuse_no_expression(where: str, given: object, example: str) -> None:
    # Spark need not be installed where a job is written.
    of_spark = any(base.__module__.startswith("pyspark.") for base in type(given).__mro__)
    if not isinstance(given, str) and not of_spark:
        raise ConfigurationError(f"{where} got {given_text(given)}: give Spark SQL as text, such as {example}.")
    if isinstance(given, str) and has_open_quote(given):
        raise ConfigurationError(f"{where} got {given!r}, where a quote is opened and not closed.")


def key_after(key: str | None, step: Select) -> str | None:
    """Under which name the records' key is still among the columns; None where it is not."""
    for column in step.columns:
        if key is None:
            break
        if not column.names:
            return key
        if column.generator is None and column.expression.strip("`").lower() == key.lower():
            return column.names[0]
    return None


def _refuse_again(step: Select, columns: Columns) -> None:
    """Refuse a name beside ``*`` that is among its columns."""
    if all(column.names for column in step.columns):
        return
    known = {name.lower() for name in columns}
    for name in (name for column in step.columns for name in column.names):
        if name.lower() in known:
            raise ConfigurationError(
                f"select() gives a column the name {name!r}, which is among the columns of '*' already: name it "
                "otherwise, with AS, or replace that column with with_column()."
            )


def refuse_generator(where: str, expression: object) -> None:
    """Refuse what would make several rows of one, or none, where a row has to stay one."""
    found = sorted(calls_in(expression) & GENERATORS) if isinstance(expression, str) else []
    if found:
        raise ConfigurationError(
            f"{where} got {expression!r}, and {found[0]}() makes several rows of one: use select() of a stream, such "
            'as stream("lines", schema="line STRING").select("explode(split(line, \' \')) AS word").'
        )


def _selected(expression: object) -> Selected:
    if not isinstance(expression, str) or not expression.strip():
        raise ConfigurationError(
            f'select() got {expression!r}: give Spark SQL as text, such as "lower(line) AS line"; a Column goes into '
            "with_column(), and its name into select()."
        )
    if expression.strip() == "*":
        return Selected("*", ())
    text, names = split_alias(expression)
    refuse_other_rows_needed("select()", text)
    call = call_of(text)
    if call is not None and call[0] in GENERATORS:
        return _generator(expression, *call, names)
    if nested := sorted(calls_in(text) & GENERATORS):
        raise ConfigurationError(
            f"select() got {expression!r}, with {nested[0]}() inside of another expression: let it stand alone, as "
            f'"{nested[0]}(...) AS name", and use its column in a second select() or in with_column().'
        )
    if not names and is_column(text):
        names = (text.rpartition(".")[2].strip("`"),)
    if len(names) != 1:
        raise ConfigurationError(
            f"select() got {expression!r}, whose column has {'several names' if names else 'no name'}: end it with AS "
            'and one, such as "lower(line) AS line".'
        )
    return Selected(text, names)


def _generator(expression: str, function: str, inner: str, names: tuple[str, ...]) -> Selected:
    if function not in _TAKEN:
        raise ConfigurationError(
            f"select() got {expression!r}: of the functions that make several rows of one it takes explode() and "
            "explode_outer() of an array or a map. Make an array of what is to become rows."
        )
    if len(names) not in (1, 2):
        raise ConfigurationError(
            f"select() got {expression!r}: name what comes out, as {function}(...) AS word of an array, or "
            f"{function}(...) AS (name, value) of a map."
        )
    if calls_in(inner) & GENERATORS:
        raise ConfigurationError(
            f"select() got {expression!r}, a generator inside of another: call select() once for each."
        )
    return Selected(inner.strip(), names, function)


def _refuse_twice(names: Sequence[str]) -> None:
    seen = set[str]()
    for name in names:
        if name.lower() in seen:
            raise ConfigurationError(
                f"select() gives two columns the name {name!r}: name one of them otherwise, with AS."
            )
        seen.add(name.lower())
        refuse_name_of_rows("select() gives a column the name", name, "Name it otherwise, with AS.")
        if name.startswith("__"):
            raise ConfigurationError(
                f"select() gives a column the name {name!r}, which is kept for what every row has beside its columns: "
                "name it otherwise, with AS."
            )


_AGGREGATES: Final = frozenset(
    {
        *("any_value", "approx_count_distinct", "approx_percentile", "avg", "bit_and", "bit_or", "bit_xor"),
        *("bool_and", "bool_or", "collect_list", "collect_set", "corr", "count", "count_if", "covar_pop"),
        *("covar_samp", "first_value", "kurtosis", "last_value", "listagg", "max", "max_by", "mean"),
        *("median", "min", "min_by", "percentile", "percentile_approx", "skewness", "std", "stddev"),
        *("stddev_pop", "stddev_samp", "string_agg", "sum", "try_avg", "try_sum", "var_pop", "var_samp"),
        *("variance",),
    }
)
"""Those of Spark's that are nothing else, unlike ``any`` of ``LIKE ANY (...)``."""


def refuse_other_rows_needed(where: str, expression: object) -> None:
    """Refuse window functions and aggregates in a step, and all columns at once inside of an expression.

    Args:
        expression: what it was given; a Column is left to Spark, and so is one with a subquery or a comment.
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
    if has_star(expression):
        raise ConfigurationError(
            f"{where} got {expression!r}, with * inside of an expression: Spark would take what a row has beside its "
            "columns for columns, too. Name those that are meant, such as struct(id, amount)."
        )
