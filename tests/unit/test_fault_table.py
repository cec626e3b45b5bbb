"""What ``docs/faults.md`` says of tests and of kinds of chaos is so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaos.faults import FAULTS

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "faults.md").read_text()


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    defined = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }

    assert named
    assert not named - defined


def test_every_kind_of_chaos_is_in_the_table_and_nothing_else() -> None:
    named = set(re.findall(r"(?<![*\w])\*([a-z]+(?:-[a-z]+)*)\*", TABLE))

    assert named == set(FAULTS)
