"""Creates or verifies an application's changelog and control topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow.sdk import Context

from airflow_provider.common.json_codec import to_plain
from airflow_provider.operators.arguments import parse_if_given, parse_names, parse_whole
from airflow_provider.operators.control import ControlOperator

__all__ = ["CreateChangelogTopicsOperator"]

_NONE: Final[tuple[Any, ...]] = ("", "[]", (), [])


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
        windowed_stores: those among the stores that belong to windows: their changelogs are made with
            ``cleanup.policy=compact,delete``, and without a retention.
        kwargs: see `ControlOperator`.

    Returns:
        ``partitions``, the names of the ``changelogs`` and of the ``control`` topics, and which were ``created``.

    Raises:
        TopicMissingError: a source does not exist.
        TopicMismatchError: a topic exists otherwise than needed, or the sources differ in their partitions.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "source_topics", "stores", "replication_factor", "output_topics",
        "windowed_stores",
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        source_topics: str | Sequence[str],
        stores: str | Sequence[str] = ("state",),
        replication_factor: int | None = None,
        output_topics: str | Sequence[str] = (),
        windowed_stores: str | Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.source_topics = source_topics
        self.stores = stores
        self.replication_factor = replication_factor
        self.output_topics = output_topics
        self.windowed_stores = windowed_stores

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
            parse_names("output_topics", self.output_topics) if self.output_topics not in _NONE else (),
            parse_names("windowed_stores", self.windowed_stores) if self.windowed_stores not in _NONE else (),
        )
        self.log.info("Created %s of %s", list(made.created) or "none", [*made.changelogs, *made.control])
        plain: dict[str, Any] = to_plain(made)
        return plain
