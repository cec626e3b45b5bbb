"""Time behind an internal topic: the least of what the tasks that write the rows have told of theirs.

So a task that is held, is restored or fails over holds time back, and loses nothing however long it takes; and what
closes when follows from the rows of each task, not from which of them was read first. Flink's watermarks are the same:
of several inputs the least counts, those that are idle aside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.changelog.time_mark import TIME_KEY, TimeMark
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, StreamTime

MARK: Final = "__mark"
"""The column of arriving rows with the value of a mark; null in a row."""


def upstream_column(side: int) -> str:
    """The column of the rows in a worker with the watermark of a side at each, by what had been told before it."""
    return f"__upstream_{side}"


@dataclass(frozen=True, kw_only=True)
class UpstreamTime:
    """What is known behind a batch's rows.

    Args:
        sides: by side of the rows, its watermark; `NO_WATERMARK` while a task has told nothing, None of a side that is
            told nothing of.
        marks: by task, what it told last; None of one that is set aside.
    """

    sides: tuple[int | None, ...]
    marks: Mapping[str, int | None] = field(default_factory=dict)


def with_marks(raw: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows as they arrived, with the column `MARK`.

    Args:
        raw: the same with ``__value``.
    """
    told = pc.fill_null(pc.starts_with(raw.column("__source_key"), pattern=TIME_KEY), False)
    if not pc.any(told).as_py():
        return rows.append_column(MARK, pa.nulls(rows.num_rows, pa.binary()))
    return rows.append_column(MARK, pc.if_else(told, raw.column("__value"), pa.scalar(None, pa.binary())))


def without_marks(
    rows: pa.Table, upstream: Sequence[Collection[str]], before: StreamTime
) -> tuple[pa.Table, UpstreamTime | None]:
    """Part rows from marks, and say by what had been told how far time was at each row.

    Args:
        rows: with `MARK`, in the order of their offsets.
        upstream: by side, the tasks that write its rows; none of a side that is told nothing of.
        before: the time of the task before them.

    Returns:
        The time is None where the rows themselves move it: `upstream` is empty.
    """
    told = rows.column(MARK).is_valid().to_numpy()
    left = rows.drop_columns([MARK])
    if told.any():
        left = left.filter(pa.array(~told))
    if not upstream:
        return left, None
    marks = dict(before.marks)
    steps = [[watermark(marks, tasks)] for tasks in upstream]
    some = rows.filter(pa.array(told))
    for key, value in zip(some.column("__source_key").to_pylist(), some.column(MARK).to_pylist(), strict=True):
        mark = TimeMark.of(key, value)
        marks[str(mark.task)] = mark.watermark_ms
        for of_side, tasks in zip(steps, upstream, strict=True):
            of_side.append(max(of_side[-1], watermark(marks, tasks)))
    # How many marks came before each row.
    at = np.cumsum(told)[~told]
    for side, of_side in enumerate(steps):
        if upstream[side]:
            left = left.append_column(upstream_column(side), pa.array(np.array(of_side, np.int64)[at]))
    ends = tuple(of_side[-1] if tasks else None for of_side, tasks in zip(steps, upstream, strict=True))
    return left, UpstreamTime(sides=ends, marks=marks)


def watermark(marks: Mapping[str, int | None], tasks: Iterable[str]) -> int:
    """The least of what tasks have told; `NO_WATERMARK` while one has told nothing, or all of them are set aside."""
    told = [marks.get(task, NO_WATERMARK) for task in tasks]
    return min((at for at in told if at is not None), default=NO_WATERMARK)


def set_aside(marks: Mapping[str, int | None], tasks: Iterable[str]) -> bool:
    """Whether all of some tasks are."""
    told = [marks.get(task, NO_WATERMARK) for task in tasks]
    return bool(told) and all(at is None for at in told)
