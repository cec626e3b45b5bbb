"""An admin client whose brokers accept connections and never answer."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.ids(["orders"]),
        lambda admin: admin.describe("orders"),
        lambda admin: admin.latest_offsets("orders", [0]),
        lambda admin: admin.delete(["orders"]),
        lambda admin: admin.delete_records("orders", {0: 1}),
        lambda admin: admin.alter_setting("orders", "retention.ms", "1"),
        lambda admin: admin.ensure([TopicSpec(name="orders", partitions=1)]),
    ],
    ids=["ids", "describe", "latest_offsets", "delete", "delete_records", "alter_setting", "ensure"],
)
def test_request_that_is_not_answered_ends_with_the_error_for_it(ask: Callable[[TopicAdmin], object]) -> None:
    """The client's own deadline and that of the wait for it are the same: which comes first makes no difference."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        admin = TopicAdmin(KafkaConnection(f"127.0.0.1:{nobody.getsockname()[1]}"), timeout_s=0.3)
        with pytest.raises(BrokerUnreachableError, match="got no answer"):
            ask(admin)


def test_wait_for_an_answer_ends_where_the_client_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.kafka.topic_admin._LATE_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        admin = TopicAdmin(KafkaConnection(f"127.0.0.1:{nobody.getsockname()[1]}"), timeout_s=0.01)
        with pytest.raises(BrokerUnreachableError, match="got no answer"):
            admin.ids(["orders"])
