from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider.streaming.aggregates.accumulator import Accumulator, Function, Kind, merge
from airflow_provider.streaming.json.row_codec import Column


def column(*values: int) -> Column:
    return Column(np.ones(len(values), bool), np.array(values, np.int64))


def merged(function: Function) -> list[int]:
    accumulator = Accumulator(function=function, column="n", kind=Kind.INTEGER, logical=pa.int64())
    found = merge(accumulator, np.ones(2, bool), column(3, 5), column(4, 1))
    return [int(value) for value in found.values]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Function.COUNT, [7, 6]),
        (Function.SUM, [7, 6]),
        (Function.MIN, [3, 1]),
        (Function.MAX, [4, 5]),
        (Function.FIRST, [3, 5]),
        (Function.LAST, [4, 1]),
    ],
    ids=lambda value: value.value if isinstance(value, Function) else "",
)
def test_what_was_kept_is_merged_with_a_batch(function: Function, expected: list[int]) -> None:
    assert merged(function) == expected


def test_function_that_no_accumulator_has_is_taken_for_no_other() -> None:
    with pytest.raises(AssertionError):
        merged(Function.MEAN)
