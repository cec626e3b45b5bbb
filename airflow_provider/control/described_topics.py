"""The topics of a described job: created, or verified."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider.control.job_description import JobDescription, JobTopic, TopicKind
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.application_topics import refuse_those_of_others
from airflow_provider.kafka.source_topic import check_partitions
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import (
    TopicSpec,
    changelog_spec,
    commits_spec,
    control_specs,
    history_spec,
    metrics_spec,
    repartition_spec,
)

__all__ = ["create_described_topics", "topic_specs"]


def create_described_topics(
    topics: TopicAdmin, job: JobDescription, replication_factor: int | None = None
) -> tuple[JobDescription, tuple[str, ...]]:
    """Create all topics of an application but its sources, or verify those that exist.

    Args:
        topics: of the cluster.
        job: what the application is made of.
        replication_factor: of the topics; None takes the cluster's default and accepts any.

    Returns:
        The job with all partitions known, and the names of the topics that did not exist.

    Raises:
        TopicMissingError: a source does not exist.
        TopicMismatchError: a topic exists otherwise than needed, or a changelog exists that another application may
            call its own.
        BrokerUnreachableError: no broker answered.
    """
    job = job.with_partitions({source: topics.partitions(source) for source in job.names(TopicKind.SOURCE)})
    refuse_those_of_others(topics, job.application_id, job.stores)
    partitions = {topic.name: topic.partitions for topic in job.topics}
    for topic in job.topics:
        source = job.stages[topic.stage].source
        if topic.kind is TopicKind.CHANGELOG and source in job.names(TopicKind.SOURCE):
            found = topics.describe(topic.name)
            check_partitions(source, partitions[source] or 0, {} if found is None else {topic.name: found.partitions})
    absent = {name for name in job.names(TopicKind.SINK, TopicKind.DEAD_LETTERS) if topics.describe(name) is None}
    specs = [*topic_specs(job, replication_factor)]
    taken = {name for name in job.names(TopicKind.SINK, TopicKind.DEAD_LETTERS) if name not in absent}
    # Those that the user made may be as they are.
    return job, topics.ensure([spec for spec in specs if spec.name not in taken])


def topic_specs(job: JobDescription, replication_factor: int | None = None) -> Iterator[TopicSpec]:
    """All topics of an application but its sources, as they are created.

    The control topics first: from then on the others are known to be this application's.

    Args:
        job: with all partitions known.
        replication_factor: as of `TopicSpec`.

    Raises:
        ConfigurationError: the partitions of a topic are not known.
    """
    yield from control_specs(job.application_id, replication_factor)
    yield history_spec(job.application_id, replication_factor)
    yield metrics_spec(job.application_id, replication_factor)
    for topic in job.topics:
        if topic.kind is not TopicKind.SOURCE:
            yield _spec(job.application_id, topic, replication_factor)


def _spec(application_id: str, topic: JobTopic, replication_factor: int | None) -> TopicSpec:
    if topic.partitions is None:
        raise ConfigurationError(
            f"How many partitions topic {topic.name!r} is to have is not known: {topic.like!r} says it, and was not "
            "looked at."
        )
    if topic.kind is TopicKind.REPARTITION:
        return repartition_spec(topic.name, topic.partitions, replication_factor)
    if topic.kind is TopicKind.CHANGELOG and topic.store is not None:
        return changelog_spec(application_id, topic.store, topic.partitions, replication_factor)
    if topic.kind is TopicKind.COMMITS:
        return commits_spec(application_id, topic.stage, topic.partitions, replication_factor)
    return TopicSpec(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=replication_factor,
        required=frozenset(),
    )
