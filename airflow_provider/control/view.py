"""What the control topics hold at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.command import Command
from airflow_provider.control.deployment import Deployment
from airflow_provider.control.incident import IncidentRecord
from airflow_provider.control.status import InstanceStatus

__all__ = ["ControlView"]


@dataclass
class ControlView:
    """The newest value under every key of ``<app>-assignment`` and ``<app>-status``.

    Args:
        application_id: the application.
        assignment: the newest generation; None before the first.
        statuses: by instance.
        heard_at_ms: by instance, when the broker appended that status, epoch ms of the broker's clock: the only
            clock by which two hosts can be compared.
        newest_ms: the append time of the newest record of ``<app>-status``, same clock; 0 before any.
        deployments: by instance.
        incidents: by `Incident.id`.
        commands: the last command to each instance.
        unreadable: by key, why the newest record under it cannot be read; the one before it stands.
    """

    application_id: str
    assignment: Assignment | None = None
    statuses: dict[str, InstanceStatus] = field(default_factory=dict)
    heard_at_ms: dict[str, int] = field(default_factory=dict)
    newest_ms: int = 0
    deployments: dict[str, Deployment] = field(default_factory=dict)
    incidents: dict[str, IncidentRecord] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    unreadable: dict[bytes, str] = field(default_factory=dict)

    @property
    def silent_for_s(self) -> Mapping[str, float]:
        """Seconds between each instance's last status and the newest record of all, by the broker's clock.

        Good for one look. Who follows the topics should count by a monotonic clock of its own: when every instance
        is silent, nothing moves this one.
        """
        return {name: (self.newest_ms - heard) / 1000 for name, heard in self.heard_at_ms.items()}

    def healthy(self, instance_timeout_s: float) -> tuple[str, ...]:
        """Instances that live and were heard of within the timeout, sorted."""
        silent = self.silent_for_s
        return tuple(sorted(n for n, s in self.statuses.items() if s.state.alive and silent[n] <= instance_timeout_s))

    def warm(self) -> frozenset[tuple[int, str]]:
        """Pairs (task, instance) of standby copies that have seen the end of their changelog."""
        return frozenset((t.task, s.instance) for s in self.statuses.values() for t in s.tasks if t.warm)
