"""One real broker for all integration tests of a process; each test uses topics of its own on it. One more has ACLs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider.kit.broker import EmbeddedBroker
from tests.brokers import settings_of_broker
from tests.integration.guarded_broker import GuardedBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker that no test stops or kills: a test of faults starts its own."""
    with EmbeddedBroker(settings_of_broker(tmp_path_factory.mktemp("kafka"))) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    """A broker with ACLs."""
    with GuardedBroker.running(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def application_id() -> str:
    """An id that no other test has, so that the topics that carry it as their prefix are this test's alone."""
    return f"test-{uuid.uuid4().hex[:12]}"
