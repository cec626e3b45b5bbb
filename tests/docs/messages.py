"""The texts that the product's code holds, as far as they are known without running it."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.commands import ROOT

__all__ = ["is_message"]

_VARIABLE = "\x00"


def is_message(line: str) -> bool:
    """Whether some text of the code can read like a line of a page, in which ``...`` stands for what differs."""
    pattern = re.compile(r"[\s\S]*?".join(re.escape(part) for part in line.split("...") if part.strip()))
    return any(pattern.search(text) for text in _texts())


@functools.cache
def _texts() -> tuple[str, ...]:
    return tuple(text for file in _files() for text in _texts_of(ast.parse(file.read_text(encoding="utf-8"))))


def _files() -> Iterator[Path]:
    for folder, _, names in os.walk(ROOT / "airflow_provider", followlinks=True):
        if "demo" not in Path(folder).parts:
            yield from (Path(folder) / name for name in names if name.endswith(".py"))


def _texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(_joined(node))


def _joined(text: ast.JoinedStr) -> Iterator[str]:
    for part in text.values:
        if isinstance(part, ast.Constant):
            yield str(part.value)
        else:
            # A constant word among the variables, as of an enum, is unknown; so is all else.
            yield _VARIABLE
