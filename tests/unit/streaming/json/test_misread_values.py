"""What Spark would take for something else than was written."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from airflow_provider.streaming.json.spark_json import SparkJson

MISREAD = SparkJson(
    "k STRING, `the price` DEC(10,2), at TIMESTAMP, day DATE, here TIMESTAMP_NTZ, s STRING, home STRUCT<at: TIMESTAMP>"
)


def find(*values: bytes | None) -> dict[int, str]:
    return MISREAD.misread(pa.chunked_array([values], pa.binary()))


def test_columns_are_found_whatever_their_type_is_called() -> None:
    strange = b'{"the price":"1,5","at":"10:00","k":"1,5","day":"2024","here":"10:00","s":"1,5"}'
    price, time = strange.replace(b"1,5", b"15"), strange.replace(b'"at":"10:00"', b'"at":null')
    assert set(find(strange, price, time)) == {0, 1, 2}
    assert not find(price.replace(b'"at":"10:00"', b'"at":null'))
    values = pa.chunked_array([[strange]], pa.binary())
    assert SparkJson(None).misread(values) == SparkJson("k STRING").misread(values) == {}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b'{"the price":"1,5"}', "column 'the price' is '1,5'"),
        (rb'{"the price":"1\u002c5"}', "column 'the price' is '1,5'"),
        (b'{"the price":"1,234.50","s":"x"}', "comma"),
        (b'{"at":"10:00:00"}', "column 'at' is '10:00:00', which has no date"),
        (b'{"at":"T10:00"}', "no date"),
        (b'{"day":"123"}', "column 'day' is '123', which is no date"),
        (b'{"home":{"at":"10:00"}}', "column 'home.at' is '10:00', which has no date"),
        (b'{"at":1700000000000}', "milliseconds"),
        (b'{"at":-99999999999999999999999}', "seconds since 1970"),
    ],
)
def test_value_is_named_with_its_column_and_no_other(value: bytes, said: str) -> None:
    found = find(b"{}", value, None, b"no json")

    assert list(found) == [1]
    assert said in found[1]


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b'{"the price":null,"at":null}',
        b'{"the price":1.5,"at":1700000000}',
        b'{"the price":"1.50","at":"2024-02-03T10:00:00.5+02:00"}',
        b'{"the price":"-1e3","at":"2024-02-03"}',
        b'{"at":" 2024-02-03 10:00"}',
        b'{"at":-62135596800}',
        b'{"at":253402300799}',
        b'{"s":"1,5","k":"10:00:00","more":{"at":"10:00"}}',
        # Spark refuses these itself.
        b'{"the price":[1],"at":true}',
        b'{"the price":{"a":1},"at":1.5}',
    ],
)
def test_other_values_are_left_to_spark(value: bytes) -> None:
    assert find(value) == {}


def test_all_fields_of_a_name_have_to_be_right() -> None:
    assert list(find(b'{"at":"10:00","at":"2024-01-01"}', b'{"at":"2024-01-01","at":"10:00"}')) == [0, 1]
    assert find(b'{"at":"2024-01-02","at":"2024-01-01","x":{"at":"10:00"}}') == {}


def test_it_goes_to_the_workers() -> None:
    assert list(pickle.loads(pickle.dumps(MISREAD)).misread(pa.chunked_array([[b'{"at":"1:00"}']]))) == [0]
