"""What is not as it has to be ends an instance with its typed error, before anything is processed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from airflow_provider.control.records.status import InstanceState
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kit.ports import free_ports
from airflow_provider.launch.launcher import Launched
from tests.integration.streaming.committed import records_of
from tests.integration.streaming.refusing_case import RefusingCase
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]


@pytest.fixture
def case(bootstrap_servers: str, application_id: str, tmp_path: Path) -> RefusingCase:
    return RefusingCase.create(bootstrap_servers, application_id, tmp_path)


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        pytest.param(
            lambda case: case.topics(cleanup_policy="delete"),
            "TopicMismatchError",
            ["cleanup.policy=delete", "compact is needed"],
            id="changelog-is-not-compacted",
        ),
        pytest.param(
            lambda case: case.topics("state-changelog"),
            "TopicMissingError",
            ["-state-changelog' does not exist", "CreateChangelogTopicsOperator"],
            id="changelog-is-missing",
        ),
        pytest.param(
            lambda case: case.topics(source_partitions=3),
            "TopicMismatchError",
            ["Partitions were added to the source topic", "it has 3, and had 2", "leave it alone"],
            id="source-has-more-partitions",
        ),
        pytest.param(
            lambda case: case.topics("source"),
            "TopicMissingError",
            ["-source' does not exist", "create it with 2 partitions", "committed positions mean nothing"],
            id="source-is-missing",
        ),
        pytest.param(
            lambda case: case.topics("sink"), "TopicMissingError", ["-sink' does not exist"], id="sink-is-missing"
        ),
    ],
)
def test_instance_ends_with_its_typed_error_and_processes_nothing(
    found: Callable[[RefusingCase], None], kind: str, words: Sequence[str], case: RefusingCase
) -> None:
    found(case)
    servers = case.connection.bootstrap_servers
    if "-source'" not in words[0]:
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(f"{case.application_id}-source", b"value", b"key")
        assert producer.flush(30) == 0

    launched = case.launch()
    ended = case.ended(launched)

    assert ended.state is InstanceState.ENDED
    assert str(ended.error).startswith(f"{kind}: ")
    for word in words:
        assert word in str(ended.error)
    for name in ("sink", "state-changelog"):
        if TopicAdmin(case.connection).describe(f"{case.application_id}-{name}") is not None:
            assert records_of(servers, f"{case.application_id}-{name}") == []
    assert kind in Path(launched.log_file).read_text()


@pytest.fixture
def unreachable(case: RefusingCase) -> Iterator[Launched]:
    launched = case.launch(KafkaConnection(f"127.0.0.1:{free_ports(1)[0]}"))
    yield launched
    with contextlib.suppress(psutil.NoSuchProcess):
        launcher = psutil.Process(launched.launcher_pid)
        for process in [*launcher.children(recursive=True), launcher]:
            process.kill()


def test_unreachable_broker_is_reported_in_the_log(unreachable: Launched) -> None:
    def text() -> str:
        return Path(unreachable.log_file).read_text()

    wait_until(lambda: "BrokerUnreachableError: " in text(), 60, "the error in the log")

    assert "check the address, the security protocol, and that they answer" in text()
