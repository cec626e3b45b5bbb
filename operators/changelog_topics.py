"""Creates or verifies an application's changelog and control topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.operators.control import ControlOperator

__all__ = ["CreateChangelogTopicsOperator"]


class CreateChangelogTopicsOperator(ControlOperator):
    """Creates the compacted changelogs of an application's stores and its two control topics, or verifies them.

    The number of partitions is the source's: a task takes the same partition of both. What exists is verified and
    never altered. Running it again changes nothing.

    Args:
        application_id: the application; it prefixes the topics.
        source_topics: the topic that the job reads, or several of the same number of partitions.
        stores: the names of the job's stores.
        replication_factor: of the topics; None takes the cluster's default and accepts any.
        kwargs: see `ControlOperator`.

    Returns:
        ``partitions``, the names of the ``changelogs`` and of the ``control`` topics, and which were ``created``.

    Raises:
        TopicMissingError: a source does not exist.
        TopicMismatchError: a topic exists otherwise than needed, or the sources differ in their partitions.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "source_topics", "stores", "replication_factor"
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        source_topics: str | Sequence[str],
        stores: str | Sequence[str] = ("state",),
        replication_factor: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.source_topics = source_topics
        self.stores = stores
        self.replication_factor = replication_factor

    def execute(self, context: Context) -> dict[str, Any]:
        """Create or verify."""
        made = self.hook.create_topics(
            self.application_id,
            _several(self.source_topics),
            _several(self.stores),
            int(self.replication_factor) if self.replication_factor else None,
        )
        self.log.info("Created %s of %s", made["created"] or "none", [*made["changelogs"], *made["control"]])
        return made


def _several(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
