"""An instance on a real Spark sends its figures to a real receiver, and works on when that falls silent."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import InstanceState
from tests.integration.streaming.accounts import Accounts
from tests.otlp_receiver import OtlpReceiver, otlp_receiver

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

DEADLINE_S = 240.0


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture
def accounts(
    bootstrap_servers: str,
    application_id: str,
    tmp_path: Path,
    receiver: OtlpReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Accounts]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    accounts = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=2, seed=1)
    yield accounts
    accounts.close()


def test_figures_arrive_and_a_receiver_that_falls_silent_stops_nothing(
    accounts: Accounts, receiver: OtlpReceiver
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

    receiver.silent = True
    asked = len(receiver.requests)
    accounts.wait(lambda: len(receiver.requests) > asked, "a request that is never answered", 30.0)
    accounts.orders.write(200, partitions=(0, 1))
    accounts.wait(lambda: processed() >= total + 200, "orders to be processed meanwhile", DEADLINE_S)

    accounts.command(CommandKind.STOP, "i1")
    accounts.wait(lambda: accounts.status("i1").state is InstanceState.STOPPED, "a clean shutdown", 60.0)
    accounts.wait(lambda: not accounts.launcher_lives("i1"), "its launcher to end", 30.0)
    assert len(receiver.requests) == asked + 1
    assert not accounts.processes("i1")
    assert signal.SIGKILL.name not in accounts.log("i1")
