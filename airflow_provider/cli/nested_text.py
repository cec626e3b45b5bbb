"""Plain values as indented text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

__all__ = ["nested_text"]


def nested_text(plain: Mapping[str, Any]) -> str:
    """A line for each value that is there, what is nested below its name; a point in time also as a date.

    Args:
        plain: values that JSON knows.
    """
    return "\n".join(_lines(plain, ""))


def _lines(plain: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in plain.items():
        match value:
            case None | "" | []:
                continue
            case Mapping() if not value:
                continue
            case Mapping():
                yield f"{indent}{name}:"
                yield from _lines(value, indent + "  ")
            case [*items] if any(isinstance(item, Mapping) for item in items):
                yield from _items(name, items, indent)
            case [*items]:
                yield f"{indent}{name}: {', '.join(map(str, items))}"
            case _:
                yield f"{indent}{name}: {_value(name, value)}"


def _items(name: str, items: Sequence[Mapping[str, Any]], indent: str) -> Iterator[str]:
    yield f"{indent}{name}:"
    for item in items:
        first, *others = _lines(item, indent + "    ")
        yield f"{indent}  - {first.strip()}"
        yield from others


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value and name.endswith("at_ms"):
        return f"{value} ({datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC)"
    return str(value)
