"""Which changelog has the state of an application that ran, where its control topics do not say which store it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.commit import Commit, CommitTopics
from airflow_provider.control.topics.commit_reader import read_commits
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.application_topics import other_owners
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin

_TAIL: Final = 1000
"""Offsets: a commit is the last record of its transaction, so each partition's newest one is near its end."""


def find_current_changelog(
    cluster: KafkaConnection, admin: TopicAdmin, view: ControlView, stores: Collection[str]
) -> str | None:
    """The changelog of another store, into which the newest owners of the tasks committed; None where none is found.

    A process has one store. So where this is found, nothing of the newest state is in a changelog that is missing.

    Args:
        cluster: where it is.
        stores: those of which it is not looked for.

    Raises:
        BrokerUnreachableError: no broker answered.
    """
    assignment = view.assignment
    if assignment is None:
        return None
    for store in other_stores(view.application_id, admin.names()):
        topic = changelog_topic(view.application_id, store)
        if store in stores or admin.partitions(topic) != len(assignment.tasks):
            continue
        ends = admin.latest_offsets(topic, [task.partition for task in assignment.tasks])
        since = {task: max(0, ends[task.partition] - _TAIL) for task in assignment.tasks}
        commits = read_commits(cluster, view.application_id, CommitTopics({0: topic}), since)
        newest = {task: found[-1] for task, found in commits.items() if found}
        if committed_by_the_newest(assignment, view.statuses, newest):
            return topic
    return None


def other_stores(application_id: str, topics: Collection[str]) -> list[str]:
    """The stores that have a changelog which no other application may call its own, sorted."""
    before, after = f"{application_id}-", "-changelog"
    stores = sorted(
        name[len(before) : -len(after)]
        for name in topics
        if name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
    )
    return [
        store
        for store in stores
        if not any(assignment_topic(other) in topics for other in other_owners(application_id, store))
    ]


def committed_by_the_newest(
    assignment: Assignment, statuses: Mapping[str, InstanceStatus], newest: Mapping[TaskId, Commit]
) -> bool:
    """Whether every commit is one of the process that owns the task, or owned it last. Without any commit: no.

    Args:
        assignment: the newest.
        statuses: the newest of each instance.
        newest: the newest commit of each task in a changelog; a task that never committed is missing.
    """

    def own(task: TaskId, commit: Commit) -> bool:
        status = statuses.get(assignment.tasks[task].active or "")
        return status is not None and (commit.instance, commit.incarnation) == (status.instance, status.incarnation)

    return bool(newest) and all(own(task, commit) for task, commit in newest.items())
