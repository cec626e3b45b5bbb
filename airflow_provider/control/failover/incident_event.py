"""What a watcher hands to a failover run."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.control.records.incident import Incident
from airflow_provider.control.topics.liveness import Timeouts


@dataclass(frozen=True, kw_only=True)
class IncidentEvent:
    """An incident, and what its finder knew. Crosses from a triggerer to a worker as plain values.

    Args:
        kafka_conn_id: Airflow connection of its Kafka cluster.
        detected_at_ms: epoch ms at which it was found.
        silent: the instances that sent no heartbeat for longer than allowed; of each, when the last one came, epoch ms
            by the broker's clock, 0 where there was none.
        instance_timeout_s: the finder's `Timeouts.instance_s`.
        start_timeout_s: the finder's `Timeouts.start_s`.
        stall_timeout_s: the finder's `Timeouts.stall_s`.
        num_standby_replicas: wanted standbys per task.
        failed_at_ms: when the task failed or stood still (`task_failed_at_ms`); where that is not reported, of the
            instance's heartbeat by which it was found, or of the last one where none came any more, epoch ms by the
            broker's clock; None where that is not known.
    """

    incident: Incident
    application_id: str
    kafka_conn_id: str
    detected_at_ms: int
    silent: dict[str, int] = field(default_factory=dict)
    instance_timeout_s: float = Timeouts.instance_s
    start_timeout_s: float = Timeouts.start_s
    stall_timeout_s: float = Timeouts.stall_s
    num_standby_replicas: int = 1
    failed_at_ms: int | None = None

    @property
    def timeouts(self) -> Timeouts:
        """How long the finder lets an instance be silent, and a task stand still."""
        return Timeouts(self.instance_timeout_s, self.start_timeout_s, self.stall_timeout_s)
