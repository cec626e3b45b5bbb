"""Spans against a store that knows each segment."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.digest import DIGEST_MASK, sum_of_digests
from airflow_provider.state.time_segments import MAX_SPANS, TimeSpans

LENGTH = 10
STARTS = st.one_of(st.integers(-20, 60), st.integers(-(10**6), 10**6)).map(lambda number: number * LENGTH)
BATCHES = st.lists(
    st.tuples(st.dictionaries(STARTS, st.integers(0, DIGEST_MASK), max_size=12), st.integers(0, 40), st.booleans()),
    max_size=25,
)


@given(BATCHES, st.integers(1, 6))
def test_digests_and_offsets_of_spans_are_always_those_of_their_segments(
    batches: list[tuple[dict[int, int], int, bool]], most: int
) -> None:
    kept: dict[int, int] = {}
    begun: dict[int, int] = {}
    spans, digests, offsets = TimeSpans(LENGTH), dict[int, int](), dict[int, int]()
    over = gone = -(10**7)
    for offset, (changes, steps, is_read_back) in enumerate(batches):
        over = max(over, min(kept) + steps * LENGTH) if kept else over
        expired = max(gone, spans.whole_before(over))
        changes = {at: change for at, change in changes.items() if at >= over}
        # What a store does.
        for at, change in changes.items():
            kept[at] = sum_of_digests(kept.get(at, 0), change)
            begun.setdefault(at, offset)
        kept = {at: digest for at, digest in kept.items() if at >= expired}
        begun = {at: begin for at, begin in begun.items() if at in kept}
        # What its owner does.
        for at, change in changes.items():
            digests[at] = sum_of_digests(digests.get(at, 0), change)
        spans = spans.after(changes, expired, most)
        digests = spans.fold({at: it for at, it in digests.items() if at >= expired}, sum_of_digests)
        new = dict.fromkeys(changes, offset) | offsets
        offsets = spans.fold({at: it for at, it in new.items() if at >= expired}, min)
        if is_read_back:
            spans = TimeSpans.of(LENGTH, {*offsets, *digests}, spans.firsts)

        assert gone <= expired <= over
        gone = expired
        parts = {last: [at for at in kept if first <= at <= last] for first, last in spans.spans}
        assert digests == {last: sum(kept[at] for at in part) & DIGEST_MASK for last, part in parts.items()}
        assert sum(digests.values()) & DIGEST_MASK == sum(kept.values()) & DIGEST_MASK
        assert offsets == {last: min(begun[at] for at in part) for last, part in parts.items()}
        assert len(spans.spans) <= most
        assert all(one[1] < other[0] for one, other in pairwise(spans.spans))


def test_segments_stay_apart_where_they_are_few() -> None:
    spans = TimeSpans(LENGTH).after([0, 10, 30], None, 3).after([10, 20, 40], 20, 3)

    assert spans.spans == ((20, 20), (30, 30), (40, 40))
    assert (spans.firsts, spans.longest_ms) == ({}, LENGTH)


def test_what_ends_soon_stays_apart() -> None:
    spans = TimeSpans(LENGTH).after(range(0, 100_000, LENGTH), None, MAX_SPANS)

    assert len(spans.spans) <= MAX_SPANS
    assert spans.spans[:5] == tuple((at, at) for at in range(0, 50, LENGTH))
    assert spans.longest_ms > 1_000


def test_segment_that_is_dated_far_ahead_holds_back_no_other() -> None:
    far = [10**12 + 10**10 * number for number in range(200)]

    spans = TimeSpans(LENGTH).after([*range(0, 100, LENGTH), *far], None, MAX_SPANS)

    assert spans.whole_before(100) == 100


@pytest.mark.parametrize("open_", [200, 2_000, 20_000], ids="{}-segments-open".format)
def test_store_keeps_little_more_than_it_has_to(open_: int) -> None:
    spans, step = TimeSpans(LENGTH), max(1, open_ // 100)
    for now in range(0, 3 * open_, step):
        over = (now - open_) * LENGTH
        expired = spans.whole_before(over)
        spans = spans.after(range(now * LENGTH, (now + step) * LENGTH, LENGTH), expired, MAX_SPANS)
        assert over - expired <= open_ * LENGTH / 16
        assert len(spans.spans) <= MAX_SPANS


def test_side_that_waited_is_forgotten_as_before_once_the_other_has_caught_up() -> None:
    spans = TimeSpans(LENGTH).after(range(0, 10**5, LENGTH), None, MAX_SPANS)

    spans = spans.after(range(10**5, 10**5 + 20 * LENGTH, LENGTH), spans.whole_before(10**5), MAX_SPANS)

    assert spans.spans == tuple((at, at) for at in range(10**5, 10**5 + 20 * LENGTH, LENGTH))
