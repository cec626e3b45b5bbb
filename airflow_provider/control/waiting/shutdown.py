"""The clean shutdown of an instance that was asked for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.view import ControlView

if TYPE_CHECKING:
    from airflow_provider.control.topics.reader import ControlReader


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
        timeout_s: how long to wait.
    """
    deadline = time.monotonic() + timeout_s
    while is_stopping(reader.view, instance) and time.monotonic() < deadline:
        reader.poll(0.2)
