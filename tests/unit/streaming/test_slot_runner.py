from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.connection import KafkaConnection
from airflow_provider.control.status import Role, TaskState, TaskStatus
from airflow_provider.errors import InstanceError
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.aggregate import Aggregation
from airflow_provider.streaming.functions import count
from airflow_provider.streaming.plan import JobSpec, TaskPlan
from airflow_provider.streaming.settings import InstanceSettings
from airflow_provider.streaming.slot_runner import SlotRunner, idle_settings
from tests.waiting import wait_until


class Rows:
    """Any narrow step of a query; what it collects comes when it is let."""

    def __init__(self, let: threading.Event) -> None:
        self._let = let

    def __getattr__(self, _: str) -> Any:
        return lambda *_: self

    def collect(self) -> list[Any]:
        self._let.wait(30)
        return []


@pytest.fixture
def let() -> Iterator[threading.Event]:
    let = threading.Event()
    yield let
    let.set()


@pytest.fixture
def spark(let: threading.Event) -> Any:
    context = SimpleNamespace(master="local[1]", defaultParallelism=1, environment={})
    return SimpleNamespace(sparkContext=context, range=lambda _: Rows(let))


def make(spark: Any, run_dir: Path, on_report: Callable[[int, tuple[TaskStatus, ...]], None]) -> SlotRunner:
    settings = InstanceSettings(
        "app", "i1", 1, str(run_dir), str(run_dir), KafkaConnection("nowhere:1"), call_timeout_s=0.05
    )
    job: Any = None
    spec = JobSpec(
        "app", "in", None, "state", "key", Aggregation((count(),)), (), 1, RocksDBOptions(), 86_400_000, 60_000
    )
    return SlotRunner(spark, job, spec, settings, 0, 0.01, on_report)


@pytest.fixture
def runner(spark: Any, tmp_path: Path) -> SlotRunner:
    return make(spark, tmp_path, lambda *_: None)


def test_call_that_never_comes_back_is_told_and_does_not_hold_up_the_end(
    runner: SlotRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.streaming.slot_runner._STUCK_S", 0.05)
    runner.start()

    def told() -> InstanceError | None:
        try:
            runner.check()
        except InstanceError as error:
            return error
        return None

    error = wait_until(told, 10, "the call to be missed")
    assert "call_timeout_s (0.05 s)" in str(error)
    runner.stop()


def test_calls_that_come_back_are_no_trouble(runner: SlotRunner, let: threading.Event) -> None:
    let.set()
    runner.start()

    runner.check()
    runner.stop()


class DeadQuery:
    """Ends as soon as it begins."""

    error = "Cannot fetch offset 7: it is not in the log any more"
    active, active_for_s = False, 0.0

    def __init__(self, *_: Any) -> None:
        self.tasks = {0}

    def start(self) -> None:
        return None


def test_query_that_ends_again_and_again_is_told(
    spark: Any, let: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.streaming.slot_runner.SourceQuery", DeadQuery)
    monkeypatch.setattr("airflow_provider.streaming.slot_runner._RETRY_S", 0.01)
    running = TaskStatus(0, Role.ACTIVE, TaskState.RUNNING, 1, source_offset=7)
    monkeypatch.setattr("airflow_provider.streaming.slot_runner.decode_report", lambda _: (running,))
    monkeypatch.setattr(Rows, "collect", lambda _: [SimpleNamespace(report=b"")])
    told: list[TaskStatus] = []
    runner = make(spark, tmp_path, lambda _, statuses: told.extend(statuses))
    runner.obey([TaskPlan(0, Role.ACTIVE, 1)], paused=False)
    runner.start()

    wait_until(lambda: told and told[-1].error_kind == "StreamingQueryException", 10, "the query's end to be told")

    assert "Cannot fetch offset 7" in str(told[-1].error)
    assert told[-1].state is TaskState.RUNNING
    runner.stop()


def test_idle_worker_is_ended_by_whole_seconds() -> None:
    assert idle_settings(0.2)["spark.python.worker.idleTimeoutSeconds"] == "1"
    assert idle_settings(600.0) == {
        "spark.python.worker.idleTimeoutSeconds": "600",
        "spark.python.worker.killOnIdleTimeout": "true",
    }
