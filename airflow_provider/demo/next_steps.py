"""What a person can do with a demo that was left up."""

from __future__ import annotations

__all__ = ["next_steps"]


def next_steps(address: str, bootstrap_servers: str, application_id: str, drill: str) -> tuple[str, ...]:
    """The lines that a kept demo closes with.

    Args:
        address: of Airflow.
        bootstrap_servers: of Kafka.
        application_id: the demo's.
        drill: id of the DAG that kills an instance.
    """
    return (
        f"All is left up. Airflow: {address}  Kafka: {bootstrap_servers}",
        "Look at the application:",
        f"  python -m airflow_provider status {application_id} --bootstrap-servers {bootstrap_servers}",
        f"Kill an instance again: {address}/dags/{drill}, Trigger",
        "  Failover and repair follow by themselves. All flights are read, so the drill says that it had no input.",
        "A job of your own needs another Airflow than this one, in ten minutes: docs/first-job.md",
        "'make down' ends it.",
    )
