"""The narrow steps of a job: each row by itself, before it is grouped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Filter", "Step", "WithColumn"]


@dataclass(frozen=True)
class Filter:
    """A step that drops rows and counts them; see `StatefulJob.filter`."""

    condition: str | Column
    name: str


@dataclass(frozen=True)
class WithColumn:
    """A step that adds or replaces a column; see `StatefulJob.with_column`."""

    name: str
    expression: str | Column


Step = Filter | WithColumn
