from __future__ import annotations

import pytest

from airflow_provider.state.time_segments import TimeSegments, time_of, time_prefix, times_of

TIMES = [-62_135_596_800_000, -1, 0, 1, 253_402_300_799_999]


def test_keys_lie_in_the_order_of_their_times() -> None:
    keys = [time_prefix(time) + group for time in TIMES for group in (b"", b"a", b"\xff" * 9)]
    assert keys == sorted(keys)
    assert [time_of(key) for key in keys[::3]] == TIMES
    assert times_of(keys[::3]).tolist() == TIMES


@pytest.mark.parametrize(("time", "start"), [(-11, -17), (-7, -7), (2, -7), (3, 3), (12, 3), (13, 13)])
def test_segments_have_one_length_before_1970_too(time: int, start: int) -> None:
    segments = TimeSegments(10, 3)
    assert segments.start_of(time) == start
    assert segments.starts_of([time_prefix(time)]).tolist() == [start]
