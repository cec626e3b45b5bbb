"""From what a job file says to topics, and to what is kept of the job in the assignment topic."""

from __future__ import annotations

import dataclasses

from airflow_provider.common.task_id import TaskId, tasks_of
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.application.job_change import numbered_after, refuse_change
from airflow_provider.control.records.job_description import JobDescription, TopicKind
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, changelog_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin


def create_job_topics(
    cluster: KafkaConnection, admin: TopicAdmin, job: JobDescription, replication_factor: int | None = None
) -> tuple[JobDescription, tuple[str, ...]]:
    """Create or verify the topics of a job, and keep what it is made of; that, and the names of those created.

    What only an earlier version of it needed stays, and is remembered as gone.

    Raises:
        ConfigurationError: this version of the job cannot go on with what the one before left.
        TopicMissingError: a source does not exist; or a topic that the application ran with does not.
        TopicMismatchError: a topic exists otherwise than needed.
    """
    view = read_view_if_there(cluster, admin, job.application_id)
    before = None if view is None else view.job
    described, created = create_described_topics(
        admin, job, replication_factor, before, ran=view is not None and view.ran
    )
    described = described.after(before)
    if described != before:
        write_control(cluster, job.application_id, described)
    return described, created


def read_view_if_there(
    cluster: KafkaConnection, admin: TopicAdmin, application_id: str, *, statuses: bool = True
) -> ControlView | None:
    """What the control topics of an application hold; None where there are none yet."""
    if any(admin.describe(topic(application_id)) is None for topic in (assignment_topic, status_topic)):
        return None
    with ControlReader(cluster, application_id, statuses) as reader:
        return reader.read_to_end()


def with_what_is_gone(admin: TopicAdmin, job: JobDescription) -> JobDescription:
    """A job as it is on record, with those among the topics of its earlier versions that are still there."""
    if not job.gone:
        return job
    existing = admin.names()
    return dataclasses.replace(job, gone=tuple(name for name in job.gone if name in existing))


def sized_job(admin: TopicAdmin, job: JobDescription, before: JobDescription | None) -> JobDescription:
    """A job that a file says, with all partitions known, to be compared with the topics that there are.

    Args:
        before: as it was described last: of the sources that it reads too, it has those that they had then.

    Raises:
        ConfigurationError: this version of the job cannot go on with what the one before left.
        TopicMissingError: a source does not exist.
    """
    topics = () if before is None else before.topics
    known = {topic.name: topic.partitions for topic in topics if topic.kind is TopicKind.SOURCE}
    sources = {name: known.get(name) or admin.partitions(name) for name in job.names(TopicKind.SOURCE)}
    sized = numbered_after(before, job).with_partitions(sources)
    refuse_change(before, sized)
    return sized.after(before)


def application_tasks(cluster: KafkaConnection, application_id: str, store: str) -> tuple[TaskId, ...]:
    """The tasks of an application, sorted: one for each partition of each of its stages.

    Args:
        store: of a job that was not described: it has one stage, whose tasks are the partitions of this changelog.

    Raises:
        ConfigurationError: the description does not say how many partitions there are.
        TopicMissingError: there are no control topics, or there is no such changelog.
    """
    with ControlReader(cluster, application_id, statuses=False) as reader:
        job = reader.read_to_end().job
    if job is not None:
        return tasks_of(job.num_partitions)
    return tasks_of({0: TopicAdmin(cluster).partitions(changelog_topic(application_id, store))})
