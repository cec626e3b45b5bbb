from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider.errors import ProcessError
from airflow_provider.streaming.operations.stream_time import StreamTime
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.worker.step.active_step import certain_failures
from airflow_provider.streaming.worker.step.row_validation import Failure

Row = tuple[int, str] | tuple[int, str, int]


def table(*rows: Row) -> pa.Table:
    """Rows of an offset, a key and, where there are times, one."""
    columns = {"__offset": pa.array([row[0] for row in rows], pa.int64())}
    columns["__key"] = pa.array([row[1].encode() for row in rows], pa.binary())
    if len(rows[0]) > 2:
        columns[EVENT_MS] = pa.array([row[-1] for row in rows], pa.int64())
    return pa.table(columns)


def certain(rows: pa.Table, *offsets: int, greatest_ms: int | None = None, sided: bool = False) -> list[int]:
    failures = [Failure(offset, ProcessError("in", 0, offset, "k", "no")) for offset in offsets]
    return [failure.offset for failure in certain_failures(rows, failures, StreamTime(greatest_ms), sided=sided)]


@pytest.mark.parametrize(
    ("rows", "failed", "known"),
    [
        pytest.param([(1, "a"), (2, "a"), (3, "a")], [1, 2, 3], [1, 2, 3], id="one-row-each"),
        pytest.param([(1, "a"), (1, "a"), (2, "a")], [1, 2], [1], id="the-other-row-in-the-group"),
        pytest.param([(1, "a"), (1, "b"), (2, "b"), (3, "c")], [1, 2, 3], [1, 3], id="the-other-row-in-another-group"),
        pytest.param(
            [(1, "a"), (1, "b"), (2, "b"), (2, "c"), (3, "c")], [1, 2, 3], [1], id="what-is-unsure-makes-others-unsure"
        ),
    ],
)
def test_record_is_certain_unless_another_that_fails_had_a_row_beside_it(
    rows: list[Row], failed: list[int], known: list[int]
) -> None:
    assert certain(table(*rows), *failed) == known


def test_record_behind_one_that_moved_time_is_not_certain() -> None:
    rows = table((1, "a", 10), (2, "b", 9), (3, "c", 12), (4, "d", 11), (5, "e", 12))

    assert certain(rows, 2, 3, 4, 5) == [2, 3]
    assert certain(rows, 2, 3, 4, 5, greatest_ms=12) == [2, 3, 4, 5]


def test_with_two_sides_of_their_own_time_the_first_alone_is_certain() -> None:
    assert certain(table((1, "a", 10), (2, "b", 9), (3, "c", 8)), 2, 3, sided=True) == [2]
