"""Verifies and repairs the topics of an application, by what its control topics say of it."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.control.current_changelog import find_current_changelog
from airflow_provider.control.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_advice import topic_advice
from airflow_provider.kafka.topic_findings import TopicFinding, WantedTopics, topic_findings

__all__ = ["find_topic_advice", "find_topic_problems", "repair_topic"]


def find_topic_problems(cluster: KafkaConnection, admin: TopicAdmin, wanted: WantedTopics) -> tuple[TopicFinding, ...]:
    """What is wrong with an application's topics, in the order in which it can be repaired.

    Args:
        cluster: where they are.
        admin: of that cluster.
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


def find_topic_advice(
    admin: TopicAdmin, wanted: WantedTopics, max_absence_s: float | None = None
) -> tuple[TopicFinding, ...]:
    """What makes an application's topics slow or fragile although they are correct.

    Args:
        admin: of the cluster.
        wanted: which topics they are.
        max_absence_s: for how long an instance may be away and still go on from its stores; None sets no limit.

    Raises:
        BrokerUnreachableError: no broker answered.
    """
    described = [(spec, admin.describe(spec.name)) for spec in wanted.own()]
    there = [(spec, found) for spec, found in described if found is not None]
    return topic_advice(there, admin.brokers(), max_absence_s)


def repair_topic(admin: TopicAdmin, finding: TopicFinding) -> str:
    """Do what `TopicFinding.repair` says.

    Args:
        admin: of the cluster.
        finding: one that has a repair.

    Returns:
        What was done.
    """
    if finding.create is not None:
        admin.ensure([finding.create])
    elif finding.setting is not None:
        admin.alter_setting(finding.topic, *finding.setting)
    return str(finding.repair)
