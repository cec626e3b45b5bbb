"""Carries out what the control topics ask of an instance."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import Role
from airflow_provider.control.topics.view import ControlView
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.driver.slots.slot_decisions import choose_slots
from airflow_provider.streaming.worker.tasks.plan import TaskPlan

log = logging.getLogger(__name__)

_NO_FAULTS: Final = (
    "the job allows no faults: set .options(allow_faults=True) in the job file and deploy it again, or drill another"
)

_NO_SNAPSHOTS: Final = "the job takes no snapshots: say .snapshots(url) in the job file and deploy it again"


def task_plans(
    assignment: Assignment,
    instance: str,
    replays: Mapping[TaskId, str],
    snapshots: Mapping[TaskId, str] | None = None,
    comparisons: Mapping[TaskId, str] | None = None,
) -> tuple[TaskPlan, ...]:
    """What an instance is to be for each of its tasks, the active ones first.

    Args:
        replays: by task, the id of the newest command that asked to restore its store afresh.
        snapshots: by task, the id of the newest command that asked for a snapshot of its standby's store.
        comparisons: the same of a comparison of its standby's store with its active's.
    """
    active = [
        TaskPlan(
            task=task,
            role=Role.ACTIVE,
            generation=assignment.tasks[task].active_since,
            replay=replays.get(task),
            has_standbys=bool(assignment.tasks[task].standbys),
        )
        for task in assignment.active_on(instance)
    ]
    standbys = [
        TaskPlan(
            task=task,
            role=Role.STANDBY,
            generation=assignment.generation,
            replay=replays.get(task),
            snapshot=(snapshots or {}).get(task),
            certify=(comparisons or {}).get(task),
        )
        for task in assignment.standby_on(instance)
    ]
    return (*active, *standbys)


class Slot(Protocol):
    """What is needed here of a `SlotDriver`."""

    def apply_goal(self, tasks: Iterable[TaskPlan], paused: bool) -> None: ...


class Faults(Protocol):
    """What is needed here of a `FaultInjector`."""

    def inject(self, command: Command) -> str | None: ...


class StatusReport(Protocol):
    """What is needed here of a `Heartbeat`."""

    def set_error(self, error: str | None) -> None: ...
    def set_plans(self, generation: int, plans: Mapping[int, Iterable[TaskPlan]]) -> None: ...
    def set_paused(self, paused: bool) -> None: ...
    def set_stop(self, hand_over: bool | None) -> None: ...
    def set_done(self, command: Command, refusal: str | None = None) -> None: ...
    def drop(self, command: Command) -> None: ...


class InstanceController:
    """Hands the newest assignment to the slots, and carries out each command once.

    Belongs to the instance's thread.

    Args:
        slots: `choose_slots` gives the slot of each task.
        stop: is set when a command asks to stop.
        at_start: the control topics as they were when this process began. A command that lay there was for an earlier
            process, unless it names this one.
        faults: injects a drill's faults; None where the job allows none.
        takes_snapshots: whether the job has its standbys' stores copied elsewhere.
    """

    def __init__(
        self,
        settings: InstanceSettings,
        slots: Sequence[Slot],
        status: StatusReport,
        stop: threading.Event,
        at_start: ControlView,
        faults: Faults | None = None,
        takes_snapshots: bool = False,
    ) -> None:
        self._settings = settings
        self._slots = slots
        self._status = status
        self._stop = stop
        self._faults = faults
        self._takes_snapshots = takes_snapshots
        self._paused = False
        self._replays: dict[TaskId, str] = {}
        self._snapshots: dict[TaskId, str] = {}
        self._comparisons: dict[TaskId, str] = {}
        self.slot_of: dict[TaskId, int] = {}
        """By task, its slot in the newest assignment that was applied."""
        self._commands_done = {
            command.id
            for command in at_start.commands.get(settings.instance, {}).values()
            if command.incarnation != settings.incarnation
        }

    def apply(self, view: ControlView) -> None:
        """Carry out what is new in the control topics."""
        for command in view.commands.get(self._settings.instance, {}).values():
            if self._is_new(command):
                self._execute(command)
            else:
                self._status.drop(command)
        self._status.set_error(_unreadable(view))
        assignment = view.assignment
        if assignment is None or self._stop.is_set():
            return
        plans = task_plans(assignment, self._settings.instance, self._replays, self._snapshots, self._comparisons)
        self.slot_of = choose_slots(plans, assignment, self.slot_of, len(self._slots))
        of_slots = {
            number: [plan for plan in plans if self.slot_of[plan.task] == number] for number in range(len(self._slots))
        }
        for number, slot in enumerate(self._slots):
            slot.apply_goal(of_slots[number], self._paused)
        self._status.set_plans(assignment.generation, of_slots)

    def _is_new(self, command: Command) -> bool:
        if command.id in self._commands_done:
            return False
        self._commands_done.add(command.id)
        return command.incarnation in (None, self._settings.incarnation)

    def _execute(self, command: Command) -> None:
        log.info("command %s: %s", command.id, command.kind.value)
        refusal = None
        match command.kind:
            case CommandKind.STOP:
                self._status.set_stop(command.hand_over)
                self._stop.set()
            case CommandKind.PAUSE:
                self._paused = True
                self._status.set_paused(True)
            case CommandKind.RESUME:
                self._paused = False
                self._status.set_paused(False)
            case CommandKind.REPLAY:
                self._replays.update(dict.fromkeys(command.tasks, command.id))
            case CommandKind.CERTIFY:
                self._comparisons.update(dict.fromkeys(command.tasks, command.id))
            case CommandKind.SNAPSHOT if self._takes_snapshots:
                self._snapshots.update(dict.fromkeys(command.tasks, command.id))
            case CommandKind.SNAPSHOT:
                refusal = _NO_SNAPSHOTS
            case _ if self._faults is not None:
                refusal = self._faults.inject(command)
            case _:
                refusal = _NO_FAULTS
        if refusal is not None:
            log.warning("command %s is refused: %s", command.id, refusal)
        self._status.set_done(command, refusal)


def _unreadable(view: ControlView) -> str | None:
    if not view.unreadable:
        return None
    found = "; ".join(f"{key!r}: {why}" for key, why in view.unreadable.items())
    return f"records of the assignment topic cannot be read and are not applied ({found})"
