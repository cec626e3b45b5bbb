from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.drill_fault import DRILLS
from airflow_provider.control.topics.view import ControlView
from airflow_provider.streaming.driver.instance_controller import InstanceController, task_plans
from airflow_provider.streaming.worker.tasks.plan import TaskPlan
from tests.builders import assigned, view_of
from tests.unit.streaming.driver.fakes import ACTIVE, STANDBY, settings_in
from tests.unit.streaming.faults.test_fault_injector import FakeReport, injector_in

INCARNATION = 7


def test_instance_is_active_since_it_got_the_task_and_standby_in_this_generation() -> None:
    assignment = assigned("i1 i2", "i2 i1", "i2", "i1", generation=4)

    assert task_plans(assignment, "i1", {TaskId(0, 1): "c7"}) == (
        TaskPlan(task=TaskId(0, 0), role=ACTIVE, generation=4, has_standbys=True),
        TaskPlan(task=TaskId(0, 3), role=ACTIVE, generation=4, has_standbys=False),
        TaskPlan(task=TaskId(0, 1), role=STANDBY, generation=4, replay="c7"),
    )


def test_snapshot_is_asked_of_a_standby_alone() -> None:
    plans = task_plans(assigned("i1 i2", "i2 i1"), "i1", {}, {TaskId(0, 0): "c8", TaskId(0, 1): "c9"})

    assert [plan.snapshot for plan in plans] == [None, "c9"]


def test_comparison_is_asked_of_a_standby_alone() -> None:
    plans = task_plans(assigned("i1 i2", "i2 i1"), "i1", {}, {}, {TaskId(0, 0): "c8", TaskId(0, 1): "c9"})

    assert [plan.certify for plan in plans] == [None, "c9"]


def test_instance_that_is_not_named_has_no_tasks() -> None:
    assert task_plans(assigned("i1 i2"), "i3", {}) == ()


def test_plans_name_the_tasks_of_every_stage() -> None:
    tasks = {TaskId(1, 0): TaskAssignment("a", ("b",), 2), TaskId(0, 0): TaskAssignment("b", ("a",), 1)}
    assignment = Assignment(application_id="app", generation=3, tasks=tasks)

    plans = task_plans(assignment, "a", {})

    assert [(str(plan.task), plan.role, plan.generation) for plan in plans] == [
        ("1_0", ACTIVE, 2),
        ("0_0", STANDBY, 3),
    ]


class FakeSlot:
    """Keeps the goals that it gets."""

    def __init__(self) -> None:
        self.goals: list[tuple[tuple[TaskPlan, ...], bool]] = []

    def apply_goal(self, tasks: Iterable[TaskPlan], paused: bool) -> None:
        self.goals.append((tuple(tasks), paused))

    @property
    def tasks(self) -> list[int]:
        return [plan.task.partition for plan in self.goals[-1][0]]


class FakeStatus:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.generation = 0
        self.plans: dict[int, list[TaskPlan]] = {}
        self.commands: list[str] = []
        self.refusals: dict[str, str] = {}
        self.dropped: list[str] = []
        self.paused = False
        self.hand_over: bool | None = None

    def set_error(self, error: str | None) -> None:
        self.error = error

    def set_plans(self, generation: int, plans: Mapping[int, Iterable[TaskPlan]]) -> None:
        self.generation = generation
        self.plans = {slot: list(of_slot) for slot, of_slot in plans.items()}

    def set_paused(self, paused: bool) -> None:
        self.paused = paused

    def set_stop(self, hand_over: bool | None) -> None:
        self.hand_over = hand_over

    def set_done(self, command: Command, refusal: str | None = None) -> None:
        self.commands.append(command.id)
        if refusal is not None:
            self.refusals[command.id] = refusal

    def drop(self, command: Command) -> None:
        self.dropped.append(command.id)


class Controlled:
    """A controller of instance i1 with two slots, and all that it acts on."""

    def __init__(
        self, folder: Path, at_start: ControlView | None = None, allow_faults: bool = False, **more: bool
    ) -> None:
        self.slots = (FakeSlot(), FakeSlot())
        self.status = FakeStatus()
        self.stop = threading.Event()
        settings = settings_in(folder)
        faults = injector_in(folder, FakeReport()) if allow_faults else None
        self.controller = InstanceController(
            settings, self.slots, self.status, self.stop, at_start or view_of(None), faults, **more
        )

    def apply(self, *commands: Command, unreadable: dict[bytes, str] | None = None) -> None:
        """The same assignment with one command after the other."""
        for command in commands or (None,):
            view = view_of(assigned("i1 i2", "i1 i2", "i2 i1", "i2", generation=3))
            view.unreadable.update(unreadable or {})
            if command is not None:
                view.commands[command.instance] = {command.id: command}
            self.controller.apply(view)


@pytest.fixture
def controlled(tmp_path: Path) -> Controlled:
    return Controlled(tmp_path)


def command(kind: CommandKind, id: str = "c1", incarnation: int | None = INCARNATION, task: int = 0) -> Command:
    return Command(id=id, kind=kind, instance="i1", incarnation=incarnation, tasks=(TaskId(0, task),))


def test_tasks_are_spread_over_the_slots_by_their_number(controlled: Controlled) -> None:
    controlled.apply()

    assert [slot.tasks for slot in controlled.slots] == [[0, 2], [1]]
    assert controlled.status.generation == 3
    assert controlled.status.plans == {number: list(slot.goals[-1][0]) for number, slot in enumerate(controlled.slots)}


def test_nothing_is_applied_before_the_first_assignment(controlled: Controlled) -> None:
    controlled.controller.apply(view_of(None))

    assert controlled.slots[0].goals == []
    assert controlled.status.generation == 0


def test_pause_holds_until_it_is_resumed(controlled: Controlled) -> None:
    controlled.apply(command(CommandKind.PAUSE, "c1"))
    controlled.apply()
    controlled.apply(command(CommandKind.RESUME, "c2"))

    assert [paused for _, paused in controlled.slots[0].goals] == [True, True, False]
    assert not controlled.status.paused
    assert controlled.status.commands == ["c1", "c2"]


def test_replay_travels_with_the_plans_of_its_tasks(controlled: Controlled) -> None:
    controlled.apply(command(CommandKind.REPLAY, "c1", task=2))
    controlled.apply()

    assert [plan.replay for plan in controlled.slots[0].goals[-1][0]] == [None, "c1"]


def test_snapshot_is_asked_of_the_standbys_of_its_tasks(tmp_path: Path) -> None:
    controlled = Controlled(tmp_path, takes_snapshots=True)

    controlled.apply(command(CommandKind.SNAPSHOT, "c1", task=2))

    assert [plan.snapshot for plan in controlled.slots[0].goals[-1][0]] == [None, "c1"]
    assert controlled.status.refusals == {}


def test_comparison_is_asked_of_the_standbys_of_its_tasks(controlled: Controlled) -> None:
    controlled.apply(command(CommandKind.CERTIFY, "c1", task=2))

    assert [plan.certify for plan in controlled.slots[0].goals[-1][0]] == [None, "c1"]
    assert (controlled.status.commands, controlled.status.refusals) == (["c1"], {})


def test_snapshot_is_refused_where_the_job_takes_none(controlled: Controlled) -> None:
    controlled.apply(command(CommandKind.SNAPSHOT, "c1", task=2))

    assert [plan.snapshot for plan in controlled.slots[0].goals[-1][0]] == [None, None]
    assert ".snapshots(url)" in controlled.status.refusals["c1"]


def test_stop_is_reported_and_no_assignment_is_applied_any_more(controlled: Controlled) -> None:
    controlled.apply(command(CommandKind.STOP))

    assert controlled.stop.is_set()
    assert controlled.status.commands == ["c1"]
    assert controlled.slots[0].goals == []


@pytest.mark.parametrize("allowed", [pytest.param(True, id="allowed"), pytest.param(False, id="not-allowed")])
def test_instance_is_killed_only_where_its_job_allows_faults(
    allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *what: killed.append(what))
    controlled = Controlled(tmp_path, allow_faults=allowed)

    controlled.apply(command(CommandKind.KILL), command(CommandKind.PAUSE, "c2"))

    assert killed == ([(os.getpgrp(), signal.SIGKILL)] if allowed else [])
    assert controlled.status.commands == ["c1", "c2"]


def test_refusal_says_what_allows_faults_and_of_which_command_it_is(controlled: Controlled) -> None:
    controlled.apply(command(CommandKind.KILL))
    controlled.apply(command(CommandKind.PAUSE, "c2"))

    assert controlled.status.refusals.keys() == {"c1"}
    assert "allow_faults=True" in controlled.status.refusals["c1"]


def test_hang_is_left_to_a_process_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    controlled = Controlled(tmp_path, allow_faults=True)

    controlled.apply(command(CommandKind.HANG))

    assert [words[-3:] for words in started] == [
        ["airflow_provider.streaming.faults.hang", str(tmp_path / "run"), "c1"]
    ]
    assert controlled.status.commands == ["c1"]


@pytest.mark.parametrize("kind", sorted({spec.command for spec in DRILLS.values()}, key=str))
def test_no_fault_is_injected_where_the_job_allows_none(kind: CommandKind, controlled: Controlled) -> None:
    controlled.apply(command(kind))

    assert "allow_faults=True" in controlled.status.refusals["c1"]


@pytest.mark.parametrize("hand_over", [True, False, None])
def test_stop_says_whether_its_tasks_are_to_go_to_others(controlled: Controlled, hand_over: bool | None) -> None:
    controlled.apply(dataclasses.replace(command(CommandKind.STOP), hand_over=hand_over))

    assert controlled.status.hand_over is hand_over


def test_commands_that_were_given_together_are_all_carried_out_in_their_order(controlled: Controlled) -> None:
    view = view_of(assigned("i1"))
    both = [command(CommandKind.REPLAY, "c1", task=0), command(CommandKind.PAUSE, "c2")]
    view.commands["i1"] = {given.id: given for given in both}

    controlled.controller.apply(view)
    controlled.controller.apply(view)

    assert controlled.status.commands == ["c1", "c2"]
    assert controlled.status.paused
    assert controlled.slots[0].goals[-1][0][0].replay == "c1"


def test_command_is_carried_out_once(controlled: Controlled) -> None:
    pause = command(CommandKind.PAUSE, "c1")

    controlled.apply(pause, pause)

    assert controlled.status.commands == ["c1"]
    assert controlled.status.dropped == ["c1"]  # written again after it was done


def test_command_to_another_process_of_this_instance_is_not_carried_out(controlled: Controlled) -> None:
    controlled.apply(command(CommandKind.STOP, incarnation=INCARNATION - 1))

    assert not controlled.stop.is_set()
    assert controlled.status.commands == []
    assert controlled.status.dropped == ["c1"]


@pytest.mark.parametrize(
    ("incarnation", "stops"),
    [
        pytest.param(None, False, id="to-any-process"),
        pytest.param(INCARNATION - 1, False, id="to-an-earlier-one"),
        pytest.param(INCARNATION, True, id="to-this-one"),
    ],
)
def test_command_from_before_the_start_was_for_an_earlier_process_unless_it_names_this_one(
    incarnation: int | None, stops: bool, tmp_path: Path
) -> None:
    stop = command(CommandKind.STOP, incarnation=incarnation)
    at_start = view_of(None)
    at_start.commands["i1"] = {stop.id: stop}
    controlled = Controlled(tmp_path, at_start)

    controlled.apply(stop)

    assert controlled.stop.is_set() is stops


def test_record_that_cannot_be_read_is_an_error_until_it_is_replaced(controlled: Controlled) -> None:
    controlled.apply(unreadable={b"assignment": "not JSON"})
    assert "b'assignment': not JSON" in str(controlled.status.error)

    controlled.apply()
    assert controlled.status.error is None
