"""What drills hold over the processes of this instance for a while."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from airflow_provider.common.clock_shift import shift_clock
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.assignment import Assignment
from airflow_provider.control.command import Command
from airflow_provider.control.drills.kind import LONGEST_FAULT_S
from airflow_provider.control.status import InstanceStatus
from airflow_provider.streaming.driver.heartbeat import StatusWriter
from airflow_provider.streaming.worker.disturbance import Disturbance

__all__ = ["CutStatusWriter", "Disturbances"]

_OWNED_S: Final = 5.0
"""For its tasks to be owned elsewhere, once they are assigned: the connection comes back to a zombie."""


class Disturbances:
    """A cut connection, and a clock that runs ahead.

    The instance's thread begins and ends the cut; a timer puts the clock back; any thread may read `now`.
    """

    def __init__(self) -> None:
        self._command: str | None = None
        self._tasks: frozenset[TaskId] = frozenset()
        self._cut = False
        self._cut_until = 0.0
        self._moved_at: float | None = None
        self._clock_shift_s = 0.0

    @property
    def now(self) -> Disturbance:
        """What is the case now."""
        return Disturbance(self._cut, self._clock_shift_s)

    # -- the connection ------------------------------------------------------------------------------------------

    def arm_cut(self, command: str, tasks: Collection[TaskId]) -> None:
        """Cut the connection once a heartbeat has told of the command.

        Args:
            command: its id.
            tasks: that the instance is active for.
        """
        self._command, self._tasks, self._moved_at = command, frozenset(tasks), None

    def told(self, status: InstanceStatus) -> None:
        """A heartbeat was sent."""
        if self._command is not None and self._command in status.last_commands:
            self._command = None
            self._cut_until = time.monotonic() + LONGEST_FAULT_S
            self._cut = True

    def cut_goes_on(self, instance: str, assignment: Assignment | None) -> bool:
        """Whether no broker can be reached; no longer once the tasks are assigned to others, for some seconds.

        Args:
            instance: this one.
            assignment: the newest, which an instance without a connection would not know.
        """
        if not self._cut:
            return False
        now = time.monotonic()
        if assignment is not None and self._tasks.isdisjoint(assignment.active_on(instance)):
            self._moved_at = self._moved_at or now
        until = self._cut_until if self._moved_at is None else self._moved_at + _OWNED_S
        self._cut = now < min(until, self._cut_until)
        return self._cut

    # -- the clock -----------------------------------------------------------------------------------------------

    def shift_clock(self, seconds: float) -> None:
        """Move the clock of the driver at once, and of the workers with their next calls; 0 puts them back."""
        self._clock_shift_s = seconds
        shift_clock(seconds)


class CutStatusWriter:
    """A `StatusWriter` whose heartbeats are lost while the connection is cut.

    Args:
        writer: reaches the brokers.
        disturbances: know whether it is cut.
    """

    def __init__(self, writer: StatusWriter, disturbances: Disturbances) -> None:
        self._writer, self._disturbances = writer, disturbances

    def forget(self, value: Command) -> None:
        """As the writer; where it is lost, the command is forgotten once it is read again."""
        if not self._disturbances.now.cut:
            self._writer.forget(value)

    def send(self, value: InstanceStatus) -> None:
        """As the writer."""
        if not self._disturbances.now.cut:
            self._writer.send(value)
            self._disturbances.told(value)

    def check(self) -> None:
        """As the writer."""
        self._writer.check()

    def write(self, value: InstanceStatus) -> None:
        """As the writer, whatever is cut: the instance ends."""
        self._writer.write(value)

    def close(self) -> None:
        """As the writer."""
        self._writer.close()
