from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.drill_fault import DRILLS
from airflow_provider.control.records.status import FaultStatus, TaskStatus
from airflow_provider.control.records.task_state import TaskRestore
from airflow_provider.streaming.faults.fault_injector import FaultInjector
from airflow_provider.streaming.faults.shadow_restore import ShadowRestore, ShadowResult
from tests.builders import active, assigned
from tests.unit.streaming.driver.fakes import compiled, settings_in

TASK = TaskId(0, 0)
T = TypeVar("T")
RESTORE = TaskRestore(task=TASK, instance="i1", records=5, bytes=50, took_s=0.1)


class FakeReport:
    """Keeps what is reported, and knows when a fault is over."""

    def __init__(self) -> None:
        self.faults: list[FaultStatus] = []
        self.over = threading.Event()
        self.of_stores: list[str | None] = []

    def set_fault(self, fault: FaultStatus) -> None:
        self.faults.append(fault)
        if fault.over:
            self.over.set()

    def report(self, _: int, statuses: tuple[TaskStatus, ...]) -> None:
        self.of_stores = [status.fault for status in statuses]


class FakeHost:
    """The driver's host, or another, on which something is done to stores."""

    def __init__(self, is_here: bool = True) -> None:
        self.is_here = is_here
        self.deeds: list[Callable[[], object]] = []

    def call(self, function: Callable[[], T]) -> T:
        self.deeds.append(function)
        return cast(T, None)


class FakeSlot:
    """At rest once a test lets it be."""

    def __init__(self) -> None:
        self.resting, self.acted = threading.Event(), threading.Event()

    def at_rest(self, action: Callable[[], None]) -> None:
        assert self.resting.wait(10)
        action()
        self.acted.set()


def injector_in(
    folder: Path,
    report: FakeReport,
    host: FakeHost | None = None,
    slot: FakeSlot | None = None,
    assignment: Assignment | None = None,
) -> FaultInjector:
    return FaultInjector(
        settings_in(folder),
        compiled().specs,
        report,
        host or FakeHost(),
        lambda: assignment,
        lambda _: slot or FakeSlot(),
    )


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
    injector = injector_in(tmp_path, report)

    injector.inject(Command(id="f1", kind=CommandKind.SHADOW_RESTORE, instance="i1", tasks=(TASK,)))

    assert report.over.wait(10)
    begun, over = report.faults
    assert (begun.id, begun.over, over.id, over.restores) == ("f1", False, "f1", expected)
    assert (over.failure is None) is (answer is not None)
    (words,) = started
    assert from_json(words[-2], ShadowRestore).folder == str(tmp_path / "state" / "app" / "0_0" / "state.shadow")


@pytest.mark.parametrize("kind", sorted({spec.command for spec in DRILLS.values()}, key=str))
def test_every_command_that_is_a_fault_is_carried_out(
    kind: CommandKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(os, "killpg", lambda *what: done.append(what))
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: done.append(words))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=b"", returncode=1))
    report, host, slot = FakeReport(), FakeHost(), FakeSlot()
    slot.resting.set()
    injector = injector_in(tmp_path, report, host, slot)

    injector.inject(Command(id="f1", kind=kind, instance="i1", tasks=(TASK,), generation=3))

    assert done or report.faults or (slot.acted.wait(10) and host.deeds)


def lose(generation: int) -> Command:
    return Command(id="f1", kind=CommandKind.LOSE_STORE, instance="i1", tasks=(TASK,), generation=generation)


def test_store_is_lost_between_two_calls_and_reported_by_those_that_follow(tmp_path: Path) -> None:
    report, host, slot = FakeReport(), FakeHost(), FakeSlot()
    injector = injector_in(tmp_path, report, host, slot, assigned("i1", generation=3))

    injector.inject(lose(generation=3))
    injector.report(0, (active(0), active(1)))
    before = report.of_stores
    slot.resting.set()
    assert slot.acted.wait(10)
    injector.report(0, (active(0), active(1)))

    assert (before, report.of_stores, len(host.deeds)) == ([None, None], ["f1", None], 1)


def test_no_store_is_lost_once_a_newer_assignment_was_read(tmp_path: Path) -> None:
    report, host, slot = FakeReport(), FakeHost(), FakeSlot()
    injector = injector_in(tmp_path, report, host, slot, assigned("i1", generation=4))

    slot.resting.set()
    injector.inject(lose(generation=3))
    assert slot.acted.wait(10)
    injector.report(0, (active(0),))

    assert (host.deeds, report.of_stores) == ([], [None])


def test_replay_beside_the_stores_is_refused_where_they_are_an_executors(tmp_path: Path) -> None:
    injector = injector_in(tmp_path, FakeReport(), host=FakeHost(is_here=False))

    refusal = injector.inject(Command(id="f1", kind=CommandKind.SHADOW_RESTORE, instance="i1", tasks=(TASK,)))

    assert refusal is not None
    assert "executor's host" in refusal
