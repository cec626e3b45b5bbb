"""The topics of a described job: created, or verified."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from airflow_provider.control.application.job_change import numbered_after, refuse_change
from airflow_provider.control.records.job_description import JobDescription, JobTopic, TopicKind
from airflow_provider.errors import ConfigurationError, TopicMissingError
from airflow_provider.kafka.application_topics import check_partitions, refuse_those_of_others
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_findings import TopicFinding, differences, source_findings
from airflow_provider.kafka.topic_spec import (
    LOST_BETWEEN,
    TopicDescription,
    TopicSpec,
    changelog_spec,
    commits_spec,
    control_plane_specs,
    repartition_spec,
)

_LOST: Final = "Do not create it yet. Stop the instances, and follow 'Changelog missing or mismatched' in the runbook."


def create_described_topics(
    topics: TopicAdmin,
    job: JobDescription,
    replication_factor: int | None = None,
    before: JobDescription | None = None,
    *,
    ran: bool = False,
) -> tuple[JobDescription, tuple[str, ...]]:
    """Create all topics of an application but its sources, or verify those that exist.

    Returns the job with all partitions known, and the names of those that did not exist.

    Args:
        replication_factor: of the topics; None takes the cluster's default and accepts any.
        before: what it was made of when its topics were created last; None where it never was described.

    Raises:
        ConfigurationError: this version of the job cannot go on with what the one before left (`refuse_change`).
        TopicMissingError: a source does not exist; or the application ran, and a topic of its own that it had does not:
            an empty one would have the input counted again.
        TopicMismatchError: a topic exists otherwise than needed, or a changelog exists that another application may
            call its own.
    """
    job = numbered_after(before, job)
    job = job.with_partitions({source: topics.partitions(source) for source in job.names(TopicKind.SOURCE)})
    refuse_those_of_others(topics, job.application_id, job.stores)
    partitions = {topic.name: topic.partitions for topic in job.topics}
    sources = {stage.number: stage.source for stage in job.stages}
    for topic in job.topics:
        source = sources[topic.stage]
        if topic.kind is TopicKind.CHANGELOG and source in job.names(TopicKind.SOURCE):
            found = topics.describe(topic.name)
            check_partitions(source, partitions[source] or 0, {} if found is None else {topic.name: found.partitions})
    refuse_change(before, job)
    lost = [name for name in _had(job, before) if ran and topics.describe(name) is None]
    if lost:
        said = [_missing(job, name, held=True) for name in lost]
        fixes = dict.fromkeys(_if_lost(job, name) for name in lost)
        raise TopicMissingError(f"{' '.join(said)} Nothing was created. {' '.join(fixes)}")
    # Those that the user made may be as they are.
    outputs = job.names(TopicKind.SINK, TopicKind.DEAD_LETTERS)
    taken = {name for name in outputs if topics.describe(name) is not None}
    return job, topics.ensure([spec for spec in topic_specs(job, replication_factor) if spec.name not in taken])


def topic_specs(job: JobDescription, replication_factor: int | None = None) -> Iterator[TopicSpec]:
    """All topics of an application but its sources, as they are created.

    The control topics first: from then on the others are known to be this application's.

    Args:
        job: with all partitions known.

    Raises:
        ConfigurationError: the partitions of a topic are not known.
    """
    yield from control_plane_specs(job.application_id, replication_factor)
    for topic in job.topics:
        if topic.kind is not TopicKind.SOURCE:
            yield _spec(job.application_id, topic, replication_factor)


def described_findings(
    job: JobDescription,
    found: Mapping[str, TopicDescription | None],
    *,
    ran: bool,
    replication_factor: int | None = None,
    before: JobDescription | None = None,
    empty: Collection[str] = (),
) -> tuple[TopicFinding, ...]:
    """All that is wrong with the topics of a described job, in the order in which it can be repaired.

    Args:
        job: with all partitions known.
        found: each of its topics, and of the control topics, as it is; None for one that does not exist.
        ran: whether an instance of it was ever there: then a topic of its own that is missing held what nothing else
            has.
        replication_factor: at least so many replicas; None accepts any.
        before: what it was made of when its topics were created last, where `job` is another version: what only the new
            one needs was never there.
        empty: changelogs and commit topics that may be created although they held something: a person rebuilds them.
    """
    had = {*_had(job, before)} - ({*empty} - {*job.names(TopicKind.REPARTITION)})
    sources = (topic for topic in job.topics if topic.kind is TopicKind.SOURCE)
    specs = topic_specs(job, replication_factor)
    return (
        *(finding for topic in sources for finding in _of_source(job, topic, found[topic.name])),
        *(finding for spec in specs for finding in _of_spec(job, spec, found[spec.name], ran and spec.name in had)),
    )


def _had(job: JobDescription, before: JobDescription | None) -> tuple[str, ...]:
    """The topics of its own that this version of a job needs and that it ran with, if it ran."""
    return job.own if before is None else tuple(name for name in job.own if name in before.own)


def _missing(job: JobDescription, name: str, *, held: bool) -> str:
    ran = f", and {job.application_id!r} ran before: what it held is lost with it" if held else ""
    return f"topic {name!r} does not exist{ran}."


def _if_lost(job: JobDescription, name: str) -> str:
    return LOST_BETWEEN if name in job.names(TopicKind.REPARTITION) else _LOST


def _of_source(job: JobDescription, topic: JobTopic, found: TopicDescription | None) -> Iterator[TopicFinding]:
    expected = f"and had {topic.partitions} when those of {job.application_id!r} were created"
    return source_findings(topic.name, found, topic.partitions, expected)


def _of_spec(
    job: JobDescription, spec: TopicSpec, found: TopicDescription | None, held: bool
) -> Iterator[TopicFinding]:
    if found is not None:
        # A sink or a dead-letter topic may be as it is.
        if spec.name not in job.names(TopicKind.SINK, TopicKind.DEAD_LETTERS):
            yield from differences(spec, found)
        return
    yield TopicFinding(
        _missing(job, spec.name, held=held),
        _if_lost(job, spec.name)
        if held
        else "Run 'stateful-streams topics repair JOB.py --apply', the deploy DAG, or the operate DAG's "
        "'Repair topics': each creates it.",
        topic=spec.name,
        create=None if held else spec,
    )


def _spec(application_id: str, topic: JobTopic, replication_factor: int | None) -> TopicSpec:
    if topic.partitions is None:
        raise ConfigurationError(
            f"How many partitions topic {topic.name!r} is to have is not known: {topic.like!r} says it, and was not "
            "looked at."
        )
    if topic.kind is TopicKind.REPARTITION:
        return repartition_spec(topic.name, topic.partitions, replication_factor)
    if topic.kind is TopicKind.CHANGELOG and topic.store is not None:
        return changelog_spec(application_id, topic.store, topic.partitions, replication_factor, topic.windowed)
    if topic.kind is TopicKind.COMMITS:
        return commits_spec(application_id, topic.stage, topic.partitions, replication_factor)
    return TopicSpec(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=replication_factor,
        required=frozenset(),
    )
