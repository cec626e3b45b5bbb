"""Create an application's topics, verify them, and repair them where that loses nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Context

from airflow_provider.bases.arguments import (
    parse_flag,
    parse_if_given,
    parse_mapping,
    parse_names,
    parse_optional,
    parse_seconds,
    parse_whole,
)
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.application.job_text import description_text, mermaid
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.errors import ConfigurationError, TopicMismatchError
from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics
from airflow_provider.kafka.topic_spec import TopicSpec, control_plane_specs
from airflow_provider.launch.job_file import describe_job_file
from airflow_provider.operators.control import ControlOperator, skip_before_deployment

if TYPE_CHECKING:
    from airflow_provider.kafka.topic_admin import TopicAdmin


_NONE: Final[tuple[Any, ...]] = ("", "[]", (), [])


def _names(argument: str, value: Any) -> tuple[str, ...]:
    """As `parse_names`, where there may be none."""
    return () if value in _NONE else parse_names(argument, value)


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

    Returns:
        ``partitions`` (by stage where the topics are made from the job's file), the names of the ``changelogs`` and of
        the ``control`` topics, which were ``created``, and from the file the job's description as ``job``, for people
        as ``text``, and as a picture in Mermaid's words as ``mermaid``.

    Raises:
        ConfigurationError: the job file does not say what its job is, or neither it nor a source is named.
        TopicMissingError: a source does not exist.
        TopicMismatchError: a topic exists otherwise than needed, or the sources differ in their partitions.
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
        from airflow_provider.kafka.application_topics import create_topics

        if (application := parse_optional(self.application)) is not None:
            return self._described(application)
        made = create_topics(
            self.hook.topics(),
            self.application_id,
            parse_names("source_topics", self.source_topics),
            parse_names("stores", self.stores),
            parse_if_given(parse_whole, "replication_factor", self.replication_factor, minimum=1),
            _names("output_topics", self.output_topics),
            _names("windowed_stores", self.windowed_stores),
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
        return {
            "partitions": {str(stage): number for stage, number in described.num_partitions.items()},
            "changelogs": list(described.names(TopicKind.CHANGELOG, TopicKind.COMMITS)),
            "control": [spec.name for spec in control_plane_specs(self.application_id)],
            "created": list(created),
            "job": to_plain(described),
            "text": text,
            "mermaid": picture,
        }


class CheckTopicsOperator(ControlOperator):
    """Fails, with what to do, when a topic of an application is not as it needs it.

    With `repair` it does first what loses nothing: it creates missing topics, but never the changelog of an application
    that ran before, and gives settings their values. Without, it says what a repair would do.

    Args:
        source_topics: the topic that the job reads, or several of the same number of partitions; none where the job was
            described when its topics were created (`CreateChangelogTopicsOperator`), which says all of them.
        stores: the names of the job's stores, where `source_topics` are named.
        output_topics: sinks and dead-letter topics, where `source_topics` are named.
        windowed_stores: those among the `stores` that belong to windows.
        replication_factor: at least so many replicas; None accepts any.
        repair: whether to repair.
        advise: whether to fail as well for what makes the topics slow or fragile although they are correct: replicas,
            segments that are hardly ever compacted, deletions that are forgotten too soon.
        max_absence_s: with `advise`, for how long an instance may be away and still go on from its stores, in seconds.
        deploy_dag_id: the DAG that deploys the application; before its first assignment this task is then skipped, and
            names that DAG. None fails.

    Returns:
        ``repaired``: what was done, a line each.

    Raises:
        ConfigurationError: no source is named, and the job was not described.
        TopicMismatchError: something is not as needed, or not after the repair; two lines for each.
    """

    template_fields: Sequence[str] = (
        *ControlOperator.template_fields, "source_topics", "stores", "output_topics", "replication_factor", "repair",
        "advise", "max_absence_s", "windowed_stores", "deploy_dag_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        application_id: str,
        source_topics: str | Sequence[str] = (),
        stores: str | Sequence[str] = ("state",),
        output_topics: str | Sequence[str] = (),
        replication_factor: int | None = None,
        repair: bool | str = False,
        advise: bool | str = False,
        max_absence_s: float | str | None = None,
        windowed_stores: str | Sequence[str] = (),
        deploy_dag_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(application_id=application_id, **kwargs)
        self.source_topics = source_topics
        self.stores = stores
        self.output_topics = output_topics
        self.replication_factor = replication_factor
        self.repair = repair
        self.advise = advise
        self.max_absence_s = max_absence_s
        self.windowed_stores = windowed_stores
        self.deploy_dag_id = deploy_dag_id

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider.control.application.topic_repair import find_topic_advice, repair_topic

        skip_before_deployment(self.hook, self.application_id, self.deploy_dag_id)
        repair, repaired = parse_flag("repair", self.repair), []
        admin = self.hook.topics()
        found, specs = self._look(admin)
        if repair and found:
            for finding in found:
                if finding.repair is not None:
                    repaired.append(repair_topic(admin, finding))
                    self.log.info("Done: %s", repaired[-1])
            found, specs = self._look(admin)
        if parse_flag("advise", self.advise):
            absence_s = parse_optional(self.max_absence_s)
            limit_s = None if absence_s is None else parse_seconds("max_absence_s", absence_s)
            found = (*found, *find_topic_advice(admin, specs, limit_s))
        if found:
            lines = "".join(f"\n  - {finding.problem}\n    {finding.fix}" for finding in found)
            would = "; ".join(finding.repair for finding in found if finding.repair is not None)
            hint = "" if repair or not would else f"\nA repair would do this: {would}."
            raise TopicMismatchError(f"The topics of {self.application_id!r} are not as it needs them:{lines}{hint}")
        self.log.info("The topics of %s are as it needs them", self.application_id)
        return {"repaired": repaired}

    def _look(self, admin: TopicAdmin) -> tuple[tuple[TopicFinding, ...], tuple[TopicSpec, ...]]:
        """What is wrong, and the topics that this package creates as they have to be."""
        from airflow_provider.control.application.described_topics import topic_specs
        from airflow_provider.control.application.topic_repair import find_described_problems, find_topic_problems
        from airflow_provider.kafka.application_topics import refuse_those_of_others

        replication = parse_if_given(parse_whole, "replication_factor", self.replication_factor, minimum=1)
        if self.source_topics in _NONE:
            view = self.hook.read(self.application_id)
            if view.job is None:
                raise ConfigurationError(
                    f"No source_topics are named for {self.application_id!r}, and its job was not described yet: name "
                    "them, or run its deploy DAG, which asks the job file."
                )
            if parse_flag("repair", self.repair):
                refuse_those_of_others(admin, self.application_id, view.job.stores)
            outputs = view.job.names(TopicKind.SINK, TopicKind.DEAD_LETTERS)
            own = tuple(spec for spec in topic_specs(view.job, replication) if spec.name not in outputs)
            return find_described_problems(admin, view, view.job, replication), own
        stores = parse_names("stores", self.stores)
        if parse_flag("repair", self.repair):
            refuse_those_of_others(admin, self.application_id, stores)
        wanted = WantedTopics(
            application_id=self.application_id,
            sources=parse_names("source_topics", self.source_topics),
            stores=stores,
            outputs=_names("output_topics", self.output_topics),
            replication_factor=replication,
            windowed_stores=_names("windowed_stores", self.windowed_stores),
        )
        return find_topic_problems(self.hook.connection, admin, wanted), wanted.own()
