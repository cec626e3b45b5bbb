"""What a condition or a person is told: the control topics' content, and how long each instance has been silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.control.view import ControlView

__all__ = ["Observation"]


@dataclass(frozen=True)
class Observation:
    """One look at an application.

    Args:
        view: what the control topics hold.
        silent_for_s: seconds since each instance was last heard of, by the observer's monotonic clock; empty when
            the observer cannot tell.
        heard: instances that were heard of since the observer listens; None when it only had one look.
        instance_timeout_s: silence longer than this counts as an end.
        start_timeout_s: the same for an instance that is starting.
    """

    view: ControlView
    silent_for_s: Mapping[str, float] = field(default_factory=dict)
    heard: frozenset[str] | None = None
    instance_timeout_s: float = 5.0
    start_timeout_s: float = 120.0

    def living(self, instance: str) -> InstanceStatus | None:
        """The status of an instance that is known to live; None otherwise."""
        status = self.view.statuses.get(instance)
        if status is None or not status.state.alive or self.missed(status):
            return None
        if self.heard is not None and instance not in self.heard:
            return None
        return status

    def missed(self, status: InstanceStatus) -> bool:
        """Whether an instance that did not end was not heard of for too long."""
        starting = status.state is InstanceState.STARTING
        allowed_s = max(self.instance_timeout_s, self.start_timeout_s if starting else 0.0)
        return self.silent_for_s.get(status.instance, 0.0) > allowed_s
