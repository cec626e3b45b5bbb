"""The walks of docs/architecture.md are short, and each stop is where the page says."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import pytest

from tests.docs.commands import ROOT

MAX_STOPS = 15
WALKS = ("record", "promotion", "failover", "drill", "changed job")
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

_STOP = re.compile(r"^(?P<number>\d+)\. (?P<text>.*?)(?=^\d+\. |^#|\Z)", re.MULTILINE | re.DOTALL)
_PLACE = re.compile(r"`(?P<path>[\w/.]+\.py)`,\s+`(?P<name>[\w.]+)`\s*$")


@dataclass(frozen=True)
class Stop:
    number: int
    text: str

    @property
    def place(self) -> tuple[str, str] | None:
        found = _PLACE.search(self.text.strip())
        return None if found is None else (found["path"], found["name"])


def stops_of(walk: str) -> list[Stop]:
    section = re.search(rf"^## The way of a {walk}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return [] if section is None else [Stop(int(m["number"]), m["text"]) for m in _STOP.finditer(section[1])]


def defines(source: str, name: str) -> bool:
    """Whether a module has a function, a class, or a method of a class."""
    body: list[ast.stmt] = ast.parse(source).body
    for part in name.split("."):
        found = [
            node
            for node in body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == part
        ]
        if not found:
            return False
        body = found[0].body
    return True


@pytest.mark.parametrize("walk", WALKS)
def test_walk_has_at_most_fifteen_stops_in_order(walk: str) -> None:
    numbers = [stop.number for stop in stops_of(walk)]

    assert numbers == list(range(1, len(numbers) + 1))
    assert 1 < len(numbers) <= MAX_STOPS


@pytest.mark.parametrize(
    "stop", [pytest.param(stop, id=f"{walk}-{stop.number}") for walk in WALKS for stop in stops_of(walk)]
)
def test_stop_is_where_the_page_says(stop: Stop) -> None:
    assert stop.place is not None, f"stop {stop.number} does not end in `file.py`, `name`: {stop.text}"
    path, name = stop.place

    assert (ROOT / path).is_file(), f"there is no {path}"
    assert defines((ROOT / path).read_text(encoding="utf-8"), name), f"{path} has no {name}"


def test_name_that_a_module_lacks_is_found() -> None:
    source = "class A:\n    def b(self): ...\n\ndef c(): ...\n"

    assert [name for name in ("A", "A.b", "c", "A.c", "b", "D") if defines(source, name)] == ["A", "A.b", "c"]
