from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json.row_codec import Column, RowCodec

Value = int | bytes | None


def columns_of(rows: list[tuple[Value, ...]], texts: tuple[bool, ...]) -> list[Column]:
    """By accumulator, what the rows hold by key."""
    columns = []
    for values, is_text in zip(zip(*rows, strict=True), texts, strict=True):
        ok = np.array([value is not None for value in values])
        numbers = [len(v) if isinstance(v, bytes) else v or 0 for v in values]
        kept: Any = list(values) if is_text else None
        columns.append(Column(ok, np.array(numbers, np.int64), kept))
    return columns


def rows_of(columns: list[Column]) -> list[tuple[Value, ...]]:
    by_accumulator: list[list[Value]] = []
    for column in columns:
        held: list[Any] = column.texts if column.texts is not None else column.values.tolist()
        by_accumulator.append([value if ok else None for value, ok in zip(held, column.ok, strict=True)])
    return list(zip(*by_accumulator, strict=True))


@st.composite
def layouts_and_rows(draw: st.DrawFn) -> tuple[tuple[bool, ...], list[tuple[Value, ...]]]:
    texts = tuple(draw(st.lists(st.booleans(), min_size=1, max_size=5)))
    number = st.none() | st.integers(-(2**63), 2**63 - 1)
    text = st.none() | st.binary(max_size=9)
    row = st.tuples(*[text if is_text else number for is_text in texts])
    return texts, draw(st.lists(row, min_size=1, max_size=6))


@given(layouts_and_rows())
def test_decoding_gives_back_what_was_encoded(case: tuple[tuple[bool, ...], list[tuple[Value, ...]]]) -> None:
    texts, rows = case
    codec = RowCodec(texts)

    assert rows_of(codec.decode(codec.encode(columns_of(rows, texts)))) == rows


def test_doubles_keep_their_bits() -> None:
    codec = RowCodec((False,))
    values = np.array([0.1, -0.0, math.inf, math.nan, 5e-324])

    (decoded,) = codec.decode(codec.encode([Column(np.ones(5, bool), values.view(np.int64))]))

    assert decoded.values.tobytes() == values.tobytes()


def test_missing_row_is_null_in_every_accumulator() -> None:
    codec = RowCodec((False, True))
    stored = codec.encode(columns_of([(7, b"seven")], codec.texts))

    assert rows_of(codec.decode([None, *stored, None])) == [(None, None), (7, b"seven"), (None, None)]


def test_null_and_empty_text_differ() -> None:
    codec = RowCodec((True, True))

    rows: list[tuple[Value, ...]] = [(None, b""), (b"", None)]

    assert rows_of(codec.decode(codec.encode(columns_of(rows, codec.texts)))) == rows


def test_layout_is_the_documented_one() -> None:
    codec = RowCodec((False, True, False))

    (row,) = codec.encode(columns_of([(258, "é".encode(), None)], codec.texts))

    assert row == bytes([1, 1, 1, 0, 2, 1, *[0] * 6, 2, *[0] * 7, *[0] * 8]) + "é".encode()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param((False,), (False, False), id="fewer-accumulators"),
        pytest.param((False, False), (False,), id="more-accumulators"),
        pytest.param((False,), (False, True), id="fewer-read-with-texts"),
        pytest.param((True, False), (False,), id="texts-read-without"),
    ],
)
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_row_of_other_accumulators_is_refused(written: tuple[bool, ...], read: tuple[bool, ...], keys: int) -> None:
    rows: list[tuple[Value, ...]] = [tuple(b"x" if is_text else 1 for is_text in written)] * keys
    stored = RowCodec(written).encode(columns_of(rows, written))

    with pytest.raises(ConfigurationError, match="other aggregates"):
        RowCodec(read).decode([*stored, None])


def test_row_of_another_version_is_refused() -> None:
    codec = RowCodec((False,))
    (row,) = codec.encode(columns_of([(1,)], codec.texts))

    with pytest.raises(ConfigurationError, match="other aggregates"):
        codec.decode([b"\x02" + row[1:]])
