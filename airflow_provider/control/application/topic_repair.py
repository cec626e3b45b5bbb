"""Verifies and repairs the topics of an application, by what its control topics say of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from airflow_provider.control.application.current_changelog import find_current_changelog
from airflow_provider.control.application.described_topics import described_findings, topic_specs
from airflow_provider.control.records.job_description import JobDescription, TopicKind
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics, topic_advice, topic_findings
from airflow_provider.kafka.topic_spec import TopicSpec


def find_topic_problems(cluster: KafkaConnection, admin: TopicAdmin, wanted: WantedTopics) -> tuple[TopicFinding, ...]:
    """What is wrong with an application's topics, in the order in which it can be repaired.

    Args:
        cluster: where they are.
        wanted: what is known of the application without its control topics.

    Raises:
        BrokerUnreachableError: no broker answered.
    """
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
        replication_factor: at least so many replicas; None accepts any.
        empty: as of `described_findings`.

    Raises:
        BrokerUnreachableError: no broker answered.
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
        specs: of those that this package creates.
        max_absence_s: for how long an instance may be away and still go on from its stores; None sets no limit.

    Raises:
        BrokerUnreachableError: no broker answered.
    """
    described = [(spec, admin.describe(spec.name)) for spec in specs]
    there = [(spec, found) for spec, found in described if found is not None]
    return topic_advice(there, admin.brokers(), max_absence_s)


def repair_topic(admin: TopicAdmin, finding: TopicFinding) -> str:
    """Do what `TopicFinding.repair` says; what is to be kept, its caller keeps.

    Args:
        finding: one that has a repair.

    Returns:
        What was done.
    """
    if finding.create is not None:
        admin.ensure([finding.create])
    elif finding.setting is not None:
        admin.alter_setting(finding.topic, *finding.setting)
    return str(finding.repair)
