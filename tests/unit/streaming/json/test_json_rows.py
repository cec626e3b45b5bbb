from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.streaming.json.json_rows import json_rows


def written(values: list[Any], kind: pa.DataType) -> list[Any]:
    """What comes back from one column."""
    return [json.loads(row)["x"] for row in json_rows([("x", pa.array(values, kind))])]


@given(st.lists(st.none() | st.text(), min_size=1))
def test_texts_read_back_the_same(texts: list[str | None]) -> None:
    assert written(texts, pa.string()) == texts


@pytest.mark.parametrize(
    "text",
    ['"', "\\", "\n\r\t", "\x00", "\x1f", "\x7f", "\u2028", "é", "😀", "</script>", ""],
    ids=lambda text: repr(text).strip("'") or "empty",
)
def test_text_of_one_awkward_character_reads_back_the_same(text: str) -> None:
    assert written([text, "plain", None], pa.string()) == [text, "plain", None]


@given(st.lists(st.none() | st.floats(), min_size=1))
def test_doubles_read_back_the_same_and_strange_ones_as_texts(values: list[float | None]) -> None:
    texts = written(values, pa.float64())

    for value, text in zip(values, texts, strict=True):
        if value is None:
            assert text is None
        elif math.isnan(value):
            assert text == "NaN"
        elif math.isinf(value):
            assert text == ("Infinity" if value > 0 else "-Infinity")
        else:
            assert float(text) == value


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_read_back_the_same(values: list[int | None]) -> None:
    assert written(values, pa.int64()) == values


def test_booleans_are_json_booleans() -> None:
    assert written([True, False, None], pa.bool_()) == [True, False, None]


@given(st.lists(st.none() | st.dates(), min_size=1))
def test_dates_are_iso_8601(values: list[dt.date | None]) -> None:
    assert written(values, pa.date32()) == [None if v is None else v.isoformat() for v in values]


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        pytest.param(None, "2013-01-02T03:04:05.678901", id="without-zone"),
        pytest.param("UTC", "2013-01-02T03:04:05.678901Z", id="utc"),
    ],
)
def test_timestamps_are_iso_8601(zone: str | None, text: str) -> None:
    moment = dt.datetime(2013, 1, 2, 3, 4, 5, 678901)

    assert written([moment, None], pa.timestamp("us", zone)) == [text, None]


@pytest.mark.parametrize(
    ("days", "text"),
    [
        pytest.param(-719_162, "0001-01-01", id="the-first-of-python"),
        pytest.param(-719_163, "0000-12-31", id="year-zero"),
        pytest.param(-719_529, "-0001-12-31", id="before-year-zero"),
        pytest.param(2_932_896, "9999-12-31", id="the-last-of-python"),
        pytest.param(2_932_897, "+10000-01-01", id="five-digits"),
        pytest.param(11_248_738, "+32768-01-01", id="beyond-32767"),
        pytest.param(2**31 - 1, "+5881580-07-11", id="the-last-of-spark"),
        pytest.param(-(2**31), "-5877641-06-23", id="the-first-of-spark"),
    ],
)
def test_dates_that_python_has_no_word_for_are_iso_8601_with_a_sign(days: int, text: str) -> None:
    column = pa.array([days, None, 0], pa.int32()).cast(pa.date32())

    assert [json.loads(row)["x"] for row in json_rows([("x", column)])] == [text, None, "1970-01-01"]


@pytest.mark.parametrize(("zone", "suffix"), [(None, ""), ("UTC", "Z")], ids=["without-zone", "utc"])
@pytest.mark.parametrize(
    ("micros", "text"),
    [
        pytest.param(-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999", id="before-year-zero"),
        pytest.param(253_402_300_800_000_000, "+10000-01-01T00:00:00.000000", id="five-digits"),
        pytest.param(971_890_963_200_000_000, "+32768-01-01T00:00:00.000000", id="beyond-32767"),
        pytest.param(2**63 - 1, "+294247-01-10T04:00:54.775807", id="the-last-of-spark"),
        pytest.param(-(2**63), "-290308-12-21T19:59:05.224192", id="the-first-of-spark"),
    ],
)
def test_timestamps_that_python_has_no_word_for_are_iso_8601_with_a_sign(
    micros: int, text: str, zone: str | None, suffix: str
) -> None:
    column = pa.array([micros, None, 0], pa.int64()).cast(pa.timestamp("us", zone))

    written = [json.loads(row)["x"] for row in json_rows([("x", column)])]

    assert written == [text + suffix, None, f"1970-01-01T00:00:00.000000{suffix}"]


def test_fields_stand_in_their_order_without_spaces() -> None:
    columns = [("key", pa.array(["a", "b"])), ('odd "name"', pa.array([1, None])), ("x", pa.array([0.5, 1e300]))]

    assert json_rows(columns) == [
        b'{"key":"a","odd \\"name\\"":1,"x":0.5}',
        b'{"key":"b","odd \\"name\\"":null,"x":1e+300}',
    ]
