from __future__ import annotations

import pytest

from airflow_provider.error_text import MAX_ERROR_CHARS, bounded, error_text


def test_long_text_keeps_its_beginning_and_its_end() -> None:
    text = "ValueError: rows " + "x" * 5_000_000 + " and the end"

    short = error_text(ValueError(text))

    assert len(short) <= MAX_ERROR_CHARS
    assert short.startswith("ValueError: rows x")
    assert short.endswith("x and the end")
    assert "5,000,029 characters in all" in short


@pytest.mark.parametrize("size", [0, 1, MAX_ERROR_CHARS], ids=["empty", "one", "at-the-bound"])
def test_text_within_the_bound_stays_as_it_is(size: int) -> None:
    assert bounded("x" * size) == "x" * size


def test_text_that_cannot_be_encoded_is_made_encodable() -> None:
    assert bounded("caf\udce9").encode() == b"caf?"


def test_error_that_cannot_say_what_it_is_is_still_reported() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert error_text(MuteError()) == "its text cannot be read: str() raised RuntimeError"
