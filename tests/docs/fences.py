"""Fenced blocks of a page, and how each says that it is tested.

The info string of a block is its language and, after it, ``test=<way>``:

| way | language | tested how |
|---|---|---|
| ``build`` | python | a whole job file: it runs, and each job that it makes is complete |
| ``fragment`` | python | lines of a job file: they run where `StatefulJob`, `F` and a complete `job` are at hand |
| ``run`` | python | it runs |
| ``pytest`` | python | a reader's test: pytest runs it beside the files that the page had saved before |
| ``dag`` | python | a DAG file: it runs, and makes a DAG |
| ``check`` | bash | each command is parsed; its make targets, modules, options, DAGs and files exist |
| ``message`` | text | each line is a message of the product; ``...`` stands for what differs |
| ``shown`` | text, json, mermaid | nothing to run: what a program prints, or a picture |

A third word, ``file=<name>``, says that the reader saves the block under that name, so that later commands may use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WAYS", "Fence", "fences_of"]

WAYS = {
    "python": {"build", "fragment", "run", "pytest", "dag"},
    "bash": {"check"},
    "text": {"message", "shown"},
    "json": {"shown"},
    "mermaid": {"shown"},
}

_OPENING = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")


@dataclass(frozen=True)
class Fence:
    """A fenced block.

    Args:
        page: its page's path.
        line: of its opening, from 1.
        info: what follows the backticks.
        text: its content, without the indentation of its opening.
    """

    page: Path
    line: int
    info: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, for a test's id and a failure."""
        return f"{self.page.name}:{self.line}"

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def way(self) -> str | None:
        """How it is tested; None where its info string does not say so."""
        match self.info.split(" "):
            case [language, test] | [language, test, _] if test.startswith("test=") and self._third_is_known:
                way = test.removeprefix("test=")
                return way if way in WAYS.get(language, set()) else None
        return None

    @property
    def file(self) -> str | None:
        """The name under which the reader saves it."""
        name = self.info.rpartition(" file=")
        return name[2] if name[1] else None

    @property
    def _third_is_known(self) -> bool:
        words = self.info.split(" ")
        return len(words) < 3 or words[2].startswith("file=")


def fences_of(page: Path) -> Iterator[Fence]:
    """The fenced blocks of a page, in order.

    Raises:
        ValueError: one is not closed.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        opening = _OPENING.match(lines[at])
        at += 1
        if opening is None:
            continue
        first, indent = at, opening["indent"]
        while at < len(lines) and lines[at].rstrip() != f"{indent}```":
            at += 1
        if at == len(lines):
            raise ValueError(f"{page}:{first}: the block is not closed.")
        text = "".join(f"{line.removeprefix(indent)}\n" for line in lines[first:at])
        yield Fence(page, first, opening["info"].strip(), text)
        at += 1
