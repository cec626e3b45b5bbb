"""The runbook quotes what the product says, and every page-out has its steps and an end."""

from __future__ import annotations

import re

import pytest

from tests.docs.commands import ROOT
from tests.docs.fences import fences_of
from tests.docs.messages import is_message

PAGE = ROOT / "docs" / "runbook.md"
TEXT = PAGE.read_text(encoding="utf-8")
NO_PAGE_OUT = {"Where to look", "Tools"}

QUOTED = [line for fence in fences_of(PAGE) if fence.way == "message" for line in fence.text.splitlines()]
TABLE = re.search(r"\| it says \|.*?\n\n", TEXT, re.DOTALL)
assert TABLE is not None
QUOTED += [
    row.split("|")[1].strip()
    for row in TABLE[0].splitlines()[2:]
    if row.strip() and not row.split("|")[1].strip().startswith(("`", "nothing"))
]
SECTIONS = {
    section.splitlines()[0]: section
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    if section.splitlines()[0] not in NO_PAGE_OUT
}


@pytest.mark.parametrize("line", QUOTED)
def test_quoted_message_is_in_the_code(line: str) -> None:
    assert is_message(line)


def test_message_that_the_code_does_not_have_is_found() -> None:
    assert not is_message("Watching ... no more")


@pytest.mark.parametrize("name", SECTIONS)
def test_page_out_says_what_it_means_what_to_do_and_when_it_is_over(name: str) -> None:
    section = SECTIONS[name]

    assert re.search(r"\*You see\*|^There are two lags", section, re.MULTILINE)
    assert re.search(r"^1\. ", section, re.MULTILINE)
    assert "*It is over* when" in section


@pytest.mark.parametrize("name", SECTIONS)
def test_page_out_is_in_the_table_at_the_top(name: str) -> None:
    anchor = re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-")

    assert f"(#{anchor})" in TEXT.split("\n## ")[0]
