from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.history.task_restore import TaskRestore
from airflow_provider.control.status import FaultStatus
from airflow_provider.streaming.faults.fault_injector import FaultInjector
from airflow_provider.streaming.faults.shadow_restore import ShadowRestore, ShadowResult
from tests.unit.streaming.driver.fakes import compiled, settings_in

TASK = TaskId(0, 0)
RESTORE = TaskRestore(task=TASK, instance="i1", records=5, bytes=50, took_s=0.1)


class FakeReport:
    """Keeps what is reported, and knows when a fault is over."""

    def __init__(self) -> None:
        self.faults: list[FaultStatus] = []
        self.over = threading.Event()

    def set_fault(self, fault: FaultStatus) -> None:
        self.faults.append(fault)
        if fault.over:
            self.over.set()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(ShadowResult(restores=(RESTORE,)), (RESTORE,), id="replayed"),
        pytest.param(None, (), id="killed"),
    ],
)
def test_replay_is_a_process_whose_result_is_reported(
    answer: ShadowResult | None, expected: tuple[TaskRestore, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(words: list[str], **_: Any) -> SimpleNamespace:
        started.append(words)
        return SimpleNamespace(stdout=b"" if answer is None else to_json(answer), returncode=-9)

    monkeypatch.setattr(subprocess, "run", run)
    report = FakeReport()
    injector = FaultInjector(settings_in(tmp_path), compiled().specs, report)

    injector.inject(Command(id="f1", kind=CommandKind.SHADOW_RESTORE, instance="i1", tasks=(TASK,)))

    assert report.over.wait(10)
    begun, over = report.faults
    assert (begun.id, begun.over, over.id, over.restores) == ("f1", False, "f1", expected)
    assert (over.failure is None) is (answer is not None)
    (words,) = started
    assert from_json(words[-2], ShadowRestore).folder == str(tmp_path / "state" / "app" / "0_0" / "state.shadow")


@pytest.mark.parametrize("kind", [kind for kind in CommandKind if kind.is_fault])
def test_every_command_that_is_a_fault_is_carried_out(
    kind: CommandKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(os, "killpg", lambda *what: done.append(what))
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: done.append(words))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=b"", returncode=1))
    report = FakeReport()
    injector = FaultInjector(settings_in(tmp_path), compiled().specs, report)

    injector.inject(Command(id="f1", kind=kind, instance="i1", tasks=(TASK,), generation=3))

    assert done or report.faults or injector.of_stores


def test_replay_beside_the_stores_is_refused_where_they_are_an_executors(tmp_path: Path) -> None:
    injector = FaultInjector(settings_in(tmp_path), compiled().specs, FakeReport(), stores_here=False)

    refusal = injector.inject(Command(id="f1", kind=CommandKind.SHADOW_RESTORE, instance="i1", tasks=(TASK,)))

    assert refusal is not None
    assert "executor's host" in refusal
