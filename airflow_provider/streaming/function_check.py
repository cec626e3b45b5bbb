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
    """Refuse a function that `process()` could not call with its three arguments.

    Args:
        function: any callable. One whose signature Python does not know, as of some that are written in C, is taken.

    Raises:
        ConfigurationError: it takes fewer arguments, or needs more.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*_ARGUMENTS)
    except TypeError as error:
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        shown = bounded(" ".join(f"{name}{signature}".split()), _SHOWN_CHARS)
        raise ConfigurationError(
            f"process() got {shown}, and calls it as function({', '.join(_ARGUMENTS)}): {error}. Give a function that "
            "takes these three; functools.partial sets what else it needs."
        ) from None
