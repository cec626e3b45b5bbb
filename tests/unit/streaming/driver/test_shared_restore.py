from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from airflow_provider.changelog.sst_range import SstRange, split
from airflow_provider.streaming.driver.shared_restore import SharedRestore
from tests.waiting import wait_until


def table_range(begin: int, end: int) -> SstRange:
    return SstRange(
        store="state",
        begin=begin,
        end=end,
        files=(f"{begin}.sst",),
        records=end - begin,
        record_bytes=10,
        commit=None,
        timestamp_ms=1,
    )


@pytest.fixture
def make() -> Iterator[Callable[..., SharedRestore]]:
    made: list[SharedRestore] = []

    def restore(write: Callable[[int, int], SstRange] = table_range, end: int = 100) -> SharedRestore:
        made.append(SharedRestore(0, end, 10, 2, write))
        return made[-1]

    yield restore
    for one in made:
        one.close()


def drain(restore: SharedRestore) -> list[SstRange]:
    """Take over what is ready, as a slot does."""
    taken: list[SstRange] = []
    position = 0

    def step() -> bool:
        nonlocal position
        for found in restore.ready():
            if found.begin == position:
                taken.append(found)
                position = found.end
        restore.advance(position)
        return restore.done

    wait_until(step, 10, "the store to be at the end of the ranges")
    return taken


@pytest.mark.parametrize(("begin", "end", "offsets"), [(0, 100, 10), (5, 6, 10), (0, 101, 10), (7, 7, 3), (0, 9, 4)])
def test_ranges_follow_each_other_without_a_gap_and_none_is_too_large(begin: int, end: int, offsets: int) -> None:
    ranges = split(begin, end, offsets)

    assert [offset for a, b in ranges for offset in range(a, b)] == list(range(begin, end))
    assert all(0 < b - a <= offsets for a, b in ranges)


def test_ranges_written_out_of_order_are_taken_over_in_order(make: Callable[..., SharedRestore]) -> None:
    second_is_written = threading.Event()

    def write(begin: int, end: int) -> SstRange:
        if begin == 0:
            assert second_is_written.wait(10)
        elif begin == 10:
            second_is_written.set()
        return table_range(begin, end)

    taken = drain(make(write))

    assert [found.begin for found in taken] == list(range(0, 100, 10))


def test_what_is_written_ahead_of_the_store_is_bounded(make: Callable[..., SharedRestore]) -> None:
    begun: list[int] = []

    def write(begin: int, end: int) -> SstRange:
        begun.append(begin)
        return table_range(begin, end)

    restore = make(write, end=1_000)
    wait_until(lambda: len(restore.ready()) == 8, 10, "as many ranges as may be written ahead")

    assert len(begun) == 8


def test_error_of_a_range_is_raised_after_what_came_before_is_taken_over(make: Callable[..., SharedRestore]) -> None:
    def write(begin: int, end: int) -> SstRange:
        if begin == 10:
            raise OSError("no room")
        return table_range(begin, end)

    restore = make(write)
    wait_until(lambda: len(restore.ready()) == 1, 10, "the first range")
    restore.advance(10)

    with pytest.raises(OSError, match="no room"):
        wait_until(lambda: restore.ready() == (), 10, "the error")


def test_store_that_takes_nothing_over_is_not_waited_for_for_ever(make: Callable[..., SharedRestore]) -> None:
    restore = make()
    wait_until(lambda: len(restore.ready()) > 0, 10, "the first range")

    def many_calls() -> None:
        for _ in range(100):
            restore.advance(0)

    with pytest.raises(TimeoutError, match="stays at 0"):
        many_calls()


def test_ranges_end_where_the_log_does_for_now(make: Callable[..., SharedRestore]) -> None:
    def write(begin: int, end: int) -> SstRange:
        return table_range(begin, min(end, 25))

    taken = drain(make(write))

    assert [(found.begin, found.end) for found in taken] == [(0, 10), (10, 20), (20, 25)]
