"""What an instance finds out about its job's topics before it processes anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from airflow_provider.errors import TopicMissingError
from airflow_provider.kafka.source_topic import check_partitions, missing_source, source_spec
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, control_specs
from airflow_provider.streaming.driver.topic_watch import TopicWatch
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.planner.stage_topics import (
    changelog_of,
    internal_specs,
    partitions_read,
    source_topics,
)
from airflow_provider.streaming.planner.topic_facts import TopicFacts

__all__ = ["verify_topics"]

_AGAIN_S: Final = 2.0


def verify_topics(
    job: StatefulJob, admin: TopicAdmin, interval_s: float, plans: Sequence[StagePlan] | None = None
) -> tuple[TopicFacts, TopicWatch]:
    """Refuse to start rather than run lossy.

    Args:
        job: complete.
        admin: of the cluster.
        interval_s: how often the watch is to look again, in seconds.
        plans: its stages, where they are known already.

    Returns:
        What the job's plan depends on, and a watch over the topics, not yet started.

    Raises:
        TopicError: a topic is missing, or is not as the job needs it.
        BrokerUnreachableError: no broker answered.
    """
    plans = job.checked().stages if plans is None else plans
    try:
        return _verified(job, plans, admin, interval_s)
    except TopicMissingError:
        # A broker that has just started may not know every topic yet: only what is found twice is true.
        time.sleep(_AGAIN_S)
        return _verified(job, plans, admin, interval_s)


def _verified(
    job: StatefulJob, plans: Sequence[StagePlan], admin: TopicAdmin, interval_s: float
) -> tuple[TopicFacts, TopicWatch]:
    application_id = job.application_id
    of_sources = {topic: _partitions(application_id, plans, admin, topic) for topic in source_topics(plans)}
    partitions = partitions_read(plans, of_sources)
    sources = [source_spec(topic, number) for topic, number in of_sources.items()]
    internal = internal_specs(application_id, plans, of_sources)
    known = {spec.name for spec in internal}
    outputs = dict.fromkeys([*(topic for plan in plans for topic in plan.outputs), job.error_policy.topic])
    written = [
        TopicSpec(name=name, partitions=None, required=frozenset()) for name in outputs if name and name not in known
    ]
    changelogs = [changelog_of(application_id, plan) for plan in plans]
    specs = [*sources, *internal, *written, *control_specs(application_id)]
    watch = TopicWatch(admin, specs, interval_s, changelogs=changelogs)
    facts = TopicFacts(
        partitions=partitions,
        delete_retention_ms={name: watch.found[name].delete_retention_ms for name in changelogs},
        topic_ids=watch.ids,
        max_message_bytes={spec.name: watch.found[spec.name].max_message_bytes for spec in (*internal, *written)},
    )
    return facts, watch


def _partitions(application_id: str, plans: Sequence[StagePlan], admin: TopicAdmin, topic: str) -> int:
    """Of a source, which has to have as many as the changelogs of the stages that read it."""
    changelogs = [changelog_of(application_id, plan) for plan in plans if plan.source_topic == topic]
    kept = {name: found.partitions for name in changelogs if (found := admin.describe(name)) is not None}
    partitions = admin.partitions(topic, missing_source(next(iter(kept.values()), None)))
    check_partitions(topic, partitions, kept)
    return partitions
