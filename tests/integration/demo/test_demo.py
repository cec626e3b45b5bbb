from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("airflow")]

_DEADLINE_S = 900


def processes_of(folder: Path) -> list[str]:
    """The command lines of the processes that work for a demo's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != "zombie" and any(str(folder) in word for word in process.cmdline()):
                found.append(" ".join(process.cmdline())[:200])
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "demo"


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "airflow_provider.demo", "--dir", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)


def test_short_demo_fails_over_comes_out_right_and_leaves_nothing_behind(folder: Path) -> None:
    done = demo(folder, "--flights", "12000", "--seconds", "20", "--kill-at", "0.4", "--limit", "800")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "DAG flights_drill_crash begins at 40%" in done.stdout
    assert "kill -9 of instance i1 by the drill" in done.stdout
    assert "DAG flights_drill_crash passed" in done.stdout
    assert "Right" in done.stdout
    assert processes_of(folder) == []


def test_down_without_a_demo_says_so(folder: Path) -> None:
    done = demo(folder, "down")

    assert done.returncode == 0
    assert "No demo is up" in done.stdout
