"""What conditions are evaluated on: the control topics' content, and how long each instance has been silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.metrics_forecasts import ChangelogGrowth
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.liveness import Liveness, Timeouts, liveness
from airflow_provider.control.topics.view import ControlView


@dataclass(frozen=True)
class Observation:
    """One look at an application.

    Args:
        silent_for_s: seconds since each instance's last heartbeat, by the observer's monotonic clock; empty when
            the observer does not know.
        heard: instances that sent a heartbeat since the observer reads; None when it only had one look.
        timeouts: how long an instance may be silent.
        now_ms: when it was, epoch ms; 0 when the observer does not say.
        history: what the application went through, the oldest first, where the condition needs it.
        growths: by task, how fast its changelog grows, where the condition needs it.
    """

    view: ControlView
    _: KW_ONLY
    silent_for_s: Mapping[str, float] = field(default_factory=dict)
    heard: frozenset[str] | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    now_ms: int = 0
    history: Sequence[HistoryRecord] = ()
    growths: Mapping[TaskId, ChangelogGrowth] = field(default_factory=dict)

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
