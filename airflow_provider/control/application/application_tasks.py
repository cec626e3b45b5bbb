"""The tasks of an application that runs, or is about to: from what is known of its job."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.tasks import tasks_of
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin


def application_tasks(cluster: KafkaConnection, application_id: str, store: str) -> tuple[TaskId, ...]:
    """The tasks of an application, sorted: one for each partition of each of its stages.

    Args:
        cluster: where its topics are.
        store: of a job that was not described: it has one stage, whose tasks are the partitions of this changelog.

    Raises:
        ConfigurationError: the description does not say how many partitions there are.
        TopicMissingError: there are no control topics, or there is no such changelog.
        BrokerUnreachableError: no broker answered.
    """
    with ControlReader(cluster, application_id, statuses=False) as reader:
        job = reader.read_to_end().job
    if job is not None:
        return tasks_of(job.num_partitions)
    return tasks_of({0: TopicAdmin(cluster).partitions(changelog_topic(application_id, store))})
