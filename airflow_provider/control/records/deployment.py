"""How an instance was deployed, who starts it, and what finds a process of it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Final

from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.errors import ConfigurationError

_JOB_CONTENT: Final = "the content of the job file"


class Placement(Enum):
    """Where an instance lives (docs/adr/0020)."""

    WORKER = "worker"
    """On the Airflow worker whose deploy task launched it, beside it and outliving it."""
    SUPERVISED = "supervised"
    """Where systemd, Kubernetes or another supervisor starts ``run --supervised``; Airflow waits for that."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Everything a replacement needs, and nothing secret: connections by their ids.

    Kept in ``<app>-assignment`` under ``deployment/<instance>``, with `conf`, `application_args` and `env_vars` as they
    were given: everybody who may read the topic can read them.

    Args:
        job_sha256: of the job file when it was launched; empty when it is not known.
        run_max_folders: how many folders of ended launches are kept in ``run_dir``.
        log_max_bytes: how long its log may become before a new one is begun; the older half is kept beside it.
        instance_kafka_conn_id: Airflow connection by which the instance itself reaches Kafka; None for `kafka_conn_id`.
        placement: the name of a `Placement`: who starts it.
        python: the interpreter of the launcher, the driver and the workers; empty for that of who launches.
        version: of this package where it was launched; empty when it is not known.
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
    placement: str = Placement.WORKER.value
    python: str = ""
    version: str = ""

    def differences(self, wanted: Deployment) -> tuple[str, ...]:
        """What is not as in another one: the names of fields and of entries, no values; empty when nothing differs."""
        return tuple(self._differences(wanted))

    def other_job(self, job_sha256: str) -> str | None:
        """How the job file that was launched differs from one of this digest; None where it does not, or none is known.

        For an instance that a supervisor starts: its folders and settings are the supervisor's.
        """
        if not self.job_sha256 or not job_sha256 or self.job_sha256 == job_sha256:
            return None
        return f"{_JOB_CONTENT} (sha256 {self.job_sha256[:12]} there, {job_sha256[:12]} here)"

    def other_version(self, version: str) -> str | None:
        """How the package that was launched differs from one of this version; None where it does not, or is unknown."""
        if not self.version or self.version == version:
            return None
        return f"the version of this package ({self.version} there, {version} here)"

    def _differences(self, wanted: Deployment) -> Iterator[str]:
        for name in (own.name for own in fields(self)):
            old, new = getattr(self, name), getattr(wanted, name)
            if isinstance(old, Mapping):
                yield from (f"{name}[{key!r}]" for key in sorted({*old, *new}) if old.get(key) != new.get(key))
            elif name == "job_sha256":
                if old and new and old != new:
                    yield _JOB_CONTENT
            elif name == "version":
                continue  # what runs is told, and no reason to restart it
            elif old != new:
                yield name


def parse_placement(given: str) -> Placement:
    """The placement of a name.

    Raises:
        ConfigurationError: there is none of it.
    """
    try:
        return Placement(given)
    except ValueError:
        names = " or ".join(repr(one.value) for one in Placement)
        raise ConfigurationError(f"placement is {given!r}: use {names}.") from None


@dataclass(frozen=True, kw_only=True)
class InstanceHandle:
    """One process of an instance. Crosses between Airflow tasks as plain values.

    Args:
        pid: its driver's process id; 0 when it is not known.
        log_file: where its log lies there; None when it is not known.
        ui_url: of Spark's UI; None where that is off or not up yet.
    """

    application_id: str
    instance: str
    incarnation: int
    pid: int = 0
    host: str = ""
    log_file: str | None = None
    ui_url: str | None = None

    @classmethod
    def of(cls, status: InstanceStatus) -> InstanceHandle:
        """Of the process that sent a status."""
        return cls(
            application_id=status.application_id,
            instance=status.instance,
            incarnation=status.incarnation,
            pid=status.process.pid,
            host=status.process.host,
            log_file=status.process.log_file,
            ui_url=status.process.ui_url,
        )
