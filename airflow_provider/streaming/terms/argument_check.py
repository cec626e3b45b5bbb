"""Whether what a job's methods were given is of the kind that they take."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Final

from airflow_provider.errors import ConfigurationError

_MAX_CHARS: Final = 80
"""Of what was given, in an error: a stream or a job would fill pages."""


def given_text(value: object) -> str:
    """What was given, in few words, for an error."""
    text = repr(value)
    if len(text) <= _MAX_CHARS:
        return text
    if isinstance(value, (list, tuple, set, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return text[:_MAX_CHARS] + "..." if isinstance(value, (str, bytes)) else f"a {type(value).__name__}"


def check_kind(where: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Refuse a value of another type.

    Args:
        where: the method and its argument, such as ``stream() got topic=``.
        expected: the same in words, with an example.
    """
    if not isinstance(value, kinds):
        raise ConfigurationError(f"{where}{given_text(value)}: give {expected}.")


def check_number(where: str, value: object, unit: str, *, whole: bool = False, none: str = "") -> None:
    """Refuse what is no number above 0.

    Args:
        value: what was given; None is taken.
        whole: whether fractions are refused, too.
        none: what None means, for the message; empty where it means that nothing was given.
    """
    if value is None:
        return
    kind = Integral if whole else Real
    if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value) or value <= 0:
        needed = f"a whole number above 0 {unit}" if whole else f"a number above 0 {unit}"
        raise ConfigurationError(f"{where}={value!r}: it must be {needed}{f', or None for {none}' if none else ''}.")
