"""What somebody does to the topics of a living application is found, and said in a typed error."""

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

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import TopicError
from airflow_provider.streaming.topic_watch import TopicWatch
from airflow_provider.topics import TopicAdmin, TopicSpec, changelog_spec
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
    source = TopicSpec(f"{application_id}-source", 2, required=frozenset())
    return [source, changelog_spec(application_id, "state", 2)]


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
        pytest.param(add_partitions, 1, "TopicMismatchError", "4 partitions, 2 are needed", id="changelog-partitions"),
        pytest.param(delete, 1, "TopicMissingError", "does not exist", id="deleted"),
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
