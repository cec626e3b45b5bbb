"""The state of one task, and why it stopped."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import Role, TaskState

__all__ = ["TaskLife"]


class TaskLife:
    """Owns a task's state: one of `TaskState`, whose docstring has the picture. Every change goes by `transition`.

    Args:
        task_id: the task's, for messages.
        role: what it is for the task in the beginning.
    """

    def __init__(self, task_id: TaskId, role: Role) -> None:
        self._task_id = task_id
        self._state = TaskState.initial(role)
        self._error: Exception | None = None

    @property
    def state(self) -> TaskState:
        """Where it is."""
        return self._state

    @property
    def error(self) -> Exception | None:
        """Why it is FAILED or waits CLOSED; None in every other state."""
        return self._error

    def transition(self, to: TaskState, error: Exception | None = None) -> None:
        """Go on to another state.

        Args:
            to: a successor of the state that it is in.
            error: why, where it stops.

        Raises:
            RuntimeError: it is no successor; the state stays.
        """
        if to not in self._state.successors:
            allowed = ", ".join(sorted(state.name for state in self._state.successors))
            raise RuntimeError(
                f"Task {self._task_id} is {self._state.name} and cannot become {to.name}, only {allowed}: this is an "
                "error in the provider. Report it with the instance's log; until then restart the instance."
            )
        self._state, self._error = to, error
