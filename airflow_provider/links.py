"""Links of a task in the UI: to the log of an instance, its Spark UI, and the run that answered a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.errors import ConfigurationError

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


class SparkUiLink(BaseOperatorLink):
    """Leads to Spark's UI of the instance that a task deployed or looked at, where that is on.

    It is the address that the instance reports. Spark's UI is off unless ``conf`` of the deployment has
    ``spark.ui.enabled``.
    """

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The URL; empty where none is known, and there is no button."""
        handle: InstanceHandle | None = getattr(operator, "linked_instance", None)
        url = (handle.ui_url if handle is not None else None) or ""
        return url if url.startswith(("http://", "https://")) else ""  # it is from a heartbeat


_SECTION: Final = "stateful_streams"
_OPTION: Final = "log_url"


class InstanceLogLink(BaseOperatorLink):
    """Leads to the log of the instance that a task deployed, stopped, killed or looked at.

    A log is a file of the instance's host, which no browser can open. So the button is there only where
    ``[stateful_streams] log_url`` says how the team reads such files, such as
    ``https://logs.example.com/{host}{log_file}``.
    """

    name = "Instance log"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The URL; empty where none is known, and there is no button.

        Raises:
            ConfigurationError: the setting names what there is not.
        """
        handle: InstanceHandle | None = getattr(operator, "linked_instance", None)
        template = conf.get(_SECTION, _OPTION, fallback=None)
        return log_url(template, handle) if template and handle is not None else ""


def log_url(template: str, handle: InstanceHandle) -> str:
    """The URL of an instance's log; empty where it is not known where the log lies.

    Args:
        template: with any of ``{application_id}``, ``{instance}``, ``{incarnation}``, ``{host}`` and ``{log_file}``,
            which begins with a slash. Each is quoted for a URL.

    Raises:
        ConfigurationError: the template names something else, or is no template.
    """
    if handle.log_file is None or not handle.host:
        return ""
    known = {
        "application_id": handle.application_id,
        "instance": handle.instance,
        "incarnation": str(handle.incarnation),
        "host": handle.host,
        "log_file": handle.log_file,
    }
    try:
        return template.format_map({name: quote(value) for name, value in known.items()})
    except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        names = ", ".join(f"{{{name}}}" for name in known)
        raise ConfigurationError(
            f"[{_SECTION}] {_OPTION} is {template!r}: use a URL with any of {names} in it, and double other braces."
        ) from error
