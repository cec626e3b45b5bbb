"""Offsets are asked for once by clients that knew another leader, as while brokers restart one by one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from airflow_provider.changelog.reader import ChangelogEnds, ChangelogReader
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.span_reader import SpanReader
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import assignment_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from tests.brokers import settings_of_broker

pytestmark = pytest.mark.long


def test_leader_that_has_just_changed_is_no_error(tmp_path: Path) -> None:
    topic = assignment_topic("app")
    with EmbeddedBroker(settings_of_broker(tmp_path / "kafka")) as broker:
        connection = KafkaConnection(broker.bootstrap_servers)
        admin = TopicAdmin(connection)
        admin.ensure([TopicSpec(name=topic, partitions=1)])
        with (
            closing(ChangelogReader(connection, "app")) as changelogs,
            ControlReader(connection, "app", statuses=False) as control,
            SpanReader(connection, "app", topic, timeout_s=60.0) as span,
        ):

            def ask() -> None:
                assert admin.earliest_offsets(topic, [0]) == admin.latest_offsets(topic, [0]) == {0: 0}
                assert changelogs.ends((topic, 0)) == ChangelogEnds(0, 0, 0)
                assert span.bounds(0) == span.bounds(0, since_ms=0) == (0, 0)
                assert control.read_to_end().assignment is None

            ask()
            broker.kill()
            broker.start()

            # The epoch of the leader that was killed is refused (FENCED_LEADER_EPOCH).
            ask()


def test_topic_that_was_just_made_may_have_no_leader_yet(bootstrap_servers: str, application_id: str) -> None:
    admin = TopicAdmin(KafkaConnection(bootstrap_servers))
    for number in range(20):
        name = f"{application_id}-{number}"
        admin.ensure([TopicSpec(name=name, partitions=20)])

        assert admin.latest_offsets(name, range(20)) == dict.fromkeys(range(20), 0)
