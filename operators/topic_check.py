"""Verifies an application's topics, and repairs them where that loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Context

from airflow_provider.bases.arguments import (
    parse_flag,
    parse_if_given,
    parse_names,
    parse_optional,
    parse_seconds,
    parse_whole,
)
from airflow_provider.control.records.job_description import TopicKind
from airflow_provider.errors import ConfigurationError, TopicMismatchError
from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.first_deployment import skip_before_deployment

if TYPE_CHECKING:
    from airflow_provider.kafka.topic_admin import TopicAdmin

_NONE: Final[tuple[Any, ...]] = ("", "[]", (), [])


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
        kwargs: see `ControlOperator`.

    Returns:
        ``repaired``: what was done, a line each.

    Raises:
        ConfigurationError: no source is named, and the job was not described.
        TopicMismatchError: something is not as needed, or not after the repair; two lines for each.
        BrokerUnreachableError: no broker answered.
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
        """Verify; repair and verify again."""
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
            outputs=parse_names("output_topics", self.output_topics) if self.output_topics not in _NONE else (),
            replication_factor=replication,
            windowed_stores=parse_names("windowed_stores", self.windowed_stores)
            if self.windowed_stores not in _NONE
            else (),
        )
        return find_topic_problems(self.hook.connection, admin, wanted), wanted.own()
