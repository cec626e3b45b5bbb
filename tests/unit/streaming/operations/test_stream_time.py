from __future__ import annotations

import numpy as np

from airflow_provider.streaming.operations.stream_time import StreamTime, watermarks


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
