"""Creates or verifies an application's changelog and control topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Context

from airflow_provider.common.json_codec import to_plain
from airflow_provider.operators.arguments import parse_if_given, parse_names, parse_whole
from airflow_provider.operators.control import ControlOperator

__all__ = ["CreateChangelogTopicsOperator"]


class CreateChangelogTopicsOperator(ControlOperator):
    """Creates the compacted changelogs of an application's stores and its three control topics, or verifies them.

    The number of partitions is the source's: a task takes the same partition of both. What exists is verified and
    never altered. Running it again changes nothing.

    Args:
        application_id: the application; it prefixes the topics.
        source_topics: the topic that the job reads, or several of the same number of partitions.
        stores: the names of the job's stores.
        replication_factor: of the topics; None takes the cluster's default and accepts any.
        output_topics: sinks and dead-letter topics, created with the sources' number of partitions where they do not
            exist; those that do are left as they are.
        retention_ms: by store of windows, for how long its changelog keeps a record at least, in ms; an instance that
            finds another says how long it has to be. Its changelog is made with ``cleanup.policy=compact,delete``.
        kwargs: see `ControlOperator`.

    Returns:
        ``partitions``, the names of the ``changelogs`` and of the ``control`` topics, and which were ``created``.

    Raises:
        TopicMissingError: a source does not exist.
        TopicMismatchError: a topic exists otherwise than needed, or the sources differ in their partitions.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "source_topics", "stores", "replication_factor", "output_topics"
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        source_topics: str | Sequence[str],
        stores: str | Sequence[str] = ("state",),
        replication_factor: int | None = None,
        output_topics: str | Sequence[str] = (),
        retention_ms: Mapping[str, int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.source_topics = source_topics
        self.stores = stores
        self.replication_factor = replication_factor
        self.output_topics = output_topics
        self.retention_ms = retention_ms

    def has_no_control_topics(self) -> bool:
        """False: what it creates need not be there, so a missing source is looked for again with another try."""
        return False

    def execute(self, context: Context) -> dict[str, Any]:
        """Create or verify."""
        from airflow_provider.kafka.application_topics import create_topics

        made = create_topics(
            self.hook.topics(),
            self.application_id,
            parse_names("source_topics", self.source_topics),
            parse_names("stores", self.stores),
            parse_if_given(parse_whole, "replication_factor", self.replication_factor, minimum=1),
            parse_names("output_topics", self.output_topics) if self.output_topics not in ("", "[]", (), []) else (),
            {store: parse_whole("retention_ms", ms, minimum=1) for store, ms in (self.retention_ms or {}).items()},
        )
        self.log.info("Created %s of %s", list(made.created) or "none", [*made.changelogs, *made.control])
        plain: dict[str, Any] = to_plain(made)
        return plain
