from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.failpoint import FailPoint, FailPoints, parse_fail_point


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What would have been killed."""
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: seen.append((pid, number)))
    return seen


ME = (os.getpid(), signal.SIGKILL)


def test_nothing_is_armed_by_default(killed: list[tuple[int, int]]) -> None:
    FailPoints().hit(FailPoint.COMMIT_BEGUN)

    assert killed == []


def test_armed_point_kills_its_own_process_when_it_is_hit(killed: list[tuple[int, int]]) -> None:
    points = FailPoints(["commit.begun"])
    points.hit(FailPoint.COMMIT_CHANGES)
    assert killed == []

    points.hit(FailPoint.COMMIT_BEGUN)

    assert killed == [ME]


@pytest.mark.parametrize(("armed", "at"), [("store.done", 1), ("store.done@1", 1), ("store.done@3", 3)])
def test_point_fires_at_its_time_only(armed: str, at: int, killed: list[tuple[int, int]]) -> None:
    points, fired = FailPoints([armed]), []
    for time in range(1, 6):
        points.hit(FailPoint.STORE_DONE)
        fired += [time] * len(killed)
        killed.clear()

    assert fired == [at]


def test_point_that_fired_lets_later_processes_past(killed: list[tuple[int, int]], tmp_path: Path) -> None:
    FailPoints(["store.done", "store.before"], tmp_path).hit(FailPoint.STORE_DONE)
    assert killed == [ME]

    later = FailPoints(["store.done", "store.before"], tmp_path)
    later.hit(FailPoint.STORE_DONE)
    assert killed == [ME]

    later.hit(FailPoint.STORE_BEFORE)
    assert killed == [ME, ME]


def test_every_name_can_be_armed() -> None:
    assert [parse_fail_point(f"{point}@2") for point in FailPoint] == [(point, 2) for point in FailPoint]


@pytest.mark.parametrize("text", ["commit.begin", "", "store.done@x", "store.done@0", "store.done@-1"])
def test_what_is_no_fail_point_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"expected <name> or <name>@<n>.*commit\.begun.*fail_points"):
        FailPoints([text])
