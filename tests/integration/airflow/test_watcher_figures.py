"""The watcher sends its application's figures, and each failover's trace, to real receivers by Airflow's settings."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.topic import write_history
from airflow_provider.control.records.status import InstanceStatus
from airflow_provider.errors import ConfigurationError
from airflow_provider.hooks import telemetry
from airflow_provider.hooks.telemetry import WatcherPushes, settings_in_airflow
from tests.builders import active, assigned, standby
from tests.integration.airflow.test_incident_trigger import ended, heartbeats, status, until, watching
from tests.integration.launch.application import Application
from tests.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.unit.control.telemetry.test_traces import FAILOVER

_PREFIX = "stateful_streams.application."


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
        monkeypatch.setattr(telemetry, "_TRACES_EVERY_S", 0.2)
        yield receiver


@pytest.fixture
def pair(application: Application) -> tuple[InstanceStatus, InstanceStatus]:
    """Two instances, each active for one task and standby for the other's."""
    application.publish(assigned("a b", "b a", application_id=application.id))
    return status(application, "a", active(0), standby(1)), status(application, "b", active(1), standby(0))


def test_watcher_tells_of_a_lost_instance_and_goes_on_when_the_receiver_falls_silent(
    application: Application, pair: tuple[InstanceStatus, InstanceStatus], receiver: OtlpReceiver
) -> None:
    def told(name: str, value: float) -> bool:
        return receiver.value(f"{_PREFIX}{name}", application=application.id) == value

    async def run() -> None:
        async with heartbeats(application, *pair) as silence, watching(application) as watch:
            await until(lambda: told("alive.instances", 2.0), lambda: f"two alive: {receiver.values()}", 30.0)
            assert told("unprotected.tasks", 0.0)

            silence("a")
            await asyncio.to_thread(application.write, ended(pair[0]))
            await until(lambda: told("lost.instances", 1.0), lambda: f"a to be lost: {receiver.values()}", 30.0)
            assert told("standing.tasks", 1.0)
            assert told("unprotected.tasks", 1.0)

            receiver.silent = True
            asked = len(receiver.requests)
            await until(lambda: len(receiver.requests) > asked, lambda: "a request that is not answered", 30.0)
            fired = len(watch.fired)
            silence("b")
            await asyncio.to_thread(application.write, ended(pair[1]))
            await until(lambda: len(watch.fired) > fired, lambda: "b's end to be fired meanwhile", 10.0)

    asyncio.run(run())


def test_trace_of_a_failover_arrives_once_and_again_from_the_next_watcher(
    application: Application, receiver: OtlpReceiver
) -> None:
    at_ms = now_ms()
    record = replace(FAILOVER, application_id=application.id, at_ms=at_ms, ended_at_ms=at_ms + 9_000)
    write_history(application.connection, application.id, record)

    def watched(traces: int) -> None:
        pushes = WatcherPushes(application.connection, application.id)

        async def run() -> None:
            await until(lambda: len(receiver.traces) >= traces, lambda: f"{traces} trace(s)", 30.0)
            asked = now_ms()
            while now_ms() - asked < 1_000:  # further looks at the history, which find nothing new
                await asyncio.sleep(0.05)

        asyncio.run(run())
        pushes.stop()

    watched(1)
    assert len(receiver.traces) == 1
    watched(2)

    ids = [trace.resource_spans[0].scope_spans[0].spans[0].trace_id for trace in receiver.traces]
    assert len(set(ids)) == 1


def test_statsd_of_airflow_is_used_where_nothing_else_is_said(
    application: Application, pair: tuple[InstanceStatus, InstanceStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30.0)
        host, port = server.getsockname()
        options = {"STATSD_ON": "True", "STATSD_HOST": host, "STATSD_PORT": str(port)}
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")

        async def run() -> bytes:
            async with heartbeats(application, *pair), watching(application):
                return await asyncio.to_thread(server.recv, 65_536)

        packet = asyncio.run(run())

    assert packet.startswith(f"airflow.stateful_streams.{application.id}.".encode()), packet


def test_otel_of_airflow_is_used_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_HOST", "c")
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_PORT", "4318")

    found = settings_in_airflow()

    assert (found.otlp, found.endpoint, found.traces) == (True, "http://c:4318/v1/metrics", False)


def test_setting_that_means_nothing_stops_no_watcher(
    application: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "console")
    with pytest.raises(ConfigurationError, match="OTEL_METRICS_EXPORTER"):
        settings_in_airflow()

    WatcherPushes(application.connection, application.id).tell(None)

    assert "OTEL_METRICS_EXPORTER" in caplog.text
