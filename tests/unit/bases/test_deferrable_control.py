from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider.bases import deferrable_control
from airflow_provider.bases.deferrable_control import deadline_ms, missing_triggerer
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.sensors.figures import StandbyLagSensor


class FakeStore:
    """A task's state over its tries."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(ms=1_000_000)
    monkeypatch.setattr(deferrable_control, "now_ms", lambda: clock.ms)
    return clock


def tried(store: FakeStore, max_tries: int = 2) -> Any:
    return {"task_state_store": store, "ti": SimpleNamespace(max_tries=max_tries)}


def test_every_try_ends_when_the_first_would_have(clock: SimpleNamespace) -> None:
    store = FakeStore()
    first = deadline_ms(tried(store), 60.0, retries=2)
    clock.ms += 50_000

    assert first == 1_060_000
    assert deadline_ms(tried(store), 60.0, retries=2) == first


def test_try_after_the_deadline_looks_once_more(clock: SimpleNamespace) -> None:
    store = FakeStore()
    deadline_ms(tried(store), 60.0, retries=2)
    clock.ms += 3_600_000

    assert deadline_ms(tried(store), 60.0, retries=2) == clock.ms + 5_000


def test_cleared_task_begins_anew(clock: SimpleNamespace) -> None:
    store = FakeStore()
    deadline_ms(tried(store), 60.0, retries=2)
    clock.ms += 3_600_000

    assert deadline_ms(tried(store, max_tries=5), 60.0, retries=2) == clock.ms + 60_000


def test_next_step_has_its_own_time(clock: SimpleNamespace) -> None:
    store = FakeStore()
    deadline_ms(tried(store), 60.0, retries=2, step="generation 1")
    clock.ms += 50_000

    assert deadline_ms(tried(store), 60.0, retries=2, step="generation 2") == clock.ms + 60_000


def test_without_a_store_it_counts_from_now(clock: SimpleNamespace) -> None:
    assert deadline_ms({}, 60.0, retries=2) == deadline_ms(None, 60.0, retries=2) == 1_060_000


SEEN = "2026-01-02T03:04:05+00:00"


class Health(BaseHTTPRequestHandler):
    """An API server's page of health."""

    triggerer: Any = None

    def do_GET(self) -> None:
        found = self.path == "/air/api/v2/monitor/health"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"triggerer": self.triggerer}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Not on the console."""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Health]]:
    class Asked(Health):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/air/execution/"
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield Asked
        server.shutdown()


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        pytest.param({"status": "unhealthy", "latest_triggerer_heartbeat": SEEN}, SEEN, id="ended"),
        pytest.param({"status": None, "latest_triggerer_heartbeat": None}, "never", id="never-ran"),
    ],
)
def test_task_that_is_deferred_without_a_triggerer_says_so_in_one_line(
    answered: Any, said: str, api: type[Health], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.triggerer = answered
    sensor = StandbyLagSensor(task_id="t", application_id="app")
    lines: list[str] = []
    sensor.log.warning = lambda text, *more: lines.append(text % more)  # type: ignore[method-assign]
    monkeypatch.setattr(KafkaStreamsHook, "connection", KafkaConnection("127.0.0.1:1"))

    with pytest.raises(TaskDeferred):
        sensor.execute({})

    (line,) = [line for line in lines if "triggerer" in line]
    assert f"No triggerer runs (last heartbeat: {said})" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    "answered",
    [
        pytest.param({"status": "healthy", "latest_triggerer_heartbeat": SEEN}, id="healthy"),
        pytest.param({}, id="no-status"),
        pytest.param(None, id="nothing"),
    ],
)
def test_nothing_is_said_where_one_runs_or_where_it_is_not_known(answered: Any, api: type[Health]) -> None:
    api.triggerer = answered

    assert missing_triggerer() is None


def test_nothing_is_said_where_no_api_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferrable_control, "_TIMEOUT_S", 0.2)
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:9/execution/")

    assert missing_triggerer() is None
