"""What an instance finds out about its job's topics before it processes anything."""

from __future__ import annotations

import time
from typing import Final

from airflow_provider.errors import TopicMissingError
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.source_topic import check_partitions, missing_source, source_spec
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, changelog_spec, control_specs
from airflow_provider.streaming.driver.topic_watch import TopicWatch
from airflow_provider.streaming.job import StatefulJob
from airflow_provider.streaming.planner.topic_facts import TopicFacts

__all__ = ["verify_topics"]

_AGAIN_S: Final = 2.0


def verify_topics(job: StatefulJob, admin: TopicAdmin, interval_s: float) -> tuple[TopicFacts, TopicWatch]:
    """Refuse to start rather than run lossy.

    Args:
        job: complete.
        admin: of the cluster.
        interval_s: how often the watch is to look again, in seconds.

    Returns:
        What the job's plan depends on, and a watch over the topics, not yet started.

    Raises:
        TopicError: a topic is missing, or is not as the job needs it.
        BrokerUnreachableError: no broker answered.
    """
    try:
        return _verified(job, admin, interval_s)
    except TopicMissingError:
        # A broker that has just started may not know every topic yet: only what is found twice is true.
        time.sleep(_AGAIN_S)
        return _verified(job, admin, interval_s)


def _verified(job: StatefulJob, admin: TopicAdmin, interval_s: float) -> tuple[TopicFacts, TopicWatch]:
    source_topic = str(job.source_topic)
    kept = admin.describe(changelog_topic(job.application_id, job.store))
    partitions = admin.partitions(source_topic, missing_source(None if kept is None else kept.partitions))
    check_partitions(source_topic, partitions, {} if kept is None else {kept.name: kept.partitions})
    changelog = changelog_spec(job.application_id, job.store, partitions, windowed=job.forgets)
    source = source_spec(source_topic, partitions)
    written = [
        TopicSpec(name=name, partitions=None, required=frozenset())
        for name in (job.sink_topic, job.error_policy.topic)
        if name
    ]
    specs = [source, changelog, *written, *control_specs(job.application_id)]
    watch = TopicWatch(admin, specs, interval_s, changelogs=[changelog.name])
    facts = TopicFacts(
        source_partitions=partitions,
        delete_retention_ms=watch.found[changelog.name].delete_retention_ms,
        topic_ids=watch.ids,
        max_message_bytes={spec.name: watch.found[spec.name].max_message_bytes for spec in (changelog, *written)},
    )
    return facts, watch
