""" """

from __future__ import annotations

import pytest

from airflow_provider.streaming.driver.slots.input_wait import InputPositions


@pytest.mark.parametrize(
    ("partition", "offset", "new"),
    [
        pytest.param(0, 7, True, id="the-next-one"),
        pytest.param(0, 9, True, id="the-next-one-is-gone"),
        pytest.param(0, 6, False, id="fetched-before-the-micro-batch"),
        pytest.param(1, 0, True, id="the-first-one"),
        pytest.param(2, 9, False, id="of-a-partition-that-is-not-waited-for"),
    ],
)
def test_record_that_is_waited_for_is_known(partition: int, offset: int, new: bool) -> None:
    assert InputPositions({0: 7, 1: None}).is_new(partition, offset) is new


def test_consumer_that_came_to_the_end_is_not_stalled_although_only_markers_came() -> None:
    positions = InputPositions({0: 7})

    positions.reached_end(0, 9)

    assert [positions.is_stalled({0: 9}) for _ in range(3)] == [False, False, False]


def test_consumer_gets_a_looks_time_to_come_to_the_end() -> None:
    positions = InputPositions({0: 7, 1: None})

    assert not positions.is_stalled({0: 9, 1: 0})
    positions.reached_end(0, 9)
    assert not positions.is_stalled({0: 12, 1: 0})
    assert positions.is_stalled({0: 12, 1: 0})


def test_brokers_that_do_not_answer_stall_no_consumer() -> None:
    positions = InputPositions({0: 7})

    assert not positions.is_stalled({0: 9})
    positions.reached_end(0, 9)
    assert not positions.is_stalled({})
    assert not positions.is_stalled({0: 12})


def test_end_before_what_was_read_is_true_when_it_is_seen_twice_in_a_row() -> None:
    positions = InputPositions({0: 7, 1: None})

    assert not positions.fell_back({0: 5, 1: 0})
    assert not positions.fell_back({})
    assert not positions.fell_back({0: 5, 1: 0})
    assert positions.fell_back({0: 6, 1: 0})
    assert not positions.fell_back({0: 7, 1: 0})
