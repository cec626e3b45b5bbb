from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import stream
from airflow_provider.streaming.language.stream import Stream


class Counts:
    """An object that is called."""

    def __call__(self, key: object, rows: object, state: object) -> None:
        """Does nothing."""

    def one_argument_less(self, key: object, rows: object) -> None:
        """Does nothing."""


class Unsigned:
    """As a function written in C whose signature Python does not know."""

    __signature__ = "none"

    def __call__(self) -> None:
        """Does nothing."""


class CountsLater:
    """An object whose call is a coroutine."""

    async def __call__(self, key: object, rows: object, state: object) -> None:
        """Does nothing."""

    async def method(self, key: object, rows: object, state: object) -> None:
        """Does nothing."""


async def later(key: object, rows: object, state: object, factor: int = 1) -> None:
    """Does nothing."""


async def one_by_one_later(key: object, rows: object, state: object) -> AsyncIterator[dict[str, Any]]:
    """Gives one row."""
    yield {}


def one_by_one(key: object, rows: object, state: object) -> Iterator[dict[str, Any]]:
    """Gives one row."""
    yield {}


def with_factor(factor: int, key: object, rows: object, state: object) -> None:
    """Does nothing."""


def with_default(key: object, rows: object, state: object, factor: int = 1) -> None:
    """Does nothing."""


def with_named(key: object, rows: object, state: object, *, factor: int) -> None:
    """Does nothing."""


def job(function: Callable[..., Any]) -> Stream:
    return stream("orders", schema="id STRING, amount INT", key="id").group_by("id").process(function, ["amount"])


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda key, rows, state: None, id="three"),
        pytest.param(lambda *given: None, id="any-number"),
        pytest.param(lambda key, *others: None, id="some-and-the-rest"),
        pytest.param(with_default, id="a-default"),
        pytest.param(one_by_one, id="generator"),
        pytest.param(functools.partial(with_factor, 2), id="partial"),
        pytest.param(functools.partial(with_named, factor=2), id="partial-by-name"),
        pytest.param(Counts(), id="object"),
        pytest.param(Unsigned(), id="signature-is-not-known"),
    ],
)
def test_function_that_takes_three_arguments_is_taken(function: Callable[..., Any]) -> None:
    assert job(function).origin is not None


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param(lambda k, rows: None, ["<lambda>(k, rows)", "too many positional arguments"], id="two"),
        pytest.param(with_factor, ["with_factor(factor", "missing a required argument: 'state'"], id="four"),
        pytest.param(with_named, ["missing a required argument: 'factor'"], id="keyword-only"),
        pytest.param(functools.partial(with_default, 1, 2), ["partial(", "too many"], id="partial-of-too-much"),
        pytest.param(Counts().one_argument_less, ["one_argument_less(key"], id="method"),
        pytest.param(Counts, ["Counts()"], id="class-that-takes-none"),
    ],
)
def test_function_that_cannot_be_called_with_three_arguments_is_refused_in_one_line(
    function: Callable[..., Any], words: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        job(function)

    said = str(refused.value)
    assert "\n" not in said
    for word in [*words, "function(key, rows, state)"]:
        assert word in said


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(later, "later(key", id="coroutine"),
        pytest.param(functools.partial(later, factor=2), "partial(", id="partial"),
        pytest.param(CountsLater(), "CountsLater(key", id="object"),
        pytest.param(CountsLater().method, "method(key", id="method"),
        pytest.param(one_by_one_later, "one_by_one_later(key", id="generator"),
    ],
)
def test_asynchronous_function_is_refused_in_one_line(function: Callable[..., Any], name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        job(function)

    said = str(refused.value)
    assert "\n" not in said
    assert name in said
    assert "async def" in said
