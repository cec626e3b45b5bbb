"""What is done to the topics of a living application is found, and said in a typed error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from airflow_provider.errors import ConfigurationError, TopicError, TopicMismatchError
from airflow_provider.kafka.application_topics import source_spec
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import MAX_MESSAGE_BYTES, TopicSpec, changelog_spec, control_specs
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.driver.watches.topic_verification import TopicWatch, verify_topics
from airflow_provider.streaming.planner.compile import compile_job
from airflow_provider.testing.source_rows import types_of_source
from tests.waiting import wait_until

INTERVAL_S = 0.2


def set_policy(admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def add_partitions(admin: AdminClient, topic: str) -> None:
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(30)


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(30)


@pytest.fixture
def specs(application_id: str) -> list[TopicSpec]:
    source = source_spec(f"{application_id}-source", 2)
    sink = TopicSpec(name=f"{application_id}-sink", partitions=None, required=frozenset())
    return [source, changelog_spec(application_id, "state", 2), sink]


@pytest.fixture
def topics(bootstrap_servers: str, specs: list[TopicSpec]) -> TopicAdmin:
    admin = TopicAdmin(KafkaConnection(bootstrap_servers))
    admin.ensure(specs)
    return admin


@pytest.fixture
def watch(topics: TopicAdmin, specs: list[TopicSpec]) -> Iterator[TopicWatch]:
    watch = TopicWatch(topics, specs, INTERVAL_S)
    watch.start()
    yield watch
    watch.stop()


def found(watch: TopicWatch) -> TopicError:
    def look() -> TopicError | None:
        try:
            watch.check()
        except TopicError as error:
            return error
        return None

    error = wait_until(look, 30, "the watch to find it")
    assert error is not None
    return error


@pytest.mark.parametrize(
    ("meddle", "which", "kind", "words"),
    [
        pytest.param(set_policy, 1, "TopicMismatchError", "cleanup.policy=delete, compact is needed", id="policy"),
        pytest.param(add_partitions, 0, "TopicMismatchError", "4 partitions, 2 are needed", id="source-partitions"),
        pytest.param(add_partitions, 0, "TopicMismatchError", "It is the job's source", id="source-is-named-as-such"),
        pytest.param(add_partitions, 1, "TopicMismatchError", "4 partitions, 2 are needed", id="changelog-partitions"),
        pytest.param(delete, 0, "TopicMissingError", "Create it again with 2 partitions", id="source-deleted"),
        pytest.param(delete, 1, "TopicMissingError", "does not exist", id="deleted"),
        pytest.param(delete, 2, "TopicMissingError", "does not exist", id="sink-deleted"),
    ],
)
def test_change_of_a_living_topic_is_found(
    meddle: Callable[[AdminClient, str], None],
    which: int,
    kind: str,
    words: str,
    watch: TopicWatch,
    specs: list[TopicSpec],
    bootstrap_servers: str,
) -> None:
    watch.check()

    meddle(AdminClient({"bootstrap.servers": bootstrap_servers}), specs[which].name)

    error = found(watch)
    assert type(error).__name__ == kind
    assert words in str(error)


def test_retention_of_deletions_that_is_lowered_under_an_instance_is_found(
    topics: TopicAdmin, specs: list[TopicSpec], application_id: str
) -> None:
    changelog = specs[1].name
    topics.ensure(control_specs(application_id))
    topics.alter_setting(changelog, "delete.retention.ms", "7200000")
    _, watch = verify_topics(job_of(application_id), topics, INTERVAL_S)
    watch.start()
    watch.check()

    topics.alter_setting(changelog, "delete.retention.ms", "3600000")

    error = found(watch)
    watch.stop()
    assert type(error).__name__ == "TopicMismatchError"
    assert "has delete.retention.ms=3600000, and had 7200000" in str(error)


def job_of(application_id: str) -> StatefulJob:
    return StatefulJob(
        application_id,
        stream(f"{application_id}-source")
        .group_by("key")
        .aggregate(F.count().alias("n"), name="state")
        .sink(f"{application_id}-sink"),
    )


def test_workers_get_what_the_brokers_say_of_the_topics(
    topics: TopicAdmin, specs: list[TopicSpec], application_id: str
) -> None:
    source, changelog, sink = (spec.name for spec in specs)
    topics.ensure(control_specs(application_id))
    topics.alter_setting(changelog, "delete.retention.ms", "7000")
    topics.alter_setting(sink, "max.message.bytes", "50000")

    facts, _ = verify_topics(job_of(application_id), topics, INTERVAL_S)
    (stage,) = compile_job(job_of(application_id), facts, types_of_source).stages
    job = stage.spec

    assert (stage.num_tasks, job.store.delete_retention_ms) == (2, 7000)
    assert (job.record_limit(sink), job.record_limit(changelog)) == (50_000, MAX_MESSAGE_BYTES)
    ids = topics.ids([source, changelog])
    assert len(set(ids.values())) == 2
    assert {name: job.topic_ids[name] for name in ids} == ids


@pytest.mark.parametrize("written", ["sink", "dead-letters"])
def test_topic_that_a_job_writes_is_missed_by_its_instance_when_it_is_deleted(
    written: str, topics: TopicAdmin, application_id: str, bootstrap_servers: str
) -> None:
    letters = TopicSpec(name=f"{application_id}-dead-letters", partitions=None, required=frozenset())
    topics.ensure([letters, *control_specs(application_id)])
    job = job_of(application_id).on_error("dead_letter", topic=letters.name)
    _, watch = verify_topics(job, topics, INTERVAL_S)
    watch.start()
    watch.check()

    delete(AdminClient({"bootstrap.servers": bootstrap_servers}), f"{application_id}-{written}")

    error = found(watch)
    watch.stop()
    assert type(error).__name__ == "TopicMissingError"
    assert f"{application_id}-{written}" in str(error)


def test_recreated_topic_is_not_taken_for_the_one_before(
    topics: TopicAdmin, specs: list[TopicSpec], bootstrap_servers: str
) -> None:
    watch = TopicWatch(topics, specs, INTERVAL_S)
    delete(AdminClient({"bootstrap.servers": bootstrap_servers}), specs[1].name)
    wait_until(lambda: topics.describe(specs[1].name) is None, 30, "the changelog to be gone")
    topics.ensure(specs)

    watch.start()
    error = found(watch)
    watch.stop()

    assert "was deleted and created again" in str(error)


def test_topic_whose_name_collides_is_not_taken_for_an_absent_broker(topics: TopicAdmin, application_id: str) -> None:
    topics.ensure([TopicSpec(name=f"{application_id}.v2", partitions=1, required=frozenset())])

    with pytest.raises(TopicMismatchError, match=r"because of the topic's name .* collide"):
        topics.ensure([TopicSpec(name=f"{application_id}_v2", partitions=1, required=frozenset())])


def test_setting_that_the_brokers_refuse_is_not_taken_for_an_absent_broker(
    topics: TopicAdmin, application_id: str
) -> None:
    wrong = TopicSpec(name=f"{application_id}-wrong", partitions=1, config={"retention.ms": "soon"})

    with pytest.raises(ConfigurationError, match="refused by the brokers"):
        topics.ensure([wrong])
