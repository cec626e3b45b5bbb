"""The button that leads to Spark's UI of an instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from airflow_provider.control.records.deployment import InstanceHandle

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class SparkUiLink(BaseOperatorLink):
    """Leads to Spark's UI of the instance that a task deployed or looked at, where that is on.

    It is the address that the instance reports. Spark's UI is off unless ``conf`` of the deployment has
    ``spark.ui.enabled``.
    """

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The URL; empty where none is known, and there is no button."""
        handle: InstanceHandle | None = getattr(operator, "linked_instance", None)
        return (handle.ui_url if handle is not None else None) or ""
