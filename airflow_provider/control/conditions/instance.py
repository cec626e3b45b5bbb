"""What can be waited for of an instance."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.control.conditions.verdict import Outcome, Verdict
from airflow_provider.control.conditions.words import either, end_of, handle, said
from airflow_provider.control.observation import Observation
from airflow_provider.control.status import InstanceState

__all__ = ["CommandObeyed", "InstanceEnded", "InstanceInState", "InstanceRunning"]


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
            return Verdict(Outcome.FAILED, end_of(status, seen))
        if status.state is InstanceState.RUNNING and seen.living(self.instance):
            return Verdict(Outcome.MET, said(status), handle(status))
        return Verdict(Outcome.WAITING, said(status))


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
            return Verdict(Outcome.MET, said(status), handle(status))
        if status.state is InstanceState.ENDED or seen.missed(status):
            return Verdict(Outcome.FAILED, end_of(status, seen))
        return Verdict(Outcome.WAITING, said(status))


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
        return f"instance {self.instance} to be {either(s.value for s in self.states)}"

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
            return Verdict(Outcome.MET, said(status), handle(status))
        return Verdict(Outcome.WAITING, end_of(status, seen) if state is InstanceState.ENDED else said(status))


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
            return Verdict(Outcome.MET, "it was obeyed", handle(status))
        if not status.state.alive or seen.missed(status):
            return Verdict(Outcome.FAILED, end_of(status, seen))
        return Verdict(Outcome.WAITING, f"its last command is {status.last_command}")
