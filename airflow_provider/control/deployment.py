"""How an instance was deployed, so that a replacement can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

__all__ = ["Deployment"]


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Everything a replacement needs, and nothing secret: connections by their ids.

    Kept in ``<app>-assignment`` under ``deployment/<instance>``, with `conf`, `application_args` and `env_vars` as they
    were given: everybody who may read the topic can read them.

    Args:
        application_id: the application.
        instance: its name.
        application: path of the job file for spark-submit.
        kafka_conn_id: Airflow connection of the Kafka cluster.
        spark_conn_id: Airflow connection of Spark.
        state_dir: folder for its stores, on its host.
        run_dir: folder for its log and scratch, on its host.
        conf: Spark settings.
        application_args: arguments of the job file.
        env_vars: environment of the job.
        job_sha256: of the job file when it was launched; empty when it is not known.
        run_max_folders: how many folders of ended launches are kept in ``run_dir``.
        log_max_bytes: how long its log may become before a new one is begun; the older half is kept beside it.
        instance_kafka_conn_id: Airflow connection by which the instance itself reaches Kafka; None for `kafka_conn_id`.
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
    job_sha256: str = ""
    run_max_folders: int = 10
    log_max_bytes: int = 64 << 20
    instance_kafka_conn_id: str | None = None

    def differences(self, wanted: Deployment) -> tuple[str, ...]:
        """What is not as in another one: the names of fields and of entries, no values; empty when nothing differs."""
        return tuple(self._differences(wanted))

    def _differences(self, wanted: Deployment) -> Iterator[str]:
        for name in (own.name for own in fields(self)):
            old, new = getattr(self, name), getattr(wanted, name)
            if isinstance(old, Mapping):
                yield from (f"{name}[{key!r}]" for key in sorted({*old, *new}) if old.get(key) != new.get(key))
            elif name == "job_sha256":
                if old and new and old != new:
                    yield "the content of the job file"
            elif old != new:
                yield name
