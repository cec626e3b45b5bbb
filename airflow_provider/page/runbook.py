"""The parts of the runbook, to be shown where they are needed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).parent / "runbook.md"


@cache
def runbook() -> dict[str, tuple[str, str]]:
    """By anchor, a part's title and its text in Markdown, without what only this repository's tests read."""
    found = {}
    for part in re.split(r"(?m)^## ", _FILE.read_text(encoding="utf-8"))[1:]:
        title, _, text = part.partition("\n")
        found[anchor(title)] = (title, re.sub(r"(?m)^(\s*```\w*) .*$", r"\1", text.strip()))
    return found


def anchor(title: str) -> str:
    """What a link to a heading ends with."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
