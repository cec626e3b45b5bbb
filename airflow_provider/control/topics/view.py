"""What the control topics hold at one moment, and what of it has outlived its use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.command import Command
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.incident import IncidentKind, IncidentRecord, NotedRecovery, Watcher
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.liveness import Liveness, Timeouts, liveness


@dataclass
class ControlView:
    """The newest value under every key of ``<app>-assignment`` and ``<app>-status``.

    Args:
        heard_at_ms: by instance, when the broker appended that status, epoch ms of the broker's clock: the only
            clock by which two hosts can be compared.
        recoveries: by `Incident.id`, what a watcher noted of those that were open then.
        newest_ms: the append time of the newest heartbeat in ``<app>-status``, same clock; 0 before any.
        commands: by instance, and by `Command.id` in the order in which they were given: those not yet done.
        faults: by `InjectedFault.id`, what drills did.
        job: what the job is made of, as its topics were created last; None where it was not described.
        watcher: what the watcher said last; None where there never was one.
        watcher_heard_at_ms: when the broker appended that, same clock; 0 where there never was one.
        unreadable: by key, why the newest record under it cannot be read; the one before it stands.
    """

    application_id: str
    _: KW_ONLY
    assignment: Assignment | None = None
    statuses: dict[str, InstanceStatus] = field(default_factory=dict)
    heard_at_ms: dict[str, int] = field(default_factory=dict)
    newest_ms: int = 0
    deployments: dict[str, Deployment] = field(default_factory=dict)
    incidents: dict[str, IncidentRecord] = field(default_factory=dict)
    recoveries: dict[str, NotedRecovery] = field(default_factory=dict)
    commands: dict[str, dict[str, Command]] = field(default_factory=dict)
    faults: dict[str, InjectedFault] = field(default_factory=dict)
    job: JobDescription | None = None
    watcher: Watcher | None = None
    watcher_heard_at_ms: int = 0
    unreadable: dict[bytes, str] = field(default_factory=dict)

    @property
    def ran(self) -> bool:
        """Whether an instance of the application was ever there, or was to be."""
        return bool(self.statuses) or self.assignment is not None

    @property
    def instance_names(self) -> set[str]:
        """Of all instances that are, were, or are assigned something."""
        return {*self.statuses, *(self.assignment.instances if self.assignment else ())}

    @property
    def silent_for_s(self) -> Mapping[str, float]:
        """Seconds between each instance's last status and the newest record of all, by the broker's clock.

        Infinite for one that the assignment names and that never sent one. Good for one look. A follower of the
        topics should count by a monotonic clock of its own: when every instance is silent, nothing moves this one.
        """
        named = self.assignment.instances if self.assignment else ()
        never = dict.fromkeys(named, math.inf)
        return never | {name: (self.newest_ms - heard) / 1000 for name, heard in self.heard_at_ms.items()}

    @property
    def watcher_silent_for_s(self) -> float:
        """The same of the watcher: infinite where there never was one."""
        return math.inf if self.watcher is None else (self.newest_ms - self.watcher_heard_at_ms) / 1000

    @property
    def perhaps_alive(self) -> tuple[str, ...]:
        """Instances that the assignment names and that reported no end, sorted, however long they have been silent.

        One look proves no silence, so an answer takes nothing from them unless it is about them.
        """
        named = self.assignment.instances if self.assignment else ()
        return tuple(n for n in named if n not in self.statuses or self.statuses[n].state.alive)

    @property
    def unresolved_incidents(self) -> tuple[IncidentRecord, ...]:
        """Those that were answered, and after which not every task has its standbys again."""
        return tuple(record for record in self.incidents.values() if record.resolved_at_ms is None)

    def last_heard_ms(self, instance: str, incarnation: int) -> int | None:
        """When the broker appended the last status of a process, epoch ms of its clock; None where it had none.

        Args:
            incarnation: of the process; of a later one's, the time of its own.
        """
        status = self.statuses.get(instance)
        former = None if status is None else status.former
        if former is not None and former.incarnation == incarnation:
            return former.heard_at_ms
        return self.heard_at_ms.get(instance)

    def healthy(self, timeouts: Timeouts) -> tuple[str, ...]:
        """Instances that live, as far as one look can say, sorted."""
        silent = self.silent_for_s
        alive = (n for n, s in self.statuses.items() if liveness(s, silent[n], timeouts) is Liveness.ALIVE)
        return tuple(sorted(alive))


_DAY_MS = 86_400_000


_INCIDENT_MS: Final = 30 * _DAY_MS
"""How long an incident is remembered, after it was decided; what a drill did, too."""
_MAX_INCIDENTS: Final = 100
"""How many resolved incidents, the newest."""
_RESOLVED_MS: Final = _DAY_MS
"""How long a resolved incident that ``<app>-history`` has and no decision looks at any more, after it was resolved: as
long as a drill, or another try of a task, may still ask for it."""
_INSTANCE_MS: Final = 30 * _DAY_MS
"""How long an instance that the assignment does not name, its deployment and commands to it, after its last word."""


def outdated(
    view: ControlView, now_ms: int
) -> tuple[IncidentRecord | NotedRecovery | InstanceStatus | Deployment | Command | InjectedFault, ...]:
    """The values whose keys can go.

    An incident answers nothing any more once it is old: the generation that answered it names its instance no longer.
    One of a task is looked at for longer: it says where the task failed before.
    """
    newest = sorted(view.incidents.values(), key=lambda record: record.decided_at_ms, reverse=True)
    resolved = [record for record in newest if record.resolved_at_ms is not None]
    surplus = {record.incident.id for record in resolved[_MAX_INCIDENTS:]}
    incidents = [
        record
        for record in newest
        if record.incident.id in surplus
        or now_ms - record.decided_at_ms > _INCIDENT_MS
        or (_told(record) and now_ms - (record.resolved_at_ms or now_ms) > _RESOLVED_MS)
    ]
    forgotten = {record.incident.id for record in incidents}
    recoveries = [
        noted
        for id, noted in view.recoveries.items()
        if id in forgotten or (record := view.incidents.get(id)) is None or record.recovery is not None
    ]
    named = view.assignment.instances if view.assignment else ()
    # By the broker's clock alone: the newest word of any instance against this one's.
    gone = [
        status
        for name, status in sorted(view.statuses.items())
        if name not in named and view.newest_ms - view.heard_at_ms.get(name, 0) > _INSTANCE_MS
    ]
    deployments = [view.deployments[s.instance] for s in gone if s.instance in view.deployments]
    commands = [command for s in gone for command in view.commands.get(s.instance, {}).values()]
    faults = [fault for fault in view.faults.values() if now_ms - fault.injected_at_ms > _INCIDENT_MS]
    return (*incidents, *recoveries, *gone, *deployments, *commands, *faults)


def _told(record: IncidentRecord) -> bool:
    of_task = record.incident.kind in (IncidentKind.TASK_FAILED, IncidentKind.TASK_STALLED)
    return record.in_history and not of_task
