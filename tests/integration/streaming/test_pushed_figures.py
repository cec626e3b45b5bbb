"""An instance on a real Spark tells its figures, and works on when who gets them refuses, or falls silent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import InstanceState
from airflow_provider.kit.ports import free_ports
from tests.integration.streaming.accounts import Accounts
from tests.otlp_receiver import OtlpReceiver, otlp_receiver

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

DEADLINE_S = 240.0
SECRET = "geheim"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def accounts(
    bootstrap_servers: str,
    application_id: str,
    tmp_path: Path,
    receiver: OtlpReceiver,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Accounts]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://me:{SECRET}@{receiver.address}")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "otlp,prometheus")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", str(port))
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    accounts = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=2, seed=1)
    yield accounts
    accounts.close()


def test_figures_arrive_and_a_receiver_that_falls_silent_stops_nothing(
    accounts: Accounts, receiver: OtlpReceiver, port: int
) -> None:
    accounts.launch("i1", "local[1]")
    accounts.wait(lambda: accounts.runs("i1"), "i1 to run", DEADLINE_S)
    accounts.assign("i1", "i1")

    def processed() -> int:
        return sum(task.processed_records for task in accounts.status("i1").tasks)

    def told(name: str) -> float:
        of_tasks = [value for (metric, _), value in receiver.values().items() if metric == name]
        return sum(of_tasks)

    accounts.orders.write(200, partitions=(0, 1))
    accounts.wait(lambda: processed() >= 200, "the orders to be processed", DEADLINE_S)
    total = processed()
    accounts.wait(lambda: told("stateful_streams.task.process.total") == total, "the receiver to be told", 30.0)
    assert told("stateful_streams.task.commit.total") == sum(t.work.commits for t in accounts.status("i1").tasks) > 0
    assert told("stateful_streams.instance.active.running.tasks") == 2.0
    work = [task.work for task in accounts.status("i1").tasks]
    assert all(one.process_s > 0 and one.commit_s > 0 for one in work), work

    receiver.status = 401
    refused = "the figures of now are not sent by OTLP"
    accounts.wait(lambda: refused in accounts.log("i1"), "the log to say that they are refused", 30.0)
    assert SECRET not in accounts.log("i1")

    receiver.silent = True
    asked = len(receiver.requests)
    accounts.wait(lambda: len(receiver.requests) > asked, "a request that is never answered", 30.0)
    accounts.orders.write(200, partitions=(0, 1))
    accounts.wait(lambda: processed() >= total + 200, "orders to be processed meanwhile", DEADLINE_S)
    with urlopen(f"http://localhost:{port}/metrics", timeout=30) as answer:
        read = list(text_string_to_metric_families(answer.read().decode()))
    scraped = [one for family in read for one in family.samples if one.name == "stateful_streams_task_process_total"]
    assert {one.labels["task"] for one in scraped} == {"0_0", "0_1"}
    assert sum(one.value for one in scraped) >= total

    accounts.command(CommandKind.STOP, "i1")
    accounts.wait(lambda: accounts.status("i1").state is InstanceState.STOPPED, "a clean shutdown", 60.0)
    accounts.wait(lambda: not accounts.launcher_lives("i1"), "its launcher to end", 30.0)
    assert len(receiver.requests) == asked + 1
    assert not accounts.processes("i1")
