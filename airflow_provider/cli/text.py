"""How a command writes sentences and nested values for people. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from airflow_provider.common.table import utc_cell

_WIDTH: Final = 120
_MOST_LINES: Final = 16
_MOST_OTHERS: Final = 4


def listed(title: str, sentences: Sequence[str]) -> str:
    """A title, and each sentence below it, wrapped; no word is cut or parted, so that a path can be copied."""
    wrapper = textwrap.TextWrapper(
        width=_WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join([title, *(wrapper.fill(sentence) for sentence in sentences)])


def shortened(title: str, sentences: Sequence[str], whole: str) -> str:
    """The same, in some 20 lines: the first sentence is whole; what does not fit is one line each, then a number.

    Args:
        sentences: of any length, the most important first.
        whole: how to see all of it.
    """
    lines, cut, others = [title], False, 0
    for at, sentence in enumerate(sentences):
        full = listed("", [sentence]).splitlines()[1:]
        if at == 0 or len(lines) + len(full) <= _MOST_LINES:
            lines += full
        elif others < _MOST_OTHERS:
            cut, others = True, others + 1
            lines.append(full[0] if len(full) == 1 else f"{full[0][: _WIDTH - 4]} ...")
        else:
            return "\n".join([*lines, f"  ... and {len(sentences) - at} more; {whole}"])
    return "\n".join([*lines, *([f"  ({whole})"] if cut else [])])


def nested_text(plain: Mapping[str, Any]) -> str:
    """A line for each value that is there, what is nested below its name; a point in time also as a date."""
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
        return f"{value} ({utc_cell(value)} UTC)"
    return str(value)
