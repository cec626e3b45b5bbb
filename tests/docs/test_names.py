"""The files, folders and modules that the pages name are there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.commands import ROOT
from tests.docs.fences import fences_of
from tests.docs.test_architecture import defines

PACKAGE: Final = ROOT / "airflow_provider"
# Decisions and the changelog name what was there then.
PAGES: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

ROOMS: Final = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
FOLDERS: Final = ROOMS | {"airflow_provider", "docs", "tests"}
# What begins so is a field of a status, or one of Spark's or Kafka's settings: of these modules the whole name is said.
WORDS: Final = {"state", "snapshot", "kafka"}
# Made by `make docs`; what readers save, besides the blocks that say so themselves; and any job file.
NOT_KEPT: Final = {"docs/api/", "dags/word_counts.py", "dags/customer_totals.py", "JOB.py"}

_CODE: Final = re.compile(r"`([^`\n]+)`")
_FILE: Final = re.compile(r"(?<![\w/.<>{}$*-])(?:\w+/)*\w+\.py\b")
_FOLDER: Final = re.compile(r"(?:\w+/)+\w*")
_MODULE: Final = re.compile(r"[a-z]\w*(?:\.\w+)+")


def is_file(path: str, saved: Collection[str]) -> bool:
    """Whether a page may name a Python file: by its path from the root or the package, or by its name alone."""
    if path in saved or path in NOT_KEPT:
        return True
    folder, _, name = path.rpartition("/")
    if folder:
        return path.split("/")[0] not in FOLDERS or is_there(path)
    return any(found for part in ("airflow_provider", "tests", "docs") for found in (ROOT / part).rglob(name))


def is_there(path: str) -> bool:
    return (ROOT / path).exists() or (PACKAGE / path).exists()


def is_module(dotted: str) -> bool:
    """Whether there is a module of that name, or what it names in one."""
    at, parts = PACKAGE, dotted.removeprefix("airflow_provider.").split(".")
    while parts and (at / parts[0]).is_dir():
        at /= parts.pop(0)
    if not parts:
        return True
    if (at / f"{parts[0]}.py").is_file():
        at /= f"{parts.pop(0)}.py"
    else:
        at /= "__init__.py"
    return not parts or defines(at.read_text(encoding="utf-8"), ".".join(parts))


def missing_names(page: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    saved = {fence.file for fence in fences_of(page) if fence.file}
    yield from (path for path in _FILE.findall(text) if not is_file(path, saved))
    for code in _CODE.findall(text):
        first = re.split(r"[/.]", code)[0]
        if _FOLDER.fullmatch(code) and first in FOLDERS and code not in NOT_KEPT and not is_there(code):
            yield code
        if _MODULE.fullmatch(code) and not code.endswith(".py") and first in FOLDERS - WORDS and not is_module(code):
            yield code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_are_those_of_the_code(page: Path) -> None:
    assert list(missing_names(page)) == []


def test_name_of_what_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`streaming/worker/state_check.py`, `control/metrics/`, `control.drill_fault`, `control.outlook.no_rto` and"
        " `no_module.py` are not; `streaming/worker/calls.py`, `control/outlook/`, `control.outlook.predicted_rto`,"
        " `airflow_provider.control.outlook.predicted_rto.predict_rto` and `operation.py` are; `status.error` is none,"
        " nor is tests/docs/gone.py in prose.\n"
    )

    assert list(missing_names(page)) == [
        "streaming/worker/state_check.py",
        "no_module.py",
        "tests/docs/gone.py",
        "control/metrics/",
        "control.drill_fault",
        "control.outlook.no_rto",
    ]


def test_words_of_the_glossary_are_in_order() -> None:
    words = re.findall(r"^\| \*\*(.*?)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert words == sorted(words, key=str.lower)
