"""How far time is at each row, by what other tasks have told."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider.changelog.time_mark import TimeMark
from airflow_provider.common.task_id import TaskId
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, StreamTime
from airflow_provider.streaming.operations.upstream_time import (
    MARK,
    set_aside,
    upstream_column,
    watermark,
    with_marks,
    without_marks,
)

NONE = NO_WATERMARK


def arrived(*records: str | TimeMark) -> pa.Table:
    """Rows with a key, and marks."""
    pairs = [record.record if isinstance(record, TimeMark) else (record.encode(), b"{}") for record in records]
    return pa.table(
        {
            "__source_key": pa.array([key for key, _ in pairs], pa.binary()),
            "__value": pa.array([value for _, value in pairs], pa.binary()),
            "__offset": pa.array(range(len(pairs)), pa.int64()),
        }
    )


def told(task: int, ms: int | None) -> TimeMark:
    return TimeMark(TaskId(0, task), ms)


def test_least_counts_from_the_row_behind_the_mark_on() -> None:
    raw = arrived("a", told(0, 5), "b", told(1, 3), "c", told(1, 9), "d", told(0, 7))

    rows, time = without_marks(with_marks(raw, raw), [["0_0", "0_1"]], StreamTime())

    assert time is not None
    assert rows.column("__offset").to_pylist() == [0, 2, 4, 6]
    assert rows.column(upstream_column(0)).to_pylist() == [NONE, NONE, 3, 5]
    assert (time.sides, dict(time.marks)) == ((7,), {"0_0": 7, "0_1": 9})
    assert MARK not in rows.schema.names


def test_what_was_told_before_is_known() -> None:
    raw = arrived("a", told(0, 8), "b")

    rows, time = without_marks(with_marks(raw, raw), [["0_0", "0_1"]], StreamTime(marks={"0_0": 2, "0_1": 6}))

    assert time is not None
    assert rows.column(upstream_column(0)).to_pylist() == [2, 6]
    assert time.sides == (6,)


def test_each_side_has_its_own_and_one_may_have_none() -> None:
    raw = arrived(told(0, 4), told(1, 6), "a")

    rows, time = without_marks(with_marks(raw, raw), [["0_0"], []], StreamTime())

    assert time is not None
    assert rows.column(upstream_column(0)).to_pylist() == [4]
    assert upstream_column(1) not in rows.schema.names
    assert time.sides == (4, None)


def test_marks_alone_leave_no_row() -> None:
    raw = arrived(told(0, 4))

    rows, time = without_marks(with_marks(raw, raw), [["0_0"]], StreamTime())

    assert time is not None
    assert (rows.num_rows, time.sides) == (0, (4,))


def test_marks_are_no_rows_where_nobody_is_asked_how_far_time_is() -> None:
    raw = arrived("a", told(0, 4), "b")

    rows, time = without_marks(with_marks(raw, raw), [], StreamTime())

    assert (rows.column("__offset").to_pylist(), time) == ([0, 2], None)


@pytest.mark.parametrize(
    ("marks", "least", "aside"),
    [
        ({}, NONE, False),
        ({"a": 3}, NONE, False),
        ({"a": 3, "b": 5}, 3, False),
        ({"a": None, "b": 5}, 5, False),
        ({"a": None, "b": None}, NONE, True),
        ({"a": None}, NONE, False),
        ({"a": 4, "b": 5, "of another stage": 1}, 4, False),
    ],
)
def test_who_is_set_aside_is_not_waited_for(marks: dict[str, int | None], least: int, aside: bool) -> None:
    assert watermark(marks, ["a", "b"]) == least
    assert set_aside(marks, ["a", "b"]) is aside
