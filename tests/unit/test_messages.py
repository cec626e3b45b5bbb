"""Messages speak to who reads them: to a person at a shell, to one who looks into Airflow, or to both."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "airflow_provider"
SHARED = ("changelog", "control", "kafka", "launch", "snapshot", "state", "streaming")


def messages(room: str) -> Iterator[tuple[Path, str]]:
    """What errors and lines of the log say, without docstrings."""
    for file in sorted((PACKAGE / room).rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield file, "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docs | inner):
                yield file, node.value


@pytest.mark.parametrize("room", SHARED)
def test_message_of_shared_code_that_names_an_operator_names_the_command_too(room: str) -> None:
    airflow_alone = [
        f"{file}: {text}" for file, text in messages(room) if "perator" in text and "stateful-streams" not in text
    ]

    assert airflow_alone == []


def test_command_line_speaks_of_commands_alone() -> None:
    assert [f"{file}: {text}" for file, text in messages("cli") if "perator" in text] == []
