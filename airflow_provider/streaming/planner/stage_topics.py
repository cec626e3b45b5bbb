"""The topics between and beside a job's stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import changelog_topic, commits_topic
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, commits_spec, repartition_spec
from airflow_provider.streaming.planner.stage_plan import StagePlan


def source_topics(plans: Collection[StagePlan]) -> list[str]:
    """The topics that the user's programs fill, each once."""
    return list(dict.fromkeys(plan.source_topic for plan in plans if not plan.internal))


def changelog_of(application_id: str, plan: StagePlan) -> str:
    """The topic with the commits of a stage's tasks, and with the changes to its store where it has one."""
    if plan.store is None:
        return commits_topic(application_id, plan.number)
    return changelog_topic(application_id, plan.store)


def changelog_spec_of(
    application_id: str, plan: StagePlan, partitions: int, replication_factor: int | None = None
) -> TopicSpec:
    """How the topic of `changelog_of` has to be."""
    if plan.store is None:
        return commits_spec(application_id, plan.number, partitions, replication_factor)
    return changelog_spec(application_id, plan.store, partitions, replication_factor, windowed=plan.windowed)


def partitions_read(plans: Sequence[StagePlan], of_sources: Mapping[str, int]) -> dict[str, int]:
    """By topic that a stage reads, how many partitions it has, or is to have where an earlier stage writes it.

    Raises:
        ConfigurationError: no stage writes what another one reads.
    """
    # The first of several.
    writers = {topic: plan for plan in reversed(plans) for topic in plan.outputs}
    found = dict(of_sources)

    def number(topic: str, asked: tuple[str, ...]) -> int:
        if topic not in found:
            writer = writers.get(topic)
            if writer is None or topic in asked:
                raise ConfigurationError(
                    f"A stage reads the topic {topic!r}, which no earlier stage writes: this is an error in the "
                    "provider. Report it with the job."
                )
            of_writer = number(writer.source_topic, (*asked, topic))
            found[topic] = of_writer if writer.output_partitions is None else writer.output_partitions
        return found[topic]

    return {plan.source_topic: number(plan.source_topic, ()) for plan in plans}


def internal_specs(
    application_id: str,
    plans: Sequence[StagePlan],
    of_sources: Mapping[str, int],
    replication_factor: int | None = None,
) -> tuple[TopicSpec, ...]:
    """The repartition topics, changelogs and commit topics of a job, as they have to be."""
    partitions = partitions_read(plans, of_sources)
    names = dict.fromkeys(plan.source_topic for plan in plans if plan.internal)
    between = [repartition_spec(name, partitions[name], replication_factor) for name in names]
    beside = [
        changelog_spec_of(application_id, plan, partitions[plan.source_topic], replication_factor) for plan in plans
    ]
    return (*between, *beside)
