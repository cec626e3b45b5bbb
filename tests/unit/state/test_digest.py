from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.digest import DIGEST_MASK, digest_change, digest_of

# Few keys and short values, so that they meet often.
KEYS = st.sampled_from([b"", b"a", b"b", b"ab", b"\xff"])
VALUES = st.binary(max_size=3)
BATCHES = st.lists(st.dictionaries(KEYS, st.none() | VALUES), max_size=6)


def whole(stored: dict[bytes, bytes]) -> int:
    return digest_of(stored.keys(), stored.values())


@given(BATCHES, st.data())
def test_digest_that_is_kept_up_to_date_is_the_one_from_scratch(
    batches: list[dict[bytes, bytes | None]], data: st.DataObject
) -> None:
    stored: dict[bytes, bytes] = {}
    digest = whole(stored)
    for batch in batches:
        # An operation may read more keys than it changes.
        keys = list(dict.fromkeys([*data.draw(st.lists(KEYS)), *batch]))
        changes = [(key, batch[key]) for key in keys if key in batch]

        digest = (digest + digest_change(keys, [stored.get(key) for key in keys], changes)) & DIGEST_MASK

        for key, value in changes:
            stored.pop(key, None)
            stored |= {} if value is None else {key: value}
        assert digest == whole(stored)


@given(st.dictionaries(KEYS, VALUES), st.randoms(use_true_random=False))
def test_order_does_not_matter(stored: dict[bytes, bytes], chance: random.Random) -> None:
    pairs = list(stored.items())
    chance.shuffle(pairs)

    assert whole(dict(pairs)) == whole(stored)


@given(st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS, VALUES))
def test_stores_have_one_digest_only_if_they_are_equal(one: dict[bytes, bytes], other: dict[bytes, bytes]) -> None:
    assert (whole(one) == whole(other)) is (one == other)


def test_byte_that_passes_from_the_key_to_the_value_is_seen() -> None:
    assert whole({b"ab": b"c"}) != whole({b"a": b"bc"})


def test_values_that_changed_places_are_seen() -> None:
    assert whole({b"a": b"1", b"b": b"2"}) != whole({b"a": b"2", b"b": b"1"})


def test_digest_is_the_same_on_every_host_and_in_every_version() -> None:
    assert f"{whole({b'a': b'1', b'key': b'value'}):016x}" == "8e31e3c6f0b9128e"
    assert whole({}) == 0
