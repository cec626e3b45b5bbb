"""The state of ``process()`` comes back as Python put it in, or is refused."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import json
import math
import uuid
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.streaming.json.user_values import decode_state, encode_state

ZONES = st.sampled_from(
    [dt.UTC, dt.timezone(dt.timedelta(hours=-3, minutes=-30)), ZoneInfo("UTC"), ZoneInfo("Asia/Tokyo")]
)
hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=ZONES)
    | st.times()
    | st.timedeltas()
    | st.uuids(),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
states = st.recursive(
    hashables,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
    ),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """The value with the types of all that it holds, as far as equality does not tell them apart."""
    if isinstance(value, dict):
        return (dict, [(shape(key), shape(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [shape(item) for item in value])
    if isinstance(value, (set, frozenset)):
        return (type(value), sorted(repr(shape(item)) for item in value))
    if isinstance(value, (dt.datetime, dt.time)):
        return (type(value), value.replace(tzinfo=None), value.fold, str(value.tzinfo))
    return (type(value), repr(value))


@given(states)
def test_state_comes_back_with_its_types(value: Any) -> None:
    decoded = decode_state(encode_state(value))

    assert shape(decoded) == shape(value)


def test_keys_that_are_integers_stay_integers_and_counts_grow() -> None:
    counts: dict[int, int] = {}
    for _ in range(3):
        counts[7] = counts.get(7, 0) + 1
        counts = decode_state(encode_state(counts))

    assert counts == {7: 3}


def test_numbers_that_are_not_finite_are_kept() -> None:
    decoded = decode_state(encode_state([math.nan, math.inf, -math.inf, Decimal("NaN"), -0.0]))

    assert [str(value) for value in decoded] == ["nan", "inf", "-inf", "NaN", "-0.0"]


def test_same_set_gives_the_same_bytes() -> None:
    texts = [f"text {i}" for i in range(100)]
    other_way = texts[::-1]

    assert encode_state(set(texts)) == encode_state(set(other_way))


def test_moment_of_an_hour_that_comes_twice_keeps_which() -> None:
    moment = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)

    decoded = decode_state(encode_state(moment))

    assert (decoded.fold, decoded.utcoffset(), decoded.tzinfo.key) == (1, dt.timedelta(hours=1), "Europe/Berlin")


class Colour(enum.IntEnum):
    RED = 1


class OddZone(dt.tzinfo):
    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(hours=1)

    def dst(self, moment: dt.datetime | None) -> None:
        return None

    def tzname(self, moment: dt.datetime | None) -> str:
        return "odd"


Point = collections.namedtuple("Point", "x y")
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        pytest.param({"n": collections.Counter("ab")}, r"state\['n'\] is a collections.Counter", id="counter"),
        pytest.param([collections.defaultdict(int)], r"state\[0\] is a collections.defaultdict", id="defaultdict"),
        pytest.param(Colour.RED, "Colour", id="enum"),
        pytest.param(Point(1, 2), "Point", id="namedtuple"),
        pytest.param({"x": np.float64(1.5)}, r"state\['x'\] is a numpy.float64", id="numpy"),
        pytest.param(object(), "builtins.object", id="object"),
        pytest.param(bytearray(b"x"), "builtins.bytearray", id="bytearray"),
        pytest.param({(1, object()): 1}, "builtins.object", id="in-a-key"),
        pytest.param(dt.datetime(2026, 1, 1, tzinfo=OddZone()), "datetime.datetime with the zone", id="zone"),
        pytest.param(CYCLE, "holds itself", id="cycle"),
        pytest.param("\ud800", "not Unicode", id="lone-surrogate"),
        pytest.param({"\ud800": 1}, "not Unicode", id="lone-surrogate-key"),
    ],
)
def test_what_would_not_come_back_is_refused_by_its_type(value: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        encode_state(value)


def test_nesting_that_is_accepted_can_be_read() -> None:
    value: Any = 1
    for _ in range(33):
        value = [({"k": value},)]

    assert decode_state(encode_state(value)) == value
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        encode_state([[value]])


@pytest.mark.parametrize("value", [7, "seven", [1, None], {"a": 1.5}, True, -3])
def test_state_that_is_json_is_read(value: Any) -> None:
    assert decode_state(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "data", [b"\x01\x01\0", b"\xc1", b"\xc1\x93\x01", b"\xc1\xc7\x00\x63", b"\xc1\xc7\x01\x02x"], ids=str
)
def test_bytes_of_something_else_are_refused(data: bytes) -> None:
    with pytest.raises((ValueError, ArithmeticError)):
        decode_state(data)


def test_layout_is_the_documented_one() -> None:
    assert encode_state({"a": 1}) == b"\xc1\x81\xa1a\x01"
    assert encode_state(Decimal("1.50")) == b"\xc1\xd6\x021.50"
    assert encode_state(dt.date(2026, 1, 2)) == b"\xc1\xc7\x0a\x032026-01-02"
    assert encode_state(uuid.UUID(int=1)) == b"\xc1\xd8\x07" + bytes(15) + b"\x01"
