from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.errors import BrokerFolderError, BrokerStartError, PortBusyError
from airflow_provider.kit.ports import LOOPBACK
from airflow_provider.kit.process import GroupLeader
from airflow_provider.kit.settings import BrokerSettings
from tests.brokers import settings_of_broker
from tests.integration.streaming.committed import records_of

pytestmark = pytest.mark.long


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of the test's own, not started."""
    settings = settings_of_broker(tmp_path / "kafka", session_timeout_ms=2_000)
    broker = EmbeddedBroker(settings)
    yield broker
    broker.kill()


def create_topic(bootstrap_servers: str, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(timeout=30)


def produce(bootstrap_servers: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, b"key")
    producer.commit_transaction(30)


def read(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    """The committed values of the topic, once every transaction in it has ended for its readers."""
    return [record.value for record in records_of(bootstrap_servers, topic)]


def test_serves_transactions(bootstrap_servers: str, application_id: str) -> None:
    create_topic(bootstrap_servers, application_id, partitions=3)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": application_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(application_id, b"kept", b"key", partition=0)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(application_id, b"aborted", b"key", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)

    assert read(bootstrap_servers, application_id) == [b"kept"]


def test_makes_no_topic_by_itself(bootstrap_servers: str, application_id: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    admin.list_topics(topic=application_id, timeout=30)

    assert application_id not in admin.list_topics(timeout=30).topics


def test_restart_keeps_data_and_ports(own: EmbeddedBroker) -> None:
    own.start()
    create_topic(own.bootstrap_servers, "kept")
    produce(own.bootstrap_servers, "kept", b"before")
    first_pid = own.pid

    own.restart()

    assert own.pid != first_pid
    produce(own.bootstrap_servers, "kept", b"after")
    assert read(own.bootstrap_servers, "kept") == [b"before", b"after"]


def test_killed_broker_starts_again_on_its_data(own: EmbeddedBroker) -> None:
    own.start()
    create_topic(own.bootstrap_servers, "kept")
    produce(own.bootstrap_servers, "kept", b"before")
    # Its marker is written: Kafka 4.3.1 alone on its data was seen to end a transaction after a kill without it.
    assert read(own.bootstrap_servers, "kept") == [b"before"]
    own.kill()
    assert not own.is_running

    own.start()

    assert read(own.bootstrap_servers, "kept") == [b"before"]


def test_stop_ends_the_whole_group_and_may_be_repeated(own: EmbeddedBroker) -> None:
    own.start()
    pid = own.pid
    assert pid is not None

    own.stop()
    own.stop()

    assert not own.is_running
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


def test_busy_port_is_named(own: EmbeddedBroker) -> None:
    with (
        socket.create_server((LOOPBACK, own.settings.port)),
        pytest.raises(PortBusyError, match=f"Port {own.settings.port} on {LOOPBACK} is taken"),
    ):
        own.start()
    assert not own.is_running


def test_living_broker_on_the_folder_is_refused(broker: EmbeddedBroker) -> None:
    second = EmbeddedBroker(BrokerSettings.on_free_ports(broker.settings.directory))

    with pytest.raises(BrokerFolderError, match=f"running broker \\(process {broker.pid}, port {broker.settings.port}"):
        second.start()


def test_note_of_a_dead_broker_is_no_hindrance(own: EmbeddedBroker) -> None:
    own.start()
    note = (own.folder.root / "broker.json").read_text(encoding="utf-8")
    own.stop()
    # Its pid belongs to another process by now: ours.
    (own.folder.root / "broker.json").write_text(note.replace(f'"pid": {own_pid(note)}', f'"pid": {os.getpid()}'))

    assert not own.is_running
    own.stop()
    own.start()

    assert own.is_running


def own_pid(note: str) -> str:
    return note.split('"pid": ')[1].split(",")[0]


def test_any_process_can_find_and_stop_it(own: EmbeddedBroker) -> None:
    own.start()
    pid = own.pid
    script = (
        "import sys, pathlib; from airflow_provider.kit.broker import EmbeddedBroker; "
        "found = EmbeddedBroker.find(pathlib.Path(sys.argv[1])); assert found; "
        "print(found.pid, found.bootstrap_servers); found.stop()"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(own.settings.directory)], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [str(pid), own.bootstrap_servers]
    assert not own.is_running
    assert EmbeddedBroker.find(own.settings.directory) is None


def test_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    settings = BrokerSettings.on_free_ports(tmp_path / "kafka", overrides=(("num.io.threads", "none"),))

    with pytest.raises(BrokerStartError, match=r"num\.io\.threads"):
        EmbeddedBroker(settings).start()


def test_foreground_broker_ends_with_sigterm_and_dies_with_its_launcher(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "airflow_provider.kit", "--dir", str(tmp_path / "kafka"), "--port", "0"]

    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        foreground = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert foreground.stdout is not None
        assert "Starting Kafka in" in foreground.stdout.readline()
        assert "Kafka serves 127.0.0.1:" in foreground.stdout.readline()
        found = EmbeddedBroker.find(tmp_path / "kafka")
        assert found is not None
        assert found.pid is not None
        leader = GroupLeader.of(found.pid)

        foreground.send_signal(number)
        foreground.communicate(timeout=30)

        assert foreground.returncode == status
        assert leader.has_ended(within_s=10), f"the broker outlived its launcher's {number.name}"
