"""The page of examples shows the files that the tests run, as they are."""

from __future__ import annotations

import pytest

from tests.docs.commands import ROOT
from tests.docs.fences import fences_of
from tests.integration.examples import examples

FILES = sorted((ROOT / "docs" / "examples").glob("*.py"))
SHOWN = {fence.file: fence.text for fence in fences_of(ROOT / "docs" / "examples.md") if fence.file}


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_page_shows_the_file(name: str) -> None:
    assert SHOWN.get(name) == (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8")


def test_every_example_is_a_file_that_the_tests_run() -> None:
    assert set(SHOWN) == {file.name for file in FILES} == {f"{name}.py" for name in examples()}
