"""Verifies and repairs the topics of an application, by what its control topics say of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import described_findings, topic_specs
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.job_description import JobDescription, TopicKind
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.control.topics.commits import Commit, CommitTopics, read_commits
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.application_topics import other_owners
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, changelog_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics, topic_advice, topic_findings
from airflow_provider.kafka.topic_spec import TopicSpec


def find_topic_problems(cluster: KafkaConnection, admin: TopicAdmin, wanted: WantedTopics) -> tuple[TopicFinding, ...]:
    """What is wrong with an application's topics, in the order in which it can be repaired."""
    found = {name: admin.describe(name) for name in wanted.names}
    if all(found[topic(wanted.application_id)] is not None for topic in (assignment_topic, status_topic)):
        with ControlReader(cluster, wanted.application_id) as reader:
            view = reader.read_to_end()
        wanted = wanted.known(len(view.assignment.tasks) if view.assignment else None, bool(view.statuses))
        if wanted.ran and any(found[wanted.changelog(store, None).name] is None for store in wanted.stores):
            wanted = replace(wanted, state_in=find_current_changelog(cluster, admin, view, wanted.stores))
    return topic_findings(wanted, found)


def find_described_problems(
    admin: TopicAdmin,
    view: ControlView | None,
    job: JobDescription,
    replication_factor: int | None = None,
    empty: Collection[str] = (),
) -> tuple[TopicFinding, ...]:
    """What is wrong with the topics of a described job, in the order in which it can be repaired.

    Args:
        view: what the control topics hold; None where there are none.
        job: as it was described there, or as another version of the job file says it; with all partitions known.
    """
    names = [*job.names(TopicKind.SOURCE), *(spec.name for spec in topic_specs(job, replication_factor))]
    found = {name: admin.describe(name) for name in names}
    ran = view is not None and view.ran
    before = None if view is None else view.job
    return described_findings(job, found, ran=ran, replication_factor=replication_factor, before=before, empty=empty)


def find_topic_advice(
    admin: TopicAdmin, specs: Iterable[TopicSpec], max_absence_s: float | None = None
) -> tuple[TopicFinding, ...]:
    """What makes an application's topics slow or fragile although they are correct.

    Args:
        max_absence_s: for how long an instance may be away and still go on from its stores; None sets no limit.
    """
    described = [(spec, admin.describe(spec.name)) for spec in specs]
    there = [(spec, found) for spec, found in described if found is not None]
    return topic_advice(there, admin.brokers(), max_absence_s)


def repair_topic(admin: TopicAdmin, finding: TopicFinding) -> str:
    """Do what `TopicFinding.repair` says, and say it; what is to be kept, its caller keeps."""
    if finding.create is not None:
        admin.ensure([finding.create])
    elif finding.setting is not None:
        admin.alter_setting(finding.topic, *finding.setting)
    return str(finding.repair)


_TAIL: Final = 1000
"""Offsets: a commit is the last record of its transaction, so each partition's newest one is near its end."""


def find_current_changelog(
    cluster: KafkaConnection, admin: TopicAdmin, view: ControlView, stores: Collection[str]
) -> str | None:
    """The changelog of another store, into which the newest owners of the tasks committed; None where none is found.

    A process has one store. So where this is found, nothing of the newest state is in a changelog that is missing.
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
        newest: the newest commit of each task in a changelog; a task that never committed is missing.
    """

    def own(task: TaskId, commit: Commit) -> bool:
        status = statuses.get(assignment.tasks[task].active or "")
        return status is not None and (commit.instance, commit.incarnation) == (status.instance, status.incarnation)

    return bool(newest) and all(own(task, commit) for task, commit in newest.items())
