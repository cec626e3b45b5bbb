"""The narrow steps of a job: each row by itself, before it is grouped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from pyspark.sql import Column


JOINED_TIME: Final = "_event_time"
"""The column with the event time of a row that is joined of two."""


PASSED: Final = "passed__"
"""The column of rows from another stage with the watermark of their own partition of the source, where that has reached
the row; null where it has not. By it a row is late or not, however many of its neighbours came in its micro-batch."""

CARRIED: Final = (JOINED_TIME, PASSED)
"""What `Select` keeps of the columns that rows have for themselves."""

DELETED_ROWS: Final = "deleted"
"""The name under which deletions are counted that are no rows of a stream of changes."""

FAILED_ROW: Final = -1
"""Marks a table's row that does not pass a filter: it deletes its key."""


@dataclass(frozen=True)
class Filter:
    """A step that drops rows and counts them; see `Stream.filter`.

    Args:
        name: of the count; None of a table, where a row that does not pass deletes its key.
    """

    condition: str | Column
    name: str | None


@dataclass(frozen=True)
class WithColumn:
    """A step that adds or replaces a column; see `Stream.with_column`."""

    name: str
    expression: str | Column


@dataclass(frozen=True)
class Selected:
    """One expression of a `Select`.

    Args:
        expression: Spark SQL without its alias, ``*`` for all columns; of a generator, what it takes apart.
        names: of the columns that it gives, one but where a map is taken apart; none for ``*``.
        generator: ``explode`` or ``explode_outer``; None for an expression that gives one value.
    """

    expression: str
    names: tuple[str, ...]
    generator: str | None = None


@dataclass(frozen=True)
class Select:
    """A step that replaces the columns, and may make several rows of one; see `Stream.select`.

    Args:
        columns: what it gives, in order; at most one of them is a generator.
        name: of the count of records of which ``explode`` makes nothing; None where none is dropped.
    """

    columns: tuple[Selected, ...]
    name: str | None = None


@dataclass(frozen=True)
class CompositeKey:
    """A step that adds the key of several columns: a JSON array of their texts, null where one of them is."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class TypedKey:
    """A step that gives a column its type again that an earlier stage wrote as the text of a key.

    Args:
        kind: in Spark DDL.
    """

    name: str
    kind: str

    @property
    def columns(self) -> tuple[str, ...]:
        """What the column is made of."""
        return (self.name,)


@dataclass(frozen=True)
class LatestTime:
    """A step that adds the latest of some event times, which `Select` keeps, as the event time of a joined row.

    Args:
        columns: TIMESTAMP, or BIGINT in epoch ms; a null counts for nothing.
    """

    name: ClassVar[str] = JOINED_TIME
    """Of the new column, BIGINT in epoch ms."""

    columns: tuple[str, ...]


Step = Filter | WithColumn | Select | CompositeKey | TypedKey | LatestTime


def drop_names(steps: Sequence[Step]) -> tuple[str, ...]:
    """The names under which rows that steps drop are counted, by the numbers with which they are marked."""
    return tuple(step.name for step in steps if isinstance(step, (Filter, Select)) and step.name is not None)


def step_text(step: Step) -> str:
    """What a step does, with the name under which it counts what it drops."""
    match step:
        case Filter():
            otherwise = "deleted" if step.name is None else f"counted as {step.name}"
            return f"filter {_sql(step.condition)} ({otherwise} where dropped)"
        case Select():
            counted = f" (counted as {step.name} where there is no element)" if step.name is not None else ""
            return f"select {', '.join(map(_selected, step.columns))}{counted}"
        case CompositeKey():
            return f"key of {', '.join(step.columns)}"
        case TypedKey():
            return f"{step.name} is a {step.kind} again"
        case LatestTime():
            return f"event time is the later of {', '.join(step.columns)}"
    return f"with_column {step.name} = {_sql(step.expression)}"


def _selected(selected: Selected) -> str:
    if not selected.names or selected.names == (selected.expression,):
        return selected.expression
    names = selected.names[0] if len(selected.names) == 1 else f"({', '.join(selected.names)})"
    expression = f"{selected.generator}({selected.expression})" if selected.generator else selected.expression
    return f"{expression} AS {names}"


def _sql(expression: object) -> str:
    # A Column of Spark's has a text of its own.
    return " ".join(str(expression).split())
