"""What can be waited for of an instance: a state, an end, a command that is done, a pause."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.records.command import TASK_KILLED, CommandKind
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.liveness import Liveness
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.evaluation import (
    Condition,
    Evaluation,
    Observation,
    Outcome,
    end_of,
    instance_line,
    met_unless,
)
from airflow_provider.error_decision import is_permanent

if TYPE_CHECKING:
    from airflow_provider.control.topics.reader import ControlReader


_START_IT: Final = "its supervisor has to start it (`stateful-streams run --supervised` on its host), Airflow does not"


class InstanceRunning(Condition, frozen=True):
    """An instance is up: it sends heartbeats and carries assignments out.

    Args:
        incarnation: the process that was started; a newer one counts as well.
    """

    instance: str
    incarnation: int

    def __str__(self) -> str:
        return f"instance {self.instance} to run"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the process ended or sends no heartbeat."""
        status = seen.view.statuses.get(self.instance)
        if status is None or status.incarnation < self.incarnation:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        if seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.FAILED, end_of(status, seen))
        if status.state is InstanceState.RUNNING and seen.living(self.instance):
            return Evaluation(Outcome.MET, instance_line(status), _handle(status))
        return Evaluation(Outcome.WAITING, instance_line(status))


class SupervisedRunning(Condition, frozen=True):
    """An instance that a supervisor starts is up.

    Args:
        incarnation: the process that is expected; a newer one counts as well, an older one does not.
    """

    instance: str
    incarnation: int

    def __str__(self) -> str:
        return f"instance {self.instance} to be started by its supervisor"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the expected process ended by an error that a restart would meet; other ends are waited out."""
        status = seen.view.statuses.get(self.instance)
        if status is None:
            return Evaluation(Outcome.WAITING, f"{self.instance} has never run: {_START_IT}")
        if seen.liveness(status) is not Liveness.ALIVE:
            permanent = status.incarnation >= self.incarnation and is_permanent(status.error_kind)
            outcome = Outcome.FAILED if permanent and not status.state.alive else Outcome.WAITING
            what = "correct that, then start it again" if outcome is Outcome.FAILED else _START_IT
            return Evaluation(outcome, f"{end_of(status, seen)}; {what}")
        if status.incarnation < self.incarnation:
            return Evaluation(Outcome.WAITING, f"{instance_line(status)} and is to be started again")
        if status.state is InstanceState.RUNNING and seen.living(self.instance):
            return Evaluation(Outcome.MET, instance_line(status), _handle(status))
        return Evaluation(Outcome.WAITING, instance_line(status))


class InstanceEnded(Condition, frozen=True):
    """An instance shut down cleanly.

    Args:
        for_life: whether an Airflow task stands for the instance as long as that lives, not for one process: it goes on
            with a replacement, and a stop because such a task was ended or cleared is no end that was meant.
    """

    instance: str
    incarnation: int
    for_life: bool = False

    def __str__(self) -> str:
        return f"instance {self.instance} to shut down cleanly"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the process ended otherwise, sends no heartbeat, or a newer one took its name."""
        status = seen.view.statuses.get(self.instance)
        if status is None or status.incarnation < self.incarnation:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        if status.incarnation > self.incarnation and not self.for_life:
            return Evaluation(Outcome.FAILED, f"incarnation {status.incarnation} runs under its name")
        if self.for_life and status.state is InstanceState.STOPPED and _task_was_killed(status):
            return Evaluation(Outcome.FAILED, f"{self.instance} was stopped because its task was ended or cleared")
        if status.state is InstanceState.STOPPED:
            return Evaluation(Outcome.MET, instance_line(status), _handle(status))
        if seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.FAILED, end_of(status, seen))
        return Evaluation(Outcome.WAITING, instance_line(status))


class InstanceInState(Condition, frozen=True):
    """An instance is in one of some states."""

    instance: str
    states: tuple[InstanceState, ...]

    def __str__(self) -> str:
        return f"instance {self.instance} to be {' or '.join(s.value for s in self.states)}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """A silent instance is in no state but ended."""
        status = seen.view.statuses.get(self.instance)
        if status is None:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        state = status.state
        if seen.liveness(status) is Liveness.SILENT:
            state = InstanceState.ENDED
        known = not state.alive or seen.living(self.instance) is not None
        if known and state in self.states:
            return Evaluation(Outcome.MET, instance_line(status), _handle(status))
        return Evaluation(
            Outcome.WAITING, end_of(status, seen) if state is InstanceState.ENDED else instance_line(status)
        )


class CommandDone(Condition, frozen=True):
    """An instance reports that it carried a command out."""

    instance: str
    command: str

    def __str__(self) -> str:
        return f"instance {self.instance} to carry out command {self.command}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when the instance ends before."""
        status = seen.view.statuses.get(self.instance)
        if status is None:
            return Evaluation(Outcome.WAITING, "it has sent no heartbeat yet")
        if self.command in status.last_commands:
            return Evaluation(Outcome.MET, "it was carried out", _handle(status))
        if seen.liveness(status) is not Liveness.ALIVE:
            return Evaluation(Outcome.FAILED, end_of(status, seen))
        return Evaluation(Outcome.WAITING, f"its last commands are {', '.join(status.last_commands) or 'none'}")


def _task_was_killed(status: InstanceStatus) -> bool:
    return any(command.startswith(TASK_KILLED) for command in status.last_commands[-1:])


def _handle(status: InstanceStatus) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(InstanceHandle.of(status))
    return plain


class ProcessingPaused(Condition, frozen=True):
    """Instances report that they process nothing for now, or that they process again.

    Args:
        incarnations: by instance, the process that was asked.
    """

    incarnations: dict[str, int]
    paused: bool = True

    def __str__(self) -> str:
        return f"{', '.join(sorted(self.incarnations))} to {'pause' if self.paused else 'process again'}"

    def evaluate(self, seen: Observation) -> Evaluation:
        """Fails when one ended, is silent, or was replaced: a new process is not paused."""
        waiting = []
        for name, incarnation in sorted(self.incarnations.items()):
            status = seen.view.statuses.get(name)
            if status is None or status.incarnation < incarnation:
                waiting.append(f"{name} has sent no heartbeat yet")
            elif status.incarnation > incarnation and self.paused:
                return Evaluation(
                    Outcome.FAILED, f"{name} was replaced, and its new process is not paused: pause again"
                )
            elif seen.liveness(status) is not Liveness.ALIVE:
                return Evaluation(Outcome.FAILED, end_of(status, seen))
            elif status.paused != self.paused:
                waiting.append(f"{name} {'processes' if self.paused else 'is paused'}")
        result = {"instances": sorted(self.incarnations), "paused": self.paused}
        return met_unless(waiting, "all of them report it", result)


def is_stopping(view: ControlView, instance: str) -> bool:
    """Whether an instance lives and is shutting down, or was asked to."""
    status = view.statuses.get(instance)
    if status is None or not status.state.alive:
        return False
    if status.state is InstanceState.STOPPING or status.stop_hand_over is not None:
        return True
    return any(
        command.kind is CommandKind.STOP and command.incarnation == status.incarnation
        for command in view.commands.get(instance, {}).values()
    )


def await_shutdown(reader: ControlReader, instance: str, timeout_s: float) -> None:
    """Wait until an instance is not shutting down any more; return after `timeout_s` in any case.

    Args:
        reader: has read the control topics to their end.
    """
    deadline = time.monotonic() + timeout_s
    while is_stopping(reader.view, instance) and time.monotonic() < deadline:
        reader.poll(0.2)
