from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from airflow_provider.demo.run import DemoSettings

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        pytest.param([], False, id="absent"),
        pytest.param(["KEEP="], False, id="empty"),
        pytest.param(["KEEP=0"], False, id="0"),
        pytest.param(["KEEP=1"], True, id="1"),
    ],
)
def test_demo_is_kept_only_when_asked(keep: list[str], kept: bool) -> None:
    done = subprocess.run(["make", "-n", "demo", *keep], cwd=ROOT, capture_output=True, text=True, check=True)

    (command,) = [line for line in done.stdout.splitlines() if "-m airflow_provider.demo" in line]
    assert ("--keep" in command.split()) is kept


def test_clean_removes_what_demo_and_kit_made() -> None:
    done = subprocess.run(["make", "-n", "clean"], cwd=ROOT, capture_output=True, text=True, check=True)

    assert {".demo", ".kit"} <= set(done.stdout.split())


def test_demo_gets_as_much_time_as_is_asked_for() -> None:
    done = subprocess.run(["make", "-n", "demo", "LIMIT=900"], cwd=ROOT, capture_output=True, text=True, check=True)

    assert "--limit 900" in done.stdout


def test_demo_has_the_time_that_the_readme_promises() -> None:
    (_, most) = re.findall(r"make demo .*?(\d+) to (\d+) minutes", (ROOT / "README.md").read_text(encoding="utf-8"))[0]

    assert DemoSettings().limit_s > 60 * int(most)
