from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.changelog.dead_letter import DeadLetter
from airflow_provider.common.task_id import TaskId


@pytest.mark.parametrize(
    ("timestamp_ms", "written_ms"),
    [
        pytest.param(500, 500, id="of-the-past"),
        pytest.param(1_000 + 7_200_000, 1_000, id="two-hours-ahead-which-brokers-refuse"),
        pytest.param(-1, 0, id="none"),
    ],
)
def test_dead_letter_has_a_timestamp_that_brokers_take_and_the_records_own_in_its_headers(
    timestamp_ms: int, written_ms: int
) -> None:
    letter = DeadLetter(
        key=None,
        value=b"x",
        topic="t",
        partition=0,
        offset=1,
        timestamp_ms=timestamp_ms,
        task=TaskId(1, 0),
        error="DecodeError",
        message="no JSON",
    )

    assert letter.written_timestamp_ms(now_ms=1_000) == written_ms
    assert dict(letter.headers())["__streams.errors.timestamp"] == str(timestamp_ms).encode()
    assert dict(letter.headers())["__streams.errors.task"] == b"1_0"


LETTER = DeadLetter(
    key=b"k",
    value=b"v" * 10_000,
    topic="orders",
    partition=0,
    offset=7,
    timestamp_ms=1,
    task=TaskId(0, 0),
    error="ProcessError",
    message="ValueError: " + "x" * 5_000_000,
    stack="Traceback " + "s" * 5_000_000,
)


def test_headers_are_cut_and_the_record_is_whole() -> None:
    headers = dict(LETTER.headers())

    assert LETTER.value == b"v" * 10_000
    assert sum(len(value or b"") for value in headers.values()) < 11_000
    assert LETTER.size < 25_000


def test_letter_that_is_too_large_for_its_topic_says_less() -> None:
    fitted = LETTER.fitted(12_000)

    assert (fitted.value, fitted.stack) == (LETTER.value, "")
    assert fitted.size <= 12_000
    assert fitted.message.startswith("ValueError: x")


def test_letter_that_fits_stays_as_it_is() -> None:
    small = dataclasses.replace(LETTER, message="why", stack="where")

    assert small.fitted(12_000) is small
