"""The button that leads to the run that answered a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from airflow_provider.control.records.incident import IncidentRecord


@dataclass(frozen=True)
class FailoverRun:
    """The run of a DAG that answered an incident."""

    dag_id: str
    run_id: str

    @classmethod
    def of(cls, record: IncidentRecord) -> FailoverRun | None:
        """The one that a record names; None where no DAG answered the incident."""
        return None if record.answered_by_dag is None else cls(record.answered_by_dag, record.answered_by)


class FailoverRunLink(BaseOperatorLink):
    """Leads to the run of the failover DAG that answered the failure that a task waited for, checked or reported.

    There is no button where the command line answered it.
    """

    name = "Failover run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The URL of the run in this Airflow; empty where none is known."""
        run: FailoverRun | None = getattr(operator, "linked_run", None)
        if run is None:
            return ""
        base = conf.get("api", "base_url", fallback=None) or ""
        return f"{base.rstrip('/')}/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}"
