"""Sentences below a table, whole however long they are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

__all__ = ["listed", "shortened"]

_WIDTH: Final = 120
_MOST_LINES: Final = 16
_MOST_OTHERS: Final = 4


def listed(title: str, sentences: Sequence[str]) -> str:
    """A title, and each sentence below it, wrapped; no word is cut or parted, so that a path can be copied.

    Args:
        title: of the list.
        sentences: of any length.
    """
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
        title: of the list.
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
