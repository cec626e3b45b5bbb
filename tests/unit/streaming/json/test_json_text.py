"""Which values are JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.streaming.json.json_text import MAX_DEPTH, not_json, not_text, raw_fields


def column(values: Sequence[bytes | None]) -> pa.ChunkedArray:
    return pa.chunked_array([values], pa.binary())


def nested(depth: int, filler: bytes = b"") -> bytes:
    """An object that holds an array that holds an array..."""
    return b'{"x":' + b"[" * (depth - 1) + filler + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "value",
    [
        b"", b" ", b"null", b"7", b"[{}]", b'{"a":NaN}', b"{'a':1}", b"{}x", b"{}{}", b'{"a":1,}', b'{"a":01}',
        b'{"a":"\\ud800"}', b'{"a":"\xff"}', b'{"\xff":1}', b"\xef\xbb\xbf{}", b'{"a":"\n"}', b"{}\x00",
        nested(MAX_DEPTH + 1), nested(10_000), nested(1_000_000), b"{" * 2000,
    ],
    ids=lambda value: repr(value[:20]),
)  # fmt: skip
def test_value_that_is_no_json_is_named_and_no_other(value: bytes) -> None:
    bad = not_json(column([b"{}", value, None, b'{"a":1}']))

    assert list(bad) == [1]
    assert bad[1]


@pytest.mark.parametrize(
    "value",
    [
        b"{}", b' {"a" : [1e400, -0, "\\u0000\\ud83d\\ude00"]}\n', '{"é":"😀"}'.encode(), nested(MAX_DEPTH),
        b'{"a":[' + b",".join([b"{}"] * 5000) + b"]}",
        b'{"a":"' + b"[" * 5000 + b'"}',
        b'{"a":"\\"' + b"{" * 5000 + b'\\\\"}',
        nested(MAX_DEPTH, b'"' + b"[" * 5000 + b'\\""'),
    ],
    ids=lambda value: repr(value[:20]),
)  # fmt: skip
def test_json_is_left_alone(value: bytes) -> None:
    assert not_json(column([value])) == {}


tokens = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=3), tokens, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_any_object_that_python_writes_is_json_and_its_fields_are_found(
    value: dict[str, object], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()

    assert not_json(column([text])) == {}
    assert {name: json.loads(token) for name, token in raw_fields(text)} == value


def test_text_that_is_no_utf_8_is_found_at_any_depth() -> None:
    kind = pa.struct([("tags", pa.list_(pa.binary()))])
    values = pa.chunked_array([pa.array([{"tags": [b"a"]}, {"tags": [b"b", b"\xff"]}, None, {"tags": [b"c"]}], kind)])
    texts = values.combine_chunks()
    as_text = pa.StructArray.from_buffers(
        pa.struct([("tags", pa.list_(pa.string()))]),
        len(texts),
        texts.buffers()[:1],
        children=[as_texts(texts.field(0))],
    )

    assert list(not_text(pa.chunked_array([as_text]))) == [1]
    assert not_text(pa.chunked_array([pa.array(["a", None, "é"])])) == {}


def as_texts(lists: pa.ListArray) -> pa.ListArray:
    items = lists.values
    texts = pa.StringArray.from_buffers(len(items), items.buffers()[1], items.buffers()[2], items.buffers()[0])
    return pa.ListArray.from_arrays(lists.offsets, texts)
