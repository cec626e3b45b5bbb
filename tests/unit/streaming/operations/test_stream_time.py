from __future__ import annotations

import numpy as np
import pyarrow as pa

from airflow_provider.streaming.operations.operation import Batch
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK, Lateness, StreamTime, lateness, watermarks
from airflow_provider.streaming.terms.event_time import EVENT_MS


def marks(times: list[int], delay: int, before: StreamTime) -> tuple[list[int], StreamTime]:
    found, after = watermarks(np.array(times, np.int64), delay, before)
    return found.tolist(), after


def test_watermark_lies_behind_the_greatest_time_so_far() -> None:
    assert marks([5, 3, 9, 1], 2, StreamTime()) == ([3, 3, 7, 7], StreamTime(9, 7))


def test_time_goes_on_from_the_last_commit_and_never_back() -> None:
    assert marks([1, 50], 2, StreamTime(40, 38)) == ([38, 48], StreamTime(50, 48))


def test_longer_delay_reopens_nothing() -> None:
    assert marks([41, 60], 20, StreamTime(40, 38)) == ([38, 40], StreamTime(60, 40))


def test_shorter_delay_counts_from_the_first_row_on() -> None:
    assert marks([1], 0, StreamTime(40, 30)) == ([40], StreamTime(40, 40))


def test_lateness_is_the_time_behind_the_greatest_up_to_the_row_and_none_of_one_that_moves_it() -> None:
    assert lateness(np.array([5, 3, 9, 1], np.int64), StreamTime()) == Lateness(4, 10.0, 8)
    assert lateness(np.array([5, 3, 9, 1], np.int64), StreamTime(10, 8)) == Lateness(4, 22.0, 9)


def test_lateness_of_many_rows_over_all_years_has_room() -> None:
    years_ms = 300_000_000_000_000
    found = lateness(np.zeros(400_000, np.int64), StreamTime(years_ms, None))

    assert (found.rows, found.max_ms) == (400_000, years_ms)
    assert found.total_ms == 400_000.0 * years_ms


def joined_marks(
    times: list[int], sides: list[int], delays: tuple[int, int], before: StreamTime
) -> tuple[list[int], StreamTime]:
    rows = pa.table({EVENT_MS: pa.array(times, pa.int64())})
    batch = Batch(key_name="k", rows=rows, before=before, after=before)
    of_sides = batch.side_watermarks(np.array(sides, np.int64), delays)
    least = np.minimum.reduce(of_sides)
    return least.tolist(), batch.time_of_sides(batch.ends(of_sides))


def test_two_streams_go_on_at_the_pace_of_the_slower_one() -> None:
    found, after = joined_marks([9, 3, 4, 20, 2, 30], [0, 1, 1, 0, 1, 1], (0, 1), StreamTime())
    assert found == [NO_WATERMARK, 2, 3, 3, 3, 20]
    assert after == StreamTime(30, 20, (20, 29))


def test_a_stream_that_was_not_seen_holds_time_back() -> None:
    assert joined_marks([9], [1], (0, 0), StreamTime())[1] == StreamTime(9, None, (None, 9))


def test_time_of_two_streams_goes_on_from_the_last_commit() -> None:
    before = StreamTime(9, 5, (9, 5))
    assert joined_marks([3, 8], [1, 1], (0, 0), before) == ([5, 8], StreamTime(9, 8, (9, 8)))
    assert joined_marks([3], [1], (100, 100), before) == ([5], StreamTime(9, 5, (9, 5)))
