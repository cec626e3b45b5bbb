"""What conditions are evaluated on: the control topics' content, and how long each instance has been silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from airflow_provider.control.liveness import Liveness, Timeouts, liveness
from airflow_provider.control.status import InstanceStatus
from airflow_provider.control.view import ControlView

__all__ = ["Observation"]


@dataclass(frozen=True)
class Observation:
    """One look at an application.

    Args:
        view: what the control topics hold.
        silent_for_s: seconds since each instance's last heartbeat, by the observer's monotonic clock; empty when
            the observer does not know.
        heard: instances that sent a heartbeat since the observer reads; None when it only had one look.
        timeouts: how long an instance may be silent.
    """

    view: ControlView
    _: KW_ONLY
    silent_for_s: Mapping[str, float] = field(default_factory=dict)
    heard: frozenset[str] | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)

    def living(self, instance: str) -> InstanceStatus | None:
        """The status of an instance that is known to live; None otherwise."""
        status = self.view.statuses.get(instance)
        if status is None or self.liveness(status) is not Liveness.ALIVE:
            return None
        if self.heard is not None and instance not in self.heard:
            return None
        return status

    def liveness(self, status: InstanceStatus) -> Liveness:
        """What the observer may take an instance for."""
        return liveness(status, self.silent_for_s.get(status.instance, 0.0), self.timeouts)
