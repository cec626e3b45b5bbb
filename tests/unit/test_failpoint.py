from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from airflow_provider.failpoint import FailPoints


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What would have been killed."""
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: seen.append((pid, number)))
    return seen


ME = (os.getpid(), signal.SIGKILL)


def test_nothing_is_armed_by_default(killed: list[tuple[int, int]]) -> None:
    FailPoints().hit("commit.begun")

    assert killed == []


def test_armed_point_kills_its_own_process_when_it_is_hit(killed: list[tuple[int, int]]) -> None:
    points = FailPoints(["commit.begun"])
    points.hit("commit.changes")
    assert killed == []

    points.hit("commit.begun")

    assert killed == [ME]


@pytest.mark.parametrize(("armed", "at"), [("p", 1), ("p@1", 1), ("p@3", 3)])
def test_point_fires_at_its_time_only(armed: str, at: int, killed: list[tuple[int, int]]) -> None:
    points, fired = FailPoints([armed]), []
    for time in range(1, 6):
        points.hit("p")
        fired += [time] * len(killed)
        killed.clear()

    assert fired == [at]


def test_point_that_fired_lets_later_processes_past(killed: list[tuple[int, int]], tmp_path: Path) -> None:
    FailPoints(["p", "q"], tmp_path).hit("p")
    assert killed == [ME]

    later = FailPoints(["p", "q"], tmp_path)
    later.hit("p")
    assert killed == [ME]

    later.hit("q")
    assert killed == [ME, ME]
