"""One real broker for all integration tests; each test uses topics of its own on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider.embedded.broker import EmbeddedBroker
from airflow_provider.embedded.settings import BrokerSettings


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that no test stops or kills: a test of faults starts its own."""
    settings = BrokerSettings.on_free_ports(tmp_path_factory.mktemp("kafka"), die_with_parent=True)
    with EmbeddedBroker(settings) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def application_id() -> str:
    """An id that no other test has, so that the topics that carry it as their prefix are this test's alone."""
    return f"test-{uuid.uuid4().hex[:12]}"
