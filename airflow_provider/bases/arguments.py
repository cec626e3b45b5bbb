"""Arguments that came through a template, as the values that they mean: a template renders text.

Each function takes the name of the argument, for its message, and the value as it was rendered. Where that is none of
those it raises `ConfigurationError`.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from airflow_provider.errors import ConfigurationError

P = ParamSpec("P")
T = TypeVar("T")

_FLAGS: Final = {"true": True, "false": False}
_NOTHING: Final = frozenset({"", "None", "null"})


def parse_optional(value: Any) -> Any:
    """The value; None where it is None, or the text that an empty field of a form renders to."""
    return None if value is None or (isinstance(value, str) and value.strip() in _NOTHING) else value


def parse_if_given(
    parse: Callable[Concatenate[str, Any, P], T], argument: str, value: Any, *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """What one of the other functions makes of a value; None where `parse_optional` finds none."""
    given = parse_optional(value)
    return None if given is None else parse(argument, given, *args, **kwargs)


def parse_names(argument: str, value: Any) -> tuple[str, ...]:
    """One name or several: a sequence of texts, a list as JSON or Python writes it, or text with commas."""
    found = value
    if isinstance(value, str) and value.strip().startswith(("[", "(")):
        found = _literal(argument, value)
    elif isinstance(value, str):
        found = value.split(",")
    if not isinstance(found, Sequence) or not all(isinstance(name, str) for name in found):
        raise ConfigurationError(
            f"{argument} is {value!r}: name one as text, or several as a list of texts, such as ['a', 'b']. A number "
            "is no name: write '3.10' in quotes."
        )
    names = tuple(name.strip() for name in found)
    if not names or not all(names):
        raise ConfigurationError(f"{argument} is {value!r}: no name may be empty.")
    return names


def parse_texts(argument: str, value: Any) -> str | Sequence[str]:
    """A text, or several: a sequence of texts, also as JSON or Python writes it."""
    found = _literal(argument, value) if isinstance(value, str) and value.strip().startswith(("[", "(")) else value
    if isinstance(found, str) or (isinstance(found, Sequence) and all(isinstance(text, str) for text in found)):
        return found
    raise ConfigurationError(f"{argument} is {value!r}: give a text, or a list of texts.")


def parse_whole(argument: str, value: Any, minimum: int = 0) -> int:
    """A whole number of `minimum` or more."""
    try:
        number = int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or number < minimum:
        raise ConfigurationError(f"{argument} is {value!r}: use a whole number of {minimum} or more.")
    return number


def parse_seconds(argument: str, value: Any) -> float:
    """A positive, finite number of seconds."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigurationError(f"{argument} is {value!r}: use a positive, finite number of seconds.")
    return seconds


def parse_flag(argument: str, value: Any) -> bool:
    """Yes or no: a truth value, or its name in any case."""
    found = _FLAGS.get(str(value).strip().lower())
    if found is None:
        raise ConfigurationError(f"{argument} is {value!r}: use true or false.")
    return found


def parse_mapping(argument: str, value: Any) -> dict[str, str]:
    """Texts by name: a mapping, or one as JSON or Python writes it; an empty one for None."""
    found = _literal(argument, value) if isinstance(value, str) and value.strip() else value or {}
    if not isinstance(found, Mapping):
        raise ConfigurationError(f"{argument} is {value!r}: use a mapping, such as {{'name': 'value'}}.")
    return {str(name): str(item) for name, item in found.items()}


def _literal(argument: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError) as error:
        raise ConfigurationError(
            f"{argument} is {text!r}, which is neither JSON nor a Python literal: correct it, or render it with "
            "'| tojson'."
        ) from error
