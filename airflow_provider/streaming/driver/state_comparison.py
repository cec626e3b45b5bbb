"""Whether a job may go on with what all of its tasks left, whoever is to run them."""

from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.commit_topics import CommitTopics
from airflow_provider.control.drills.commit_reader import last_of_tasks
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.streaming.worker.state_check import refuse_state_of

__all__ = ["refuse_other_state"]


def refuse_other_state(job: CompiledJob, connection: KafkaConnection, admin: TopicAdmin) -> None:
    """Refuse to run a job that would misread what a task left, before any task of it is opened (`refuse_state_of`).

    Args:
        job: signed.
        connection: the cluster.
        admin: of it.

    Raises:
        ConfigurationError: another version of the job wrote the state of a task, and this one would misread it.
        StatefulStreamsError: the commits cannot be read.
    """
    topics = CommitTopics({stage.number: stage.spec.store.changelog for stage in job.stages})
    ends: dict[TaskId, int] = {}
    for topic, tasks in topics.tasks_by_topic(job.tasks).items():
        # What is open there, or is committed from now on, is a running version's.
        found = admin.latest_offsets(topic, tasks, committed=True)
        ends |= {task: found[number] for number, task in tasks.items()}
    commits = last_of_tasks(connection, job.application_id, topics, ends, lambda record: record.value())
    refuse_state_of(job.specs, commits)
