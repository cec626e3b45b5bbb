"""Which columns a text of Spark SQL names, as far as that is certain without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.language.column_check import Columns, find_column
from airflow_provider.streaming.terms.steps import Filter, Select, Step, WithColumn

_TOKEN: Final = re.compile(
    r"""
    (?P<string>[rRxX]?'(?:\\.|[^'\\])*'|[rRxX]?"(?:\\.|[^"\\])*")
    | (?P<path>(?:`(?:[^`]|``)+`|[^\W\d]\w*)(?:\.(?:`(?:[^`]|``)+`|\w+))*)
    | (?P<number>\.?\d[\w.]*)
    | (?P<sign>->|=>|::|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"(?=.*`)`?(?P<name>(?<=`)(?:[^`]|``)+|\w+)")
_UNREADABLE: Final = frozenset("{};$@?:#")
"""Signs of what has names of its own: markers of parameters, fields of a variant."""
_CONTAINERS: Final = frozenset({"array", "map", "struct"})
_ENDS: Final = frozenset({"end", "null", "true", "false"})
_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        all and any as asc at between both by case cast collate desc distinct div else end escape exists extract false
        filter first following for from group ignore ilike in is last leading like mod not null nulls or order over
        overlay partition placing position preceding range regexp respect rlike rows some substr substring then to
        trailing trim true try_cast unbounded unknown using when where with within without zone

        array bigint binary boolean byte char character date dec decimal double float geography geometry int integer
        interval local long map numeric object real short smallint string struct time timestamp timestamp_ltz
        timestamp_ntz tinyint varchar variant void

        centuries century d day dayofweek dayofweek_iso dayofyear days decade decades decs dow doy epoch era h hour
        hours hr hrs isodow isoyear m microsecond microseconds mil millennia millennium millisecond milliseconds mils
        min mins minute minutes mon mons month months ms msec msecs nanosecond nanoseconds qtr quarter quarters s sec
        second seconds secs timezone timezone_hour timezone_minute us usec usecs useconds w week weeks y year yearofweek
        years yr yrs

        current_catalog current_database current_date current_path current_schema current_time current_timestamp
        current_user localtime localtimestamp session_user user
        """,
    )
)
"""What stands in an expression without being a column; a column may have such a name, too."""


def columns_named(expression: str) -> tuple[str, ...]:
    """The columns that an expression names, as they are written; none where it is not certain what is one.

    A subquery, a comment or a sign of which the meaning depends on more than the text makes it uncertain. A word of
    SQL, a parameter of a lambda function, an alias and a type are no columns.
    """
    tokens = [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(expression)]
    words = {text.lower() for kind, text in tokens if kind == "path"}
    signs = {text for kind, text in tokens if kind == "sign"}
    if "select" in words or "--" in expression or "/*" in expression or signs & _UNREADABLE:
        return ()
    bound = set(_parameters(tokens))
    return tuple(text for text in _paths(tokens) if text.split(".")[0].strip("`").lower() not in bound)


def refuse_unknown_columns(step: Step, columns: Columns | None) -> None:
    """Refuse a step of which an expression names a column that there is not."""
    if columns is None:
        return
    if isinstance(step, Filter):
        _refuse_unknown("filter()", step.condition, columns)
        _refuse_value(step.condition, columns)
    elif isinstance(step, WithColumn):
        _refuse_unknown("with_column()", step.expression, columns)
    elif isinstance(step, Select):
        for selected in step.columns:
            if selected.names:
                _refuse_unknown("select()", selected.expression, columns)
            # Those behind it may name it.
            columns = {**dict.fromkeys(selected.names), **columns}


def _refuse_unknown(where: str, expression: object, columns: Columns) -> None:
    known = {column.lower() for column in columns}
    for name in columns_named(expression) if isinstance(expression, str) else ():
        if "." in name and name.lower() in known and name.lower().partition(".")[0] not in known:
            raise ConfigurationError(
                f"{where} got {expression!r}, which names the column {name!r}: its name has a dot in it, so write "
                f"`{name}`, in backticks."
            )
        # A quoted name may have a dot in it: of a path with one the beginning is looked for.
        quoted = _QUOTED.match(name)
        find_column(f"{where} got {expression!r}, which", name if quoted is None else quoted["name"], columns)


def _refuse_value(condition: object, columns: Columns) -> None:
    """Refuse a column alone that is no condition."""
    if not isinstance(condition, str) or columns_named(condition) != (condition,):
        return
    kind = find_column(f"filter() got {condition!r}, which", condition, columns)
    if kind is not None and kind.name != "BOOLEAN":
        raise ConfigurationError(
            f"filter() got {condition!r}, a column of type {kind.text}: give a condition, such as "
            f'"{condition} IS NOT NULL".'
        )


def _parameters(tokens: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Of lambda functions."""
    for at, (_, text) in enumerate(tokens):
        if text != "->":
            continue
        names = [tokens[at - 1]]
        if tokens[at - 1][1] == ")":
            begin = max(place for place in range(at) if tokens[place][1] == "(")
            names = list(tokens[begin + 1 : at - 1])
        yield from (name.strip("`").lower() for kind, name in names if kind == "path")


def _paths(tokens: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What can be nothing but a column, or a parameter of a lambda function."""
    depth, type_at, operand = 0, -1, False
    for at, (kind, text) in enumerate(tokens):
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        before = tokens[at - 1][1].lower() if at else ""
        if kind == "sign":
            depth += (text in "([<" and (text != "<" or type_at >= 0)) - (
                text in ")]>" and (text != ">" or type_at >= 0)
            )
            if type_at >= 0 and (depth < type_at or (text == "," and depth == type_at)):
                type_at = -1
            operand = text in ")]"
            continue
        word = text.lower()
        if kind == "path" and type_at < 0:
            if word == "as":
                type_at = depth
            elif word in _CONTAINERS and following == "<":
                return  # a type of its own, such as behind "::"
            elif not (
                operand
                or following[:1] in ("(", "'", '"')
                or following == "=>"
                or before in ("::", "collate")
                or (word in _WORDS and "." not in text)
            ):
                yield text
        operand = kind != "path" or word in _ENDS or word not in _WORDS
