from __future__ import annotations

import pickle

import pytest

from airflow_provider.streaming.json.spark_json import SparkJson

MISFIT = SparkJson(
    "card STRING, amount DECIMAL(12,2), n INT, small TINYINT, ok BOOLEAN, x DOUBLE, day DATE, at TIMESTAMP, "
    "list ARRAY<INT>, `the map` MAP<STRING, INT>, s STRUCT<a: INT>"
)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b'{"card":"c","amount":"abc"}', "column 'amount' is DECIMAL(12,2), and \"abc\" is none"),
        (b'{"amount":12345678901.5}', "12345678901.5 has more than 10 digits before the point"),
        (b'{"amount":true}', "true is none"),
        (b'{"amount":""}', '"" is none'),
        (b'{"amount":"NaN"}', '"NaN" is none'),
        (b'{"n":3000000000}', "column 'n' is INT, and 3000000000 is out of its range"),
        (b'{"n":"3"}', '"3" is none'),
        (b'{"small":200}', "200 is out of its range"),
        (b'{"ok":1}', "column 'ok' is BOOLEAN, and 1 is none"),
        (b'{"x":[1]}', "[1] is none"),
        (b'{"x":"abc"}', "column 'x' is DOUBLE, and \"abc\" is none"),
        (b'{"x":"INF"}', "column 'x' is DOUBLE"),
        (b'{"x":"1.5"}', "column 'x' is DOUBLE, and \"1.5\" is none"),
        (b'{"at":"2026-01-31T99:00:00"}', "column 'at' is TIMESTAMP"),
        (b'{"s":{"a":"x"}}', "column 's.a' is INT, and \"x\" is none"),
        (b'{"list":[1,null,"x"]}', "column 'list[2]' is INT, and \"x\" is none"),
        (b'{"the map":{"k":1,"l":1.5}}', "column \"the map['l']\" is INT, and 1.5 is none"),
        (b'{"day":"2026-13-01"}', "column 'day' is DATE, and \"2026-13-01\" is none"),
        (b'{"at":"yesterday"}', "column 'at' is TIMESTAMP"),
        (b'{"list":{"a":1}}', "column 'list' is ARRAY<INT>"),
        (b'{"the map":[]}', "column 'the map' is MAP<STRING, INT>"),
        (b'{"s":1}', "column 's' is STRUCT<a: INT>"),
    ],
)
def test_column_that_a_value_does_not_fit_is_named_with_its_type_and_what_was_found(value: bytes, said: str) -> None:
    assert said in str(MISFIT.misfit(value))
    assert pickle.loads(pickle.dumps(MISFIT)).misfit(value) == MISFIT.misfit(value)


@pytest.mark.parametrize(
    "value",
    [
        b'{"card":1,"amount":"12.50","n":-3,"ok":false,"x":1e3,"day":"2026-01-31","at":"2026-01-31T10:00:00Z"}',
        b'{"amount":0.000,"at":1700000000,"list":[],"the map":{},"s":{"a":1,"b":"x"},"other":[],"x":"-Infinity"}',
        b'{"list":[1,2],"the map":{"k":null},"s":null,"x":"NaN","at":"2026-01-31 23:59"}',
        b'{"amount":null,"n":null}',
        b"no json",
        b'{"n":',
        b'{"n"',
        b"[]",
    ],
)
def test_value_in_which_no_column_is_seen_to_be_wrong_has_no_reason(value: bytes) -> None:
    assert MISFIT.misfit(value) is None


def test_schema_that_is_not_understood_has_no_columns() -> None:
    assert SparkJson(None).misfit(b'{"a":1}') is None
    assert SparkJson("no schema at all <").misfit(b'{"a":1}') is None
