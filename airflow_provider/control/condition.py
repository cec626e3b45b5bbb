"""What can be waited for: pure functions of an observation.

They travel from an operator to the triggerer as a name and plain arguments (`to_plain`, `from_plain`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import InstanceState, InstanceStatus, Role, TaskState, TaskStatus
from airflow_provider.errors import ConfigurationError

__all__ = [
    "CommandObeyed",
    "Condition",
    "IncidentResolved",
    "InstanceEnded",
    "InstanceInState",
    "InstanceRunning",
    "Outcome",
    "StandbysWarm",
    "TaskInState",
    "TasksReplayed",
    "TasksRunning",
    "Verdict",
    "from_plain",
    "to_plain",
]


class Outcome(Enum):
    """What became of waiting."""

    WAITING = "waiting"
    MET = "met"
    FAILED = "failed"
    """It can not be met any more."""


@dataclass(frozen=True)
class Verdict:
    """A condition's answer to one observation.

    Args:
        outcome: see `Outcome`.
        seen: what is the case now, in one line for people.
        result: plain values for whoever waited, when it is met.
    """

    outcome: Outcome
    seen: str
    result: dict[str, Any] = field(default_factory=dict)


class Condition(Protocol):
    """Something to wait for. ``str()`` of it says what, in one line."""

    def verdict(self, seen: Observation) -> Verdict:
        """Whether it is met by what was seen."""
        ...


@dataclass(frozen=True)
class InstanceRunning:
    """An instance is up: it sends heartbeats and obeys assignments.

    Args:
        instance: its name.
        incarnation: the process that was started; a newer one counts as well.
    """

    instance: str
    incarnation: int

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to run"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when the process ended or was not heard of."""
        status = seen.view.statuses.get(self.instance)
        if status is None or status.incarnation < self.incarnation:
            return Verdict(Outcome.WAITING, "nothing was heard of it yet")
        if not status.state.alive or seen.missed(status):
            return Verdict(Outcome.FAILED, _end_of(status, seen))
        if status.state is InstanceState.RUNNING and seen.living(self.instance):
            return Verdict(Outcome.MET, _said(status), _handle(status))
        return Verdict(Outcome.WAITING, _said(status))


@dataclass(frozen=True)
class InstanceEnded:
    """An instance said goodbye.

    Args:
        instance: its name.
        incarnation: the process that is watched.
    """

    instance: str
    incarnation: int

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to say goodbye"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when the process ended without a goodbye, was not heard of, or a newer one took its name."""
        status = seen.view.statuses.get(self.instance)
        if status is None or status.incarnation < self.incarnation:
            return Verdict(Outcome.WAITING, "nothing was heard of it yet")
        if status.incarnation > self.incarnation:
            return Verdict(Outcome.FAILED, f"incarnation {status.incarnation} runs under its name")
        if status.state is InstanceState.STOPPED:
            return Verdict(Outcome.MET, _said(status), _handle(status))
        if status.state is InstanceState.ENDED or seen.missed(status):
            return Verdict(Outcome.FAILED, _end_of(status, seen))
        return Verdict(Outcome.WAITING, _said(status))


@dataclass(frozen=True)
class InstanceInState:
    """An instance is in one of some states.

    Args:
        instance: its name.
        states: the states that are waited for.
    """

    instance: str
    states: tuple[InstanceState, ...]

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to be {_either(s.value for s in self.states)}"

    def verdict(self, seen: Observation) -> Verdict:
        """A silent instance is in no state but ended."""
        status = seen.view.statuses.get(self.instance)
        if status is None:
            return Verdict(Outcome.WAITING, "nothing was heard of it yet")
        state = status.state
        if state.alive and seen.missed(status):
            state = InstanceState.ENDED
        known = not state.alive or seen.living(self.instance) is not None
        if known and state in self.states:
            return Verdict(Outcome.MET, _said(status), _handle(status))
        return Verdict(Outcome.WAITING, _end_of(status, seen) if state is InstanceState.ENDED else _said(status))


@dataclass(frozen=True)
class TaskInState:
    """A task is in one of some states, on the instance that is assigned or on a named one.

    Args:
        task: its number.
        states: the states that are waited for.
        instance: where; None for the assigned active.
    """

    task: int
    states: tuple[TaskState, ...]
    instance: str | None = None

    def __str__(self) -> str:
        """What is waited for."""
        where = f" on {self.instance}" if self.instance else ""
        return f"task {self.task}{where} to be {_either(s.value for s in self.states)}"

    def verdict(self, seen: Observation) -> Verdict:
        """A task on a silent instance is in no state."""
        assignment = seen.view.assignment
        where = self.instance
        if where is None:
            if assignment is None or self.task >= len(assignment.tasks):
                return Verdict(Outcome.WAITING, "it is not assigned yet")
            where = assignment.tasks[self.task].active
            if where is None:
                return Verdict(Outcome.WAITING, "it has no active instance")
        status = seen.living(where)
        task = status.task(self.task) if status else None
        if task is None:
            return Verdict(Outcome.WAITING, f"{where} does not live" if status is None else f"{where} has no copy")
        line = f"{task.state.value} on {where}"
        if task.state in self.states:
            result = {"task": self.task, "instance": where, "state": task.state.value}
            return Verdict(Outcome.MET, line, result)
        return Verdict(Outcome.WAITING, line if task.error is None else f"{line}: {task.error}")


@dataclass(frozen=True)
class TasksRunning:
    """Tasks are processed by the instance that is assigned.

    Args:
        tasks: their numbers; None for all.
        on: the instance that has to be their active one; None for whichever is.
        generation: the assignment that is waited for, or a newer one.
    """

    tasks: tuple[int, ...] | None = None
    on: str | None = None
    generation: int = 1

    def __str__(self) -> str:
        """What is waited for."""
        which = "every task" if self.tasks is None else f"{_tasks(self.tasks)}"
        return f"{which} to run{f' on {self.on}' if self.on else ''} (generation {self.generation} or newer)"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when a task failed, or a newer generation gave it to another instance than `on`."""
        assignment = seen.view.assignment
        if assignment is None or assignment.generation < self.generation:
            return Verdict(Outcome.WAITING, "the generation was not published yet")
        if (absent := _absent(assignment, self.tasks)) is not None:
            return absent
        waiting, owners = [], {}
        for number in _numbers(assignment, self.tasks):
            owner = assignment.tasks[number].active
            if self.on is not None and owner != self.on:
                moved = f"generation {assignment.generation} gave task {number} to {owner or 'nobody'}"
                return Verdict(Outcome.FAILED, f"{moved}: {assignment.reason}")
            task = _active_task(seen, assignment, number)
            if task is not None and task.state is TaskState.FAILED:
                return Verdict(Outcome.FAILED, f"task {number} failed on {owner}: {task.error}")
            if task is None or task.state is not TaskState.RUNNING:
                waiting.append(_active_line(assignment, number, task))
            else:
                owners[str(number)] = owner
        if waiting:
            return Verdict(Outcome.WAITING, "; ".join(waiting))
        result = {"generation": assignment.generation, "active": owners}
        return Verdict(Outcome.MET, f"generation {assignment.generation} is obeyed", result)


@dataclass(frozen=True)
class StandbysWarm:
    """Every task runs and has its standbys, warm and near the end of the changelog.

    Args:
        num_standby_replicas: how many warm standbys a task must have.
        tasks: their numbers; None for all.
        max_lag_records: a standby counts when its lag is at most this many records; None does not look at it.
        max_lag_s: the same in seconds.
        generation: the assignment that is waited for, or a newer one.
    """

    num_standby_replicas: int = 1
    tasks: tuple[int, ...] | None = None
    max_lag_records: int | None = None
    max_lag_s: float | None = None
    generation: int = 1

    def __str__(self) -> str:
        """What is waited for."""
        which = "every task" if self.tasks is None else f"{_tasks(self.tasks)}"
        bounds = [f"{self.max_lag_records} records"] if self.max_lag_records is not None else []
        bounds += [f"{self.max_lag_s:g} s"] if self.max_lag_s is not None else []
        within = f" within {' and '.join(bounds)}" if bounds else ""
        return f"{which} to run with {self.num_standby_replicas} warm standby(s){within}"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when a task failed: its standbys cannot get warmer than its last commit."""
        assignment = seen.view.assignment
        if assignment is None or assignment.generation < self.generation:
            return Verdict(Outcome.WAITING, "the generation was not published yet")
        if (absent := _absent(assignment, self.tasks)) is not None:
            return absent
        lags, waiting = {}, []
        for number in _numbers(assignment, self.tasks):
            active = _active_task(seen, assignment, number)
            if active is not None and active.state is TaskState.FAILED:
                where = assignment.tasks[number].active
                return Verdict(Outcome.FAILED, f"task {number} failed on {where}: {active.error}")
            if active is None or active.state is not TaskState.RUNNING:
                waiting.append(_active_line(assignment, number, active))
                continue
            copies = {name: _copy(seen, name, number) for name in assignment.tasks[number].standbys}
            near = {n: c.lag_records for n, c in copies.items() if c is not None and self._near(c)}
            lags[str(number)] = near
            if len(near) < self.num_standby_replicas:
                told = ", ".join(f"{n} {_copy_line(c)}" for n, c in copies.items()) or "none assigned"
                waiting.append(f"task {number} has {len(near)} of {self.num_standby_replicas} standbys ({told})")
        if waiting:
            return Verdict(Outcome.WAITING, "; ".join(waiting))
        result = {"generation": assignment.generation, "lag_records": lags}
        return Verdict(Outcome.MET, f"all are warm in generation {assignment.generation}", result)

    def _near(self, task: TaskStatus) -> bool:
        if not task.warm or task.lag_records is None:
            return False
        if self.max_lag_records is not None and task.lag_records > self.max_lag_records:
            return False
        return self.max_lag_s is None or (task.lag_s is not None and task.lag_s <= self.max_lag_s)


@dataclass(frozen=True)
class CommandObeyed:
    """An instance reports that it carried a command out.

    Args:
        instance: its name.
        command: the command's id.
    """

    instance: str
    command: str

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to obey command {self.command}"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when the instance ends before."""
        status = seen.view.statuses.get(self.instance)
        if status is None:
            return Verdict(Outcome.WAITING, "nothing was heard of it yet")
        if status.last_command == self.command:
            return Verdict(Outcome.MET, "it was obeyed", _handle(status))
        if not status.state.alive or seen.missed(status):
            return Verdict(Outcome.FAILED, _end_of(status, seen))
        return Verdict(Outcome.WAITING, f"its last command is {status.last_command}")


@dataclass(frozen=True)
class TasksReplayed:
    """An instance took a replay on and its copies of the tasks are whole again.

    Args:
        instance: its name.
        command: the id of the command.
        tasks: the tasks' numbers.
    """

    instance: str
    command: str
    tasks: tuple[int, ...]

    def __str__(self) -> str:
        """What is waited for."""
        return f"instance {self.instance} to replay {_tasks(self.tasks)}"

    def verdict(self, seen: Observation) -> Verdict:
        """Fails when the instance ends or a task fails."""
        accepted = CommandObeyed(self.instance, self.command).verdict(seen)
        if accepted.outcome is not Outcome.MET:
            return accepted
        status = seen.living(self.instance)
        if status is None:
            last = seen.view.statuses[self.instance]
            gone = not last.state.alive or seen.missed(last)
            return Verdict(Outcome.FAILED if gone else Outcome.WAITING, _end_of(last, seen))
        waiting, restored = [], {}
        for number in self.tasks:
            task = status.task(number)
            if task is not None and task.state is TaskState.FAILED:
                return Verdict(Outcome.FAILED, f"task {number} failed: {task.error}")
            if task is None or not (task.warm or task.state is TaskState.RUNNING):
                waiting.append(f"task {number} {_copy_line(task)}")
            else:
                restored[str(number)] = task.restored_records
        if waiting:
            return Verdict(Outcome.WAITING, "; ".join(waiting))
        return Verdict(Outcome.MET, "all are whole", {"instance": self.instance, "restored_records": restored})


@dataclass(frozen=True)
class IncidentResolved:
    """The failure of one process of an instance was answered, and redundancy is back.

    Args:
        instance: its name.
        incarnation: the process.
    """

    instance: str
    incarnation: int

    def __str__(self) -> str:
        """What is waited for."""
        return f"the failure of {self.instance} (incarnation {self.incarnation}) to be answered and resolved"

    def verdict(self, seen: Observation) -> Verdict:
        """Looks at the records of incidents alone."""
        for record in seen.view.incidents.values():
            incident = record.incident
            if (incident.instance, incident.incarnation) != (self.instance, self.incarnation):
                continue
            if record.resolved_at_ms is None:
                line = f"answered by {record.answered_by} with generation {record.generation}, not resolved yet"
                return Verdict(Outcome.WAITING, line)
            return Verdict(Outcome.MET, "resolved", {"incident_id": incident.id, "generation": record.generation})
        status = seen.view.statuses.get(self.instance)
        return Verdict(Outcome.WAITING, f"no record of it; {_end_of(status, seen) if status else 'never heard of'}")


_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        CommandObeyed, IncidentResolved, InstanceEnded, InstanceInState, InstanceRunning, StandbysWarm, TaskInState,
        TasksReplayed, TasksRunning,
    )
}  # fmt: skip


def to_plain(condition: Condition) -> dict[str, Any]:
    """A condition as plain values, for a trigger's arguments."""
    plain: dict[str, Any] = msgspec.to_builtins(condition)
    return {"kind": type(condition).__name__, **plain}


def from_plain(plain: dict[str, Any]) -> Condition:
    """The inverse of `to_plain`.

    Raises:
        ConfigurationError: the values are not those of a condition.
    """
    arguments = dict(plain)
    kind = _KINDS.get(str(arguments.pop("kind", None)))
    if kind is None:
        raise ConfigurationError(f"{plain.get('kind')!r} is no condition: use one of {', '.join(sorted(_KINDS))}.")
    try:
        condition: Condition = msgspec.convert(arguments, type=kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"The arguments of {kind.__name__} are wrong: {error}.") from error
    return condition


def _numbers(assignment: Assignment, tasks: tuple[int, ...] | None) -> Iterable[int]:
    return range(len(assignment.tasks)) if tasks is None else tasks


def _absent(assignment: Assignment, tasks: tuple[int, ...] | None) -> Verdict | None:
    last = len(assignment.tasks) - 1
    absent = [number for number in tasks or () if not 0 <= number <= last]
    if not absent:
        return None
    return Verdict(Outcome.FAILED, f"{_tasks(absent)} of {assignment.application_id} do not exist, only 0 to {last}")


def _active_task(seen: Observation, assignment: Assignment, number: int) -> TaskStatus | None:
    """The assigned active's word on a task, when it lives and speaks of the present assignment."""
    given = assignment.tasks[number]
    status = seen.living(given.active) if given.active else None
    task = status.task(number) if status else None
    current = task is not None and task.role is Role.ACTIVE and task.generation >= given.active_since
    return task if current else None


def _copy(seen: Observation, instance: str, number: int) -> TaskStatus | None:
    status = seen.living(instance)
    task = status.task(number) if status else None
    return task if task is not None and task.role is Role.STANDBY else None


def _active_line(assignment: Assignment, number: int, task: TaskStatus | None) -> str:
    owner = assignment.tasks[number].active
    if owner is None:
        return f"task {number} has no active instance"
    return f"task {number} is {task.state.value} on {owner}" if task else f"task {number} was not taken by {owner} yet"


def _copy_line(task: TaskStatus | None) -> str:
    if task is None:
        return "not heard of"
    lag = "lag unknown" if task.lag_records is None else f"lag {task.lag_records}"
    lag += "" if task.lag_s is None else f" ({task.lag_s:.1f} s)"
    return f"{task.state.value}, {lag}"


def _said(status: InstanceStatus) -> str:
    return f"{status.instance} is {status.state.value}, generation {status.generation}"


def _end_of(status: InstanceStatus, seen: Observation) -> str:
    if status.state.alive:
        silent = seen.silent_for_s.get(status.instance, 0.0)
        return f"{status.instance} is {status.state.value} and was not heard of for {silent:.1f} s"
    how = "" if status.error is None else f": {status.error}"
    log = f" (log: {status.log_file} on {status.host})" if status.log_file else ""
    return f"{status.instance} is {status.state.value}{how}{log}"


def _handle(status: InstanceStatus) -> dict[str, Any]:
    return {
        "application_id": status.application_id,
        "instance": status.instance,
        "incarnation": status.incarnation,
        "pid": status.pid,
        "host": status.host,
        "log_file": status.log_file,
    }


def _either(words: Iterable[str]) -> str:
    return " or ".join(words)


def _tasks(numbers: Iterable[int]) -> str:
    return f"task(s) {', '.join(map(str, numbers))}"
