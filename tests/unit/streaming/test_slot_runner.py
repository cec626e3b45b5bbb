from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import InstanceError
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
def runner(let: threading.Event, tmp_path: Path) -> SlotRunner:
    context = SimpleNamespace(master="local[1]", environment={})
    spark: Any = SimpleNamespace(sparkContext=context, range=lambda _: Rows(let))
    run_dir = str(tmp_path)
    settings = InstanceSettings("app", "i1", 1, run_dir, run_dir, KafkaConnection("nowhere:1"), call_timeout_s=0.05)
    job: Any = SimpleNamespace(application_id="app")
    return SlotRunner(spark, job, job, settings, 0, 0.01, lambda *_: None)


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


def test_idle_worker_is_ended_by_whole_seconds() -> None:
    assert idle_settings(0.2)["spark.python.worker.idleTimeoutSeconds"] == "1"
    assert idle_settings(600.0) == {
        "spark.python.worker.idleTimeoutSeconds": "600",
        "spark.python.worker.killOnIdleTimeout": "true",
    }
