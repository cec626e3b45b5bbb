"""Sentences below a table, whole however long they are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

__all__ = ["listed"]

_WIDTH: Final = 120


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
