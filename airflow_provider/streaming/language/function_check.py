"""Whether a job's function can be called as it will be: before Spark starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from airflow_provider.error_text import bounded
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.operations.process import Process, ProcessFunction
from airflow_provider.streaming.terms.argument_check import check_kind, check_number

_ARGUMENTS: Final = ("key", "rows", "state")
_SHOWN_CHARS: Final = 200


def check_process_function(function: Callable[..., Any]) -> None:
    """Refuse a function that `process()` could not call with its three arguments, or whose call would do nothing.

    A generator function is taken: its rows are those that it yields.

    Args:
        function: any callable. One whose signature Python does not know, as of some that are written in C, is taken.

    Raises:
        ConfigurationError: it is ``async``, takes fewer arguments, or needs more.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    # An object is asynchronous by its class.
    if any(map(_is_asynchronous, (function, type(function).__call__))):
        raise ConfigurationError(
            f"process() got {_shown(function, signature)}, an 'async def': a call of it does nothing, because nothing "
            "awaits what it returns. Give a plain 'def'."
        )
    try:
        signature.bind(*_ARGUMENTS)
    except TypeError as error:
        raise ConfigurationError(
            f"process() got {_shown(function, signature)}, and calls it as function({', '.join(_ARGUMENTS)}): {error}. "
            "Give a function that takes these three; functools.partial sets what else it needs."
        ) from None


def process_operation(
    function: ProcessFunction, columns: Sequence[str] | None, timeout_s: float | None, version: int
) -> Process:
    """The operation that `process()` was asked for.

    Args:
        function: see `check_process_function`.
        columns: that its rows hold.
        timeout_s: of a call, in seconds; None for no limit.
        version: of its state.

    Raises:
        ConfigurationError: an argument is not what it has to be.
    """
    if columns is None or isinstance(columns, str) or len(set(columns)) != len(columns):
        raise ConfigurationError(
            f"process() got columns={columns!r}: give the columns that its rows shall hold, each once, such as "
            'columns=["amount", "country"].'
        )
    if not callable(function):
        raise ConfigurationError(f"process() got {function!r}: give the function itself, without quotes.")
    check_process_function(function)
    check_number("process() got timeout_s", timeout_s, "seconds", none="no limit")
    check_kind("process() got version=", version, int, "a whole number, such as 2")
    return Process(function, tuple(columns), timeout_s, version)


def _is_asynchronous(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _shown(function: Callable[..., Any], signature: inspect.Signature) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return bounded(" ".join(f"{name}{signature}".split()), _SHOWN_CHARS)
