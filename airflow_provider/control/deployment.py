"""How an instance was deployed, so that a replacement can be."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Deployment"]


@dataclass(frozen=True)
class Deployment:
    """Everything a replacement needs, and nothing secret: connections by their ids.

    Kept in ``<app>-status`` under ``deployment/<instance>``.

    Args:
        application_id: the application.
        instance: its name.
        application: path of the job's file for spark-submit.
        kafka_conn_id: Airflow connection of the Kafka cluster.
        spark_conn_id: Airflow connection of Spark.
        state_dir: folder for its stores, on its host.
        run_dir: folder for its log and scratch, on its host.
        conf: Spark settings.
        application_args: arguments of the job's file.
        env_vars: environment of the job.
    """

    application_id: str
    instance: str
    application: str
    kafka_conn_id: str
    spark_conn_id: str
    state_dir: str
    run_dir: str
    conf: dict[str, str] = field(default_factory=dict)
    application_args: tuple[str, ...] = ()
    env_vars: dict[str, str] = field(default_factory=dict)
