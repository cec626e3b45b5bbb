"""What finds an instance again."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.control.records.status import InstanceStatus


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
