"""The metrics of an application on a real broker."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider.cli.main import main
from airflow_provider.common.clock import now_ms
from airflow_provider.control.outlook.metrics_topic import MetricsWriter, read_metrics
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.errors import BrokerUnreachableError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import metrics_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import metrics_spec
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.streaming.driver.watches.last_heartbeat import MetricsReport
from tests.builders import active, instance, standby
from tests.unit.control.records.test_metrics import RECORD
from tests.waiting import wait_until

STATUS = instance("a", active(0, processed_records=5), standby(1))


@pytest.fixture
def connection(bootstrap_servers: str, application_id: str) -> KafkaConnection:
    found = KafkaConnection(bootstrap_servers)
    TopicAdmin(found).ensure([metrics_spec(application_id)])
    return found


def write(connection: KafkaConnection, application_id: str, *records: MetricsRecord) -> None:
    writer = MetricsWriter(connection, application_id)
    for record in records:
        writer.send(record)
    writer.close(10.0)


def report(connection: KafkaConnection, application_id: str, folder: Path) -> MetricsReport:
    """What a driver has, with a record every fifth of a second."""
    settings = InstanceSettings(
        application_id=application_id,
        instance="a",
        incarnation=1,
        state_dir=str(folder),
        run_dir=str(folder),
        connection=connection,
        metrics_interval_s=0.2,
    )
    return MetricsReport(settings, lambda: STATUS, lambda _: None, lambda: MetricsWriter(connection, application_id))


def test_every_record_is_kept_in_its_order_and_timed_by_the_broker(
    connection: KafkaConnection, application_id: str
) -> None:
    began = now_ms()
    write(connection, application_id, *(dataclasses.replace(RECORD, incarnation=number) for number in range(5)))

    found = read_metrics(connection, application_id)

    assert [record.incarnation for record in found] == list(range(5))
    assert dataclasses.replace(found[0], at_ms=RECORD.at_ms) == dataclasses.replace(RECORD, incarnation=0)
    assert all(abs(record.at_ms - began) < 60_000 for record in found), "not the clock of the instance"


def test_only_what_is_young_enough_is_read(connection: KafkaConnection, application_id: str) -> None:
    write(connection, application_id, RECORD)
    (first,) = read_metrics(connection, application_id)
    wait_until(lambda: now_ms() > first.at_ms, 10, "the next millisecond")
    write(connection, application_id, dataclasses.replace(RECORD, instance="b"))

    assert [record.instance for record in read_metrics(connection, application_id, since=first.at_ms + 1)] == ["b"]
    assert read_metrics(connection, application_id, since=now_ms() + 3_600_000) == ()


def test_record_that_cannot_be_read_hides_no_other(
    connection: KafkaConnection, application_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(connection.to_client_config())
    producer.produce(metrics_topic(application_id), b"{no json", b"a", partition=0)
    assert producer.flush(10.0) == 0
    write(connection, application_id, RECORD)

    assert len(read_metrics(connection, application_id)) == 1
    assert "cannot be read" in caplog.text


def test_topic_is_what_its_verification_asks_for(connection: KafkaConnection, application_id: str) -> None:
    admin, spec = TopicAdmin(connection), metrics_spec(application_id)

    assert admin.ensure([spec]) == ()
    found = admin.describe(spec.name)
    assert found is not None
    assert {name: found.config[name] for name in spec.config} == spec.config


def test_instance_writes_its_figures_again_and_again(
    connection: KafkaConnection, application_id: str, tmp_path: Path
) -> None:
    running = report(connection, application_id, tmp_path)
    running.start()

    wait_until(lambda: len(read_metrics(connection, application_id)) > 2, 20, "three records")
    running.stop()
    assert read_metrics(connection, application_id)[0].tasks[0].processed_records == 5


def test_instance_without_the_topic_goes_on_makes_none_and_finds_it_later(
    bootstrap_servers: str, application_id: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = KafkaConnection(bootstrap_servers)
    admin = TopicAdmin(connection)
    with caplog.at_level(logging.WARNING):
        running = report(connection, application_id, tmp_path)
        running.start()
        wait_until(lambda: "not kept: TopicMissingError" in caplog.text, 20, "a line in the log")
    assert admin.describe(metrics_topic(application_id)) is None

    admin.ensure([metrics_spec(application_id)])

    wait_until(lambda: read_metrics(connection, application_id), 20, "a record")
    running.stop()


def test_brokers_that_do_not_answer_are_not_waited_for() -> None:
    writer = MetricsWriter(KafkaConnection("127.0.0.1:1"), "app")
    began = time.monotonic()

    with pytest.raises(BrokerUnreachableError, match="check that the brokers answer"):
        writer.send(RECORD)
    writer.close()

    assert time.monotonic() - began < 20.0


def test_application_without_the_topic_is_told_what_to_do(bootstrap_servers: str, application_id: str) -> None:
    with pytest.raises(TopicMissingError, match="stateful-streams topics repair"):
        read_metrics(KafkaConnection(bootstrap_servers), application_id)


def test_command_prints_forecasts_as_lines_and_as_json(
    connection: KafkaConnection, bootstrap_servers: str, application_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(connection, application_id, RECORD)
    at = (application_id, "--bootstrap-servers", bootstrap_servers)

    assert main(["metrics", *at]) == 0
    assert "disk of a: 1,024.0 MiB free" in capsys.readouterr().out
    assert main(["metrics", *at, "--since", "1h", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], list(told["forecasts"]["disks"])) == (1, ["a"])
