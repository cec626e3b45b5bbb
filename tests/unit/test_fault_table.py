"""What the pages of faults say of tests and of kinds of chaos is so, and their lines stay short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("faults.md", "fault-tests.md")}
LONGEST_ROW = 400


def rows_of(page: str) -> Iterator[tuple[str, ...]]:
    """The cells of each row under a heading, with the heading before them."""
    section = ""
    for line in PAGES[page].splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| "):
            yield (section, *(cell.strip() for cell in line.strip("|").split("|")))


def unknown_tests(page: str) -> set[str]:
    defined = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    return set(re.findall(r"`(test_\w+)`", page)) - defined


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    assert not unknown_tests(PAGES[page])


def test_test_that_does_not_exist_is_found() -> None:
    missing = "test_of_a_fault_" + "that_nobody_wrote"

    assert unknown_tests(f"| a fault | `{missing}` |") == {missing}


def test_every_fault_names_its_tests_or_says_that_there_are_none() -> None:
    for _, fault, tests in rows_of("fault-tests.md"):
        if fault != "fault":
            assert re.search(r"`test_\w+`|\*[a-z-]+\*|^not run$", tests), fault


def test_every_kind_of_chaos_is_in_the_table_and_nothing_else() -> None:
    named = set(re.findall(r"(?<![*\w])\*([a-z]+(?:-[a-z]+)*)\*", PAGES["fault-tests.md"]))

    assert named == set(FAULTS)


def test_every_fault_that_a_user_reads_of_has_its_line_of_tests_in_the_same_order() -> None:
    headings = {"what happened", "fault"}
    read = [(section, fault) for section, fault, *_ in rows_of("faults.md") if fault not in headings]
    tested = [(section, fault) for section, fault, *_ in rows_of("fault-tests.md") if fault not in headings]

    assert read == [row for row in tested if row in set(read)]


def test_no_line_of_a_fault_is_too_long_to_be_read_in_a_hurry() -> None:
    assert [line for line in PAGES["faults.md"].splitlines() if line.startswith("| ") and len(line) > LONGEST_ROW] == []
