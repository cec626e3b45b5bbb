"""Whether a job's function can be called as it will be: before Spark starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from airflow_provider.common.error_text import bounded
from airflow_provider.errors import ConfigurationError

__all__ = ["check_process_function"]

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


def _is_asynchronous(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _shown(function: Callable[..., Any], signature: inspect.Signature) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return bounded(" ".join(f"{name}{signature}".split()), _SHOWN_CHARS)
