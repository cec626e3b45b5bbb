""" """

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pytest

from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicError, TopicMismatchError
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicDescription, TopicSpec
from airflow_provider.streaming.driver.watches.topic_verification import TopicWatch
from tests.waiting import wait_until


class FakeAdmin:
    """Topics with one configuration; looks after the first meet these errors, and then the last of them for ever."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.config: dict[str, str] = {}
        self.looks = 0

    def verify(self, specs: Sequence[TopicSpec]) -> Mapping[str, TopicDescription]:
        self.looks += 1
        if self.errors:
            raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        return {
            spec.name: TopicDescription(name=spec.name, partitions=1, replication_factor=1, config=dict(self.config))
            for spec in specs
        }

    def ids(self, names: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(names, "id")


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
def watch(admin: FakeAdmin) -> Iterator[TopicWatch]:
    specs = [TopicSpec(name="x", partitions=1), TopicSpec(name="changelog", partitions=1)]
    watch = TopicWatch(cast(TopicAdmin, admin), specs, 0.01, changelogs=["changelog"])
    yield watch
    watch.stop()


def found(watch: TopicWatch) -> str:
    def look() -> str | None:
        try:
            watch.check()
        except (TopicError, ConfigurationError) as error:
            return str(error)
        return None

    return wait_until(look, 10, "the watch to find it") or ""


@pytest.mark.parametrize(
    "passing",
    [
        pytest.param(ConfigurationError("not authorized"), id="rights-that-are-loaded-again"),
        pytest.param(BrokerUnreachableError("no broker"), id="brokers"),
        pytest.param(TimeoutError(), id="no-answer-to-one-request"),
        pytest.param(RuntimeError("what nobody foresaw"), id="unforeseen"),
    ],
)
def test_watch_outlives_what_passes_and_finds_what_comes_after(
    passing: Exception, admin: FakeAdmin, watch: TopicWatch
) -> None:
    admin.errors = [passing, TopicMismatchError("cleanup.policy is delete")]

    watch.start()

    assert found(watch) == "cleanup.policy is delete"


def test_deletions_that_are_kept_for_a_shorter_time_are_found(admin: FakeAdmin, watch: TopicWatch) -> None:
    watch.start()
    admin.config = {"delete.retention.ms": "172800000"}
    looks = admin.looks
    wait_until(lambda: admin.looks > looks + 2, 10, "some looks at a longer time")
    watch.check()

    admin.config = {"delete.retention.ms": "60000"}

    message = found(watch)
    assert "'changelog' has delete.retention.ms=60000, and had 86400000 when this instance started" in message
    assert "Deploy the instance again" in message
