"""What is to be repaired after a failover."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.control.failover_answer import FailoverAnswer

__all__ = ["Repair"]


@dataclass(frozen=True, kw_only=True)
class Repair:
    """The repair after one incident. Its fields are the arguments of the repair DAG's task group.

    Args:
        application_id: the application.
        kafka_conn_id: Airflow connection of its Kafka cluster.
        incident_id: `Incident.id`, which is marked resolved at the end.
        instance: what the incident was of.
        replace: whether the instance is gone and needs a replacement.
        num_standby_replicas: wanted standbys per task.
    """

    application_id: str
    kafka_conn_id: str
    incident_id: str
    instance: str
    replace: bool
    num_standby_replicas: int

    @classmethod
    def of(cls, answer: FailoverAnswer) -> Repair:
        """After what a failover did."""
        return cls(
            application_id=answer.application_id,
            kafka_conn_id=answer.kafka_conn_id,
            incident_id=answer.incident_id,
            instance=answer.instance,
            replace=answer.replace,
            num_standby_replicas=answer.num_standby_replicas,
        )
