"""Decoding in the worker."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider.streaming.json.json_decoder import WINDOW, Decoded, JsonDecoder, JsonField

DECODER = JsonDecoder(
    (
        JsonField("name", "STRING"),
        JsonField("amount", "DOUBLE"),
        JsonField("quantity", "INT"),
        JsonField("at", "BIGINT"),
        JsonField("paid", "BOOLEAN"),
    )
)


def decode(values: Sequence[bytes | None]) -> Decoded:
    return DECODER.decode(pa.chunked_array([values], pa.binary()))


def only(field: str, value: bytes) -> object:
    decoded = decode([value])
    assert not decoded.bad
    return decoded.columns[field][0].as_py()


def test_fields_become_columns_of_their_types() -> None:
    decoded = decode(
        [b'{"name":"a","amount":1.5,"quantity":2,"at":9007199254740993,"paid":true,"more":[1]}', b"{}", None]
    )
    assert not decoded.bad
    assert {name: column.to_pylist() for name, column in decoded.columns.items()} == {
        "name": ["a", None, None],
        "amount": [1.5, None, None],
        "quantity": [2, None, None],
        "at": [9007199254740993, None, None],
        "paid": [True, None, None],
    }


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"5", id="number"),
        pytest.param(b"[1]", id="array"),
        pytest.param(b'{"amount":1', id="truncated"),
        pytest.param(b'{"amount":1}{"amount":2}', id="two objects"),
        pytest.param(b'{"amount":"3"}', id="text for a double"),
        pytest.param(b'{"quantity":1.0}', id="double for an integer"),
        pytest.param(b'{"quantity":2147483648}', id="out of the range of INT"),
        pytest.param(b'{"at":9223372036854775808}', id="out of the range of BIGINT"),
        pytest.param(b'{"paid":1}', id="number for a boolean"),
        pytest.param(b'{"name":"\xff"}', id="no UTF-8"),
        pytest.param(b'{"other":"\xff"}', id="no UTF-8 in a field that the schema lacks"),
        pytest.param(b'{"\xff":1}', id="no UTF-8 in a name"),
        pytest.param(b'{"other":"\\ud800"}', id="half a surrogate pair"),
        pytest.param(b'{"amount":NaN}', id="NaN"),
        pytest.param(b'{"other":-Infinity}', id="infinity in a field that the schema lacks"),
        pytest.param(b"{'amount':1}", id="single quotes"),
        pytest.param(b'{"amount":1} x', id="text behind"),
        pytest.param(b'{"other":' + b"[" * 1000 + b"]" * 1000 + b"}", id="nested 1,000 deep"),
        pytest.param(b'{"name":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", id="nested 100,000 deep"),
        pytest.param(b'{"quantity":"x","quantity":2}', id="two of a name, the first of another type"),
        pytest.param(b'{"name":1,"quantit\\u0079":"x","quantity":2}', id="two of a name, one escaped"),
        pytest.param(b'{"quantity":2147483648,"quantity":2}', id="two of a name, the first out of range"),
        pytest.param(b'{"quantity":' + b"1" * 5000 + b"}", id="5,000 digits"),
    ],
)
def test_bad_value_is_named_and_leaves_the_others_as_they_are(value: bytes) -> None:
    good = b'{"name":"a","amount":1,"quantity":1,"at":1,"paid":false}'
    decoded = decode([good, value, good])
    assert list(decoded.bad) == [1]
    assert decoded.bad[1]
    for column in decoded.columns.values():
        first, bad, last = column.to_pylist()
        assert first == last
        assert first is not None
        assert bad is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(b'{"name":3.10}', "3.1", id="number"),
        pytest.param(b'{"name":true}', "true", id="boolean"),
        pytest.param(b'{"name":{"a": [1, 2]}}', '{"a":[1,2]}', id="object"),
    ],
)
def test_text_takes_any_token(value: bytes, text: str) -> None:
    assert only("name", value) == text


def test_double_takes_the_names_of_what_json_cannot_write() -> None:
    nan = only("amount", b'{"amount":"NaN"}')
    assert isinstance(nan, float)
    assert math.isnan(nan)
    assert only("amount", b'{"amount":"-Infinity"}') == -math.inf


def test_decoder_crosses_to_another_process_after_it_was_used() -> None:
    decode([b"{}"])
    assert pickle.loads(pickle.dumps(DECODER)) == DECODER


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        pytest.param("a STRING, b double", (("a", "STRING"), ("b", "DOUBLE")), id="plain"),
        pytest.param("a LONG,b INTEGER , c BIGINT", (("a", "BIGINT"), ("b", "INT"), ("c", "BIGINT")), id="aliases"),
        pytest.param("", (), id="nothing"),
        pytest.param("a STRING, b TIMESTAMP_NTZ", None, id="a type with rules of Spark's"),
        pytest.param(
            "a STRING, b struct<c int,d: STRUCT<E DEC(3)>>",
            (("a", "STRING"), ("b", "STRUCT<c: INT, d: STRUCT<E: DECIMAL(3,0)>>")),
            id="nested",
        ),
        pytest.param("a STRING, b STRUCT<c: INT, d: ARRAY<INT>>", None, id="nested type with rules of Spark's"),
        pytest.param("a STRING, b STRUCT<c: INT, C: INT>", None, id="nested twice"),
        pytest.param("`a b` STRING", None, id="quoted name"),
        pytest.param("a DECIMAL(10, 2), b dec", (("a", "DECIMAL(10,2)"), ("b", "DECIMAL(10,0)")), id="decimal"),
        pytest.param("a DECIMAL(39,2)", None, id="decimal that Spark has not"),
        pytest.param("a DATE", (("a", "DATE"),), id="date"),
        pytest.param("__a STRING", None, id="name that a class cannot have"),
    ],
)
def test_only_plain_schemas_are_decoded_in_the_worker(schema: str, fields: tuple[tuple[str, str], ...] | None) -> None:
    decoder = JsonDecoder.of(schema)
    assert (None if decoder is None else tuple((f.name, f.kind) for f in decoder.fields)) == fields


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"3.10", "3.1"),
        (b"1e3", "1000.0"),
        (b"1e15", "1.0E15"),
        (b"0.00012", "1.2E-4"),
        (b"-1234567890.5", "-1.2345678905E9"),
        (b"1e400", '"Infinity"'),
        (b"-0", "0"),
        (b"1" * 5000, "1" * 5000),
        (b'{"a" : 1.50, "a":[true, null]}', '{"a":1.5,"a":[true,null]}'),
        (b'["\\ud83d\\ude00\\/\\u00e9"]', '["\\uD83D\\uDE00/é"]'),
        (b'"\\ud83d\\ude00"', "😀"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_text_field_holds_what_spark_writes_of_another_token(token: bytes, text: str) -> None:
    assert only("name", b'{"name":' + token + b"}") == text


def test_double_of_any_length_is_a_double() -> None:
    assert only("amount", b'{"amount":' + b"1" * 5000 + b"}") == math.inf
    assert only("amount", b'{"amount":0.' + b"1" * 5000 + b"}") == 1 / 9


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(b'{"amount":"x"}', "column 'amount' is BIGINT, and \"x\" is none", id="another-type"),
        pytest.param(
            b'{"amount":9223372036854775808}',
            "column 'amount' is BIGINT, and 9223372036854775808 is out of its range",
            id="out-of-range",
        ),
        pytest.param(b'{"name":"a","amount":[1,2]}', "column 'amount' is BIGINT, and [1,2] is none", id="nested"),
        pytest.param(
            b'{"amount":"%b"}' % (b"y" * 5_000), "column 'amount' is BIGINT, and \"" + 39 * "y" + " is none", id="long"
        ),
    ],
)
def test_value_that_does_not_fit_is_named_with_its_column_and_type(value: bytes, expected: str) -> None:
    decoder = JsonDecoder.of("name STRING, amount BIGINT")
    assert decoder is not None

    assert decoder.decode(pa.chunked_array([[value]], pa.binary())).bad == {0: expected}


def times(*values: str) -> tuple[list[int | None], dict[int, str]]:
    """Microseconds since 1970, and why a value is no time."""
    decoder = JsonDecoder.of("at TIMESTAMP, n INT")
    assert decoder is not None
    texts = [f'{{"at":{value},"n":1}}'.encode() for value in values]
    decoded = decoder.decode(pa.chunked_array([texts], pa.binary()))
    assert decoded.columns["at"].type == pa.timestamp("us", tz="UTC")
    assert decoded.columns["n"].to_pylist() == [None if at in decoded.bad else 1 for at in range(len(values))]
    return decoded.columns["at"].cast(pa.int64()).to_pylist(), decoded.bad


def test_times_are_those_of_utc_unless_they_say_how_far_they_are_from_it() -> None:
    noon = 1_769_860_800_000_000
    texts = ["2026-01-31T12:00:00Z", "2026-01-31 12:00:00.000001", "2026-01-31 13:00:00+01:00", "2026-1-31 12"]

    assert times(*(f'"{text}"' for text in texts)) == ([noon, noon + 1, noon, noon], {})
    assert times(f'"{texts[0]}"', "null") == ([noon, None], {})
    assert times("1769860800", f'"{texts[0]}"') == ([noon, noon], {})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('"2026-02-30 12:00:00"', "column 'at' is TIMESTAMP, and \"2026-02-30 12:00:00\" is none"),
        ('"soon"', "column 'at' is 'soon', which has no date"),
        ('"2026-01-31 12:00:00 Europe/Vienna"', "of which the zone has a name: write how far it is from UTC"),
        ("1769860800000", "Are they milliseconds?"),
        ("1.5", "column 'at' is TIMESTAMP, and 1.5 is none"),
        ("true", "column 'at' is TIMESTAMP, and true is none"),
    ],
)
def test_what_is_no_time_is_named_and_the_others_are_decoded(value: str, why: str) -> None:
    found, bad = times('"2026-01-31 12:00:00"', value, '"2026-01-31"')

    assert (found[1], list(bad)) == (None, [1])
    assert None not in (found[0], found[2])
    assert why in bad[1]


def test_field_that_stands_twice_has_to_be_a_time_each_time() -> None:
    assert sorted(times('"x","at":"2026-01-31"', '"2026-01-31","at":"x"', '"2026","at":"2026-01-31"')[1]) == [0, 1]


def test_window_of_an_earlier_stage_is_a_struct_of_its_bounds_and_none_is_null() -> None:
    decoder = JsonDecoder.of_fields([JsonField("n", "BIGINT"), JsonField("of", WINDOW)])
    assert decoder is not None
    values = [
        b'{"n":1,"of":{"start":"2023-11-14T22:13:20.000Z","end":"2023-11-14T22:13:30.001Z"}}',
        b'{"n":2,"of":null}',
        b'{"n":3}',
        b'{"n":4,"of":{"start":"never","end":"2023-11-14T22:13:30.000Z"}}',
        b'{"n":5,"of":7}',
    ]
    decoded = decoder.decode(pa.chunked_array([values], pa.binary()))

    bounds = pc.struct_field(decoded.columns["of"], "end").cast(pa.int64()).to_pylist()
    assert bounds == [1_700_000_010_001_000, None, None, None, None]
    assert decoded.columns["of"].is_valid().to_pylist() == [True, False, False, False, False]
    assert decoded.columns["n"].to_pylist() == [1, 2, 3, None, None]
    assert sorted(decoded.bad) == [3, 4]


def test_fields_of_one_name_or_of_a_strange_one_are_left_to_spark() -> None:
    assert JsonDecoder.of_fields([JsonField("a", "INT"), JsonField("A", "INT")]) is None
    assert JsonDecoder.of_fields([JsonField('a"b', "INT")]) is None


STRANGE = [
    rb'"\ud800"', rb'"\x"', b'"\x01"', b'"b', b"nul", b"01", b"1e", b"NaN", b'[1,2,{"x":}]', rb'"\u12"', b"1.", b"-",
    b'"\xff"', rb'"\udc00\ud800"', b"1e400", b"9" * 5000, b"[" * 400 + b"]" * 400, rb'"\/"', b"null",
    b'{"a":{"b":"c"}}', b'"x","a":tru', b"",
]  # fmt: skip


def test_text_that_nobody_needs_is_looked_at_all_the_same() -> None:
    decoder = JsonDecoder.of("a STRING, n BIGINT")
    assert decoder is not None
    values = pa.chunked_array([[b'{"a":' + token + b',"n":1}' for token in STRANGE]], pa.binary())

    whole, part = decoder.decode(values), decoder.only({"n"}).decode(values)

    assert list(part.columns) == ["n"]
    assert part.columns["n"] == whole.columns["n"]
    assert part.bad.keys() == whole.bad.keys()
    assert len(whole.bad) > len(STRANGE) / 2


@pytest.mark.parametrize(
    ("token", "number", "why"),
    [
        (b"2.345", "2.35", ""),
        (b'"-2.345"', "-2.35", ""),
        (b"1e2", "100.00", ""),
        (b"-0.004", "0.00", ""),
        (b"999.995", None, "column 'a' is DECIMAL(5,2), and 999.995 has more than 3 digits before the point"),
        (b'"1,5"', None, "column 'a' is '1,5': a comma is no part of a number in JSON"),
        (b'1,"a":true', None, "column 'a' is DECIMAL(5,2), and true is none"),
    ],
)
def test_decimal_is_rounded_half_up_or_its_column_is_named(token: bytes, number: str | None, why: str) -> None:
    decoder = JsonDecoder.of("a DECIMAL(5, 2)")
    assert decoder is not None

    decoded = decoder.decode(pa.chunked_array([[b'{"a":' + token + b"}"]], pa.binary()))

    (found,) = decoded.columns["a"].to_pylist()
    assert (None if found is None else str(found)) == number
    assert decoded.bad.get(0, "").startswith(why)
    assert bool(decoded.bad) == bool(why)
