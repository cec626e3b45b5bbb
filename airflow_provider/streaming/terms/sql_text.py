"""Spark SQL as text, as far as its shape matters before Spark runs: brackets, quotes, aliases."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Final

_QUOTES: Final = "'\"`"
_OPENING, _CLOSING = "([{", ")]}"
_NAME: Final = r"(?:`(?:[^`]|``)+`|[A-Za-z_]\w*)"
_COLUMN: Final = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_ALIAS: Final = re.compile(rf"(?P<before>.*\S)\s+AS\s+(?:(?P<one>{_NAME})|\((?P<several>[^()]*)\))\s*", re.I | re.S)
_CALL: Final = re.compile(r"(?P<function>[A-Za-z_]\w*)\s*\((?P<inner>.*)\)", re.S)


def is_column(text: str) -> bool:
    """Whether an expression is nothing but a column's name, or a path in a struct."""
    return _COLUMN.fullmatch(text.strip()) is not None


def split_alias(text: str) -> tuple[str, tuple[str, ...]]:
    """An expression without its alias, and the names that the alias gives: none without one.

    Args:
        text: such as ``amount / 2 AS half``, or ``explode(totals) AS (name, total)``.
    """
    found = _ALIAS.fullmatch(text)
    if found is None or _is_open(found["before"]):
        return text.strip(), ()
    names = [found["one"]] if found["one"] else found["several"].split(",")
    return found["before"].strip(), tuple(_plain(name) for name in names)


def call_of(text: str) -> tuple[str, str] | None:
    """The function, in lower case, and the arguments of an expression that is one call and nothing else."""
    found = _CALL.fullmatch(text.strip())
    if found is None:
        return None
    begin = found.start("inner")
    depths = [depth for at, depth in _depths(text.strip()) if begin <= at < found.end("inner")]
    return None if any(depth < 1 for depth in depths) else (found["function"].lower(), found["inner"])


def calls_in(text: str) -> frozenset[str]:
    """The names of all functions that an expression calls, in lower case; what stands in quotes is no call."""
    return frozenset(name.lower() for name in re.findall(r"([A-Za-z_]\w*)\s*\(", _outside(text)))


def has_over(text: str) -> bool:
    """Whether an expression has an ``OVER (...)`` behind a call; a column or a function of that name is none."""
    return re.search(r"(?:\)|\bnulls)\s*\bover\s*\(", _outside(text), re.I) is not None


def has_star(text: str) -> bool:
    """Whether an expression has a ``*`` for all columns, as ``struct(*)`` has; ``struct(place.*)`` has none."""
    return re.search(r"[(,]\s*\*", _outside(text)) is not None


def words_in(text: str) -> frozenset[str]:
    """The words of an expression, in lower case, without those that stand in quotes."""
    return frozenset(word.lower() for word in re.findall(r"[A-Za-z_]\w*", _outside(text)))


def _outside(text: str) -> str:
    """An expression with spaces for what stands in quotes."""
    outside = [" "] * len(text)
    for at, _ in _depths(text):
        outside[at] = text[at]
    return "".join(outside)


def _plain(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace("``", "`") if name.startswith("`") and name.endswith("`") and len(name) > 2 else name


def has_open_quote(text: str) -> bool:
    """Whether a quote is open at the end."""
    return _end(text)[0] != len(text) - 1


def _is_open(text: str) -> bool:
    """Whether a bracket or a quote is open at the end."""
    at, depth = _end(text)
    return depth != 0 or at != len(text) - 1


def _end(text: str) -> tuple[int, int]:
    """The last index outside of quotes, and how many brackets are open after it."""
    return next(iter(deque(_depths(text), maxlen=1)), (-1, 0))


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Each index outside of quotes, the closing quote among them, with how many brackets are open after it."""
    depth, quote, escaped = 0, "", False
    for at, character in enumerate(text):
        if quote:
            if escaped or (character == "\\" and quote != "`"):
                escaped = not escaped
                continue
            if character != quote:
                continue
            quote = ""
        elif character in _QUOTES:
            quote = character
            continue
        depth += (character in _OPENING) - (character in _CLOSING)
        yield at, depth
