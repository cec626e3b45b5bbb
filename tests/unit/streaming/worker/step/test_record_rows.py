from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider.streaming.operations.batch import without_records
from airflow_provider.streaming.worker.step.row_validation import count_records, filtered_records

FILTERS = ("empty", "short", "empty")


def rows(*pairs: tuple[int, int | None]) -> pa.Table:
    """Offset, and the number of the filter that dropped the row."""
    offsets, filtered = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table({"__offset": pa.array(offsets, pa.int64()), "__filtered": pa.array(filtered, pa.int32())})


@pytest.mark.parametrize(
    ("given", "records", "filtered"),
    [
        pytest.param(rows(), 0, {}, id="none"),
        pytest.param(rows((3, None), (5, None)), 2, {}, id="a-row-a-record"),
        pytest.param(rows((3, 1), (5, None), (6, 1)), 3, {"short": 2}, id="a-row-a-record-filtered"),
        pytest.param(rows((3, None), (3, 0), (3, None), (9, None)), 2, {}, id="a-row-is-left"),
        pytest.param(rows((3, 0), (3, 0), (4, 1), (4, 1)), 2, {"empty": 1, "short": 1}, id="no-row-is-left"),
        pytest.param(rows((3, 0), (3, 1), (3, 0)), 1, {"short": 1}, id="by-the-filter-that-dropped-the-last"),
        pytest.param(rows((3, 0), (4, 2)), 2, {"empty": 2}, id="filters-of-one-name"),
    ],
)
def test_records_are_counted_and_not_rows(given: pa.Table, records: int, filtered: dict[str, int]) -> None:
    assert count_records(given) == records
    assert filtered_records(given, FILTERS) == filtered


def test_all_rows_of_a_record_are_left_out() -> None:
    left = without_records(rows((3, None), (3, None), (4, None), (5, None)), {3, 5})

    assert left.column("__offset").to_pylist() == [4]
