"""Creates or verifies an application's changelog and control topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import Context

from airflow_provider.bases.arguments import parse_if_given, parse_mapping, parse_names, parse_optional, parse_whole
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.application.job_text import description_text, mermaid
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.kafka.topic_spec import control_specs, history_spec, metrics_spec
from airflow_provider.launch.job_file import describe_job_file
from airflow_provider.operators.control import ControlOperator

_NONE: Final[tuple[Any, ...]] = ("", "[]", (), [])


class CreateChangelogTopicsOperator(ControlOperator):
    """Creates the topics of an application but its sources, or verifies them.

    Which these are the job file says: it is run for that with the Python of this worker, or that of ``PYSPARK_PYTHON``
    in `env_vars`, in its own process, which starts no Spark. What it says is kept, so that operators and the
    command line know the tasks of all stages. Without `application` the job has one stage, and `source_topics` and
    `stores` say which topics it needs.

    The number of partitions is the source's: a task takes the same partition of both. What exists is verified and
    never altered. Running it again changes nothing.

    Args:
        application_id: the application; it prefixes the topics.
        source_topics: without `application`, the topic that the job reads, or several of the same number of partitions.
        stores: without `application`, the names of the job's stores.
        replication_factor: of the topics; None takes the cluster's default and accepts any.
        output_topics: without `application`, sinks and dead-letter topics. They are created with the sources' number of
            partitions where they do not exist; those that do are left as they are.
        windowed_stores: without `application`, those among the stores that belong to windows: their changelogs are made
            with ``cleanup.policy=compact,delete``, and without a retention.
        application: path of the job file on this worker.
        kwargs: see `ControlOperator`.

    Returns:
        ``partitions`` (by stage where the job was described), the names of the ``changelogs`` and of the ``control``
        topics, which were ``created``, and of a described job its description as ``job``, for people as ``text``, and
        as a picture in Mermaid's words as ``mermaid``.

    Raises:
        ConfigurationError: the job file does not say what its job is, or neither it nor a source is named.
        TopicMissingError: a source does not exist.
        TopicMismatchError: a topic exists otherwise than needed, or the sources differ in their partitions.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "source_topics", "stores", "replication_factor", "output_topics",
        "application", "application_args", "env_vars", "windowed_stores",
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        source_topics: str | Sequence[str] = (),
        stores: str | Sequence[str] = ("state",),
        replication_factor: int | None = None,
        output_topics: str | Sequence[str] = (),
        application: str | None = None,
        application_args: Sequence[str] = (),
        env_vars: Mapping[str, str] | None = None,
        windowed_stores: str | Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.source_topics = source_topics
        self.stores = stores
        self.replication_factor = replication_factor
        self.output_topics = output_topics
        self.application = application
        self.application_args = application_args
        self.env_vars = env_vars
        self.windowed_stores = windowed_stores

    def has_no_control_topics(self) -> bool:
        """False: what it creates need not be there, so a missing source is looked for again with another try."""
        return False

    def execute(self, context: Context) -> dict[str, Any]:
        """Create or verify."""
        from airflow_provider.kafka.application_topics import create_topics

        if (application := parse_optional(self.application)) is not None:
            return self._described(application)
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

    def _described(self, application: str) -> dict[str, Any]:
        """Run the job file, create what it says, and keep it."""
        from airflow_provider.control.application.job_topics import create_job_topics

        job = describe_job_file(
            application,
            self.application_id,
            application_args=tuple(map(str, self.application_args)),
            env_vars=parse_mapping("env_vars", self.env_vars),
        )
        replication = parse_if_given(parse_whole, "replication_factor", self.replication_factor, minimum=1)
        described, created = create_job_topics(self.hook.connection, self.hook.topics(), job, replication)
        text, picture = description_text(described), mermaid(described)
        self.log.info("Created %s of the topics of this job:\n%s\n\n%s", list(created) or "none", text, picture)
        specs = (
            *control_specs(self.application_id),
            history_spec(self.application_id),
            metrics_spec(self.application_id),
        )
        return {
            "partitions": {str(stage): number for stage, number in described.num_partitions.items()},
            "changelogs": list(described.names(TopicKind.CHANGELOG, TopicKind.COMMITS)),
            "control": [spec.name for spec in specs],
            "created": list(created),
            "job": to_plain(described),
            "text": text,
            "mermaid": picture,
        }
