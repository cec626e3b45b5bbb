"""Figures reach real receivers on loopback; one that hangs, refuses or is gone holds up nobody and learns no secret."""

from __future__ import annotations

import logging
import socket
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import closing
from urllib.request import urlopen

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from airflow_provider.control.records.task_state import Role
from airflow_provider.control.telemetry.exposition import ScrapeEndpoint, exposition
from airflow_provider.control.telemetry.metrics import METRICS, InstanceFigures, Kind, Sample
from airflow_provider.control.telemetry.otlp import NotTakenError, OtlpMetrics
from airflow_provider.control.telemetry.push import Push, StatsdMetrics, start_pushes
from airflow_provider.control.telemetry.settings import StatsdSettings, TelemetrySettings
from airflow_provider.errors import ConfigurationError
from tests.builders import active, instance, standby
from tests.otlp_receiver import OtlpReceiver, nobody, otlp_receiver
from tests.waiting import wait_until

SAMPLES = tuple(InstanceFigures(instance("a", active(0, processed_records=7), standby(1))).samples())
TASK = {"application": "app", "instance": "a", "task": "0_0", "role": Role.ACTIVE.value}
SECRET = "geheim"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2.5")  # time for one more attempt, whose reason is told


def metrics_of(receiver: OtlpReceiver) -> str:
    return f"{receiver.endpoint}/v1/metrics"


def test_otlp_says_name_unit_kind_and_tags_of_each_value(receiver: OtlpReceiver) -> None:
    OtlpMetrics(metrics_of(receiver)).send(SAMPLES)

    (request,) = receiver.metrics
    (of_resource,) = request.resource_metrics
    sent = {metric.name: metric for metric in of_resource.scope_metrics[0].metrics}
    for metric in {sample.metric for sample in SAMPLES}:
        assert sent[metric.otel_name].unit == metric.unit
        assert sent[metric.otel_name].HasField("sum" if metric.kind is Kind.COUNTER else "gauge")
    assert receiver.value("stateful_streams.task.process.total", **TASK) == 7.0
    assert len(receiver.values()) == len(SAMPLES)


def test_headers_of_the_environment_and_a_login_in_the_endpoint_are_sent(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-token={SECRET}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://me:{SECRET}@{receiver.address}")

    OtlpMetrics().send(SAMPLES)

    ((path, headers),) = receiver.requests
    assert path == "/v1/metrics"
    assert headers["x-token"] == SECRET
    assert headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize("status", [400, 401, 503])
def test_refusal_is_told_by_its_reason_and_without_a_secret(
    receiver: OtlpReceiver, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    receiver.status = status

    with pytest.raises(NotTakenError) as refused:
        OtlpMetrics(f"http://me:{SECRET}@{receiver.address}/{SECRET}/v1/metrics?token={SECRET}").send(SAMPLES)

    assert str(status) in str(refused.value) or "Service Unavailable" in str(refused.value)
    assert SECRET not in str(refused.value) + caplog.text


@pytest.mark.parametrize("address", [f"user:{SECRET}/x@127.0.0.1:1", f"127.0.0.1:99999/{SECRET}"])
def test_endpoint_that_is_no_url_is_told_without_what_stands_in_it(address: str) -> None:
    with pytest.raises(NotTakenError, match="the endpoint is no URL") as refused:
        OtlpMetrics(f"http://{address}").send(SAMPLES)

    assert SECRET not in str(refused.value)


def test_endpoint_at_which_nobody_listens_is_told_once_and_without_a_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with nobody() as address:
        push = Push(
            "OTLP",
            0.05,
            lambda: SAMPLES,
            lambda: OtlpMetrics(f"http://me:{SECRET}@{address}/{SECRET}?token={SECRET}").send,
        )
        looks = count_looks(push)
        push.start()
        wait_until(lambda: len(looks) > 2, 20.0, "three attempts")
        push.stop()

    warned = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warned) == 1, caplog.text
    assert "Connection refused" in warned[0].getMessage()
    assert SECRET not in caplog.text


def count_looks(push: Push) -> list[float]:
    looks: list[float] = []
    look = push.look

    def counted() -> None:
        try:
            look()
        finally:
            looks.append(time.monotonic())

    push.look = counted  # type: ignore[method-assign]
    return looks


def test_silent_receiver_holds_up_neither_the_other_ways_nor_the_end(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    receiver.silent = True
    with statsd_server() as server:
        settings = TelemetrySettings(
            otlp=True, endpoint=metrics_of(receiver), interval_s=0.05, statsd=StatsdSettings(*server.getsockname())
        )
        pushes = start_pushes(settings, lambda: SAMPLES)
        wait_until(lambda: receiver.requests, 10.0, "a request that is never answered")

        packets = [server.recv(65_536) for _ in range(50)]

        began = time.monotonic()
        for push in pushes:
            push.stop()
        assert time.monotonic() - began < 1.0
    assert len(receiver.requests) == 1, "nothing is sent beside what hangs"
    assert packets
    assert not receiver.metrics


def test_silent_receiver_lets_neither_memory_nor_connections_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.05")
    with socket.create_server(("127.0.0.1", 0), backlog=500) as silent:  # the kernel accepts, and nobody reads
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/metrics"
        push = Push("OTLP", 0.01, lambda: list(SAMPLES), lambda: OtlpMetrics(address).send)
        looks = count_looks(push)
        push.start()
        wait_until(lambda: len(looks) >= 10, 30.0, "ten attempts")
        tracemalloc.start()
        try:
            before, connections = tracemalloc.get_traced_memory()[0], psutil.Process().num_fds()
            wait_until(lambda: len(looks) >= 110, 60.0, "a hundred more")
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
            push.stop()

    # A push holds some 100 kB while it is made; were anything of each one kept, a hundred would be many times that.
    assert grown < 500_000, grown
    assert psutil.Process().num_fds() < connections + 10


def test_receiver_that_comes_back_gets_what_is_so_now(receiver: OtlpReceiver) -> None:
    receiver.status = 503
    now: list[Sequence[Sample]] = [SAMPLES]
    push = Push("OTLP", 0.05, lambda: now[0], lambda: OtlpMetrics(metrics_of(receiver)).send)
    looks = count_looks(push)
    push.start()
    wait_until(lambda: looks, 10.0, "an attempt")
    now[0] = tuple(InstanceFigures(instance("a", active(0, processed_records=9))).samples())
    receiver.status = 200

    wait_until(lambda: receiver.metrics, 10.0, "an answered attempt")

    push.stop()
    assert receiver.value("stateful_streams.task.process.total", **TASK) == 9.0


def statsd_server() -> closing[socket.socket]:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    server.settimeout(10.0)
    return closing(server)


def test_statsd_gets_a_gauge_of_each_value_in_small_packets() -> None:
    with statsd_server() as server:
        host, port = server.getsockname()
        StatsdMetrics(StatsdSettings(host, port, prefix="us")).send(SAMPLES)

        lines: list[bytes] = []
        while len(lines) < len(SAMPLES):
            packet = server.recv(65_536)
            assert len(packet) <= 512
            lines += packet.split(b"\n")

    assert b"us.stateful_streams.app.a.0_0.active.process-total:7.0|g" in lines


def test_statsd_that_cannot_be_found_is_an_error_of_its_thread_alone() -> None:
    with pytest.raises(OSError, match=r"(?i)name|address"):
        StatsdMetrics(StatsdSettings("no-such-host.invalid"))


def test_exposition_is_what_prometheus_reads() -> None:
    read = list(text_string_to_metric_families(exposition(SAMPLES)))

    values = {(one.name, frozenset(one.labels.items())): one.value for family in read for one in family.samples}
    assert values[("stateful_streams_task_process_total", frozenset(TASK.items()))] == 7.0
    assert len(values) == len(SAMPLES)
    kinds = {family.name: family.type for family in read}
    assert kinds["stateful_streams_task_process"] == "counter"
    assert kinds["stateful_streams_task_restore_remaining_records_total"] == "gauge"


def test_tag_with_markup_and_line_ends_stays_a_tag() -> None:
    metric = next(metric for metric in METRICS if metric.tag == "reason")
    odd = 'x"} 1\nstateful_streams_task_process_total{a="<b>'

    (family,) = text_string_to_metric_families(exposition([Sample(metric, ("app", "a", "0_0", "active", odd), 1.0)]))

    (sample,) = family.samples
    assert sample.labels["reason"] == odd


def _ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("host", "written"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_endpoint_serves_what_is_so_now_also_after_a_client_that_asks_nothing(
    host: str, written: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if host == "::1" and not _ipv6():
        pytest.skip("this machine has no IPv6")
    monkeypatch.setattr("airflow_provider.control.telemetry.exposition._Handler.timeout", 0.2)
    endpoint = ScrapeEndpoint(host, 0, lambda: SAMPLES)
    with (
        socket.create_connection((host, endpoint.port)),
        urlopen(f"http://{written}:{endpoint.port}/metrics", timeout=10) as answer,
    ):
        text = answer.read().decode()
    endpoint.stop()

    assert "stateful_streams_task_process_total{" in text
    assert capfd.readouterr() == ("", "")


def test_taken_port_is_named_with_the_setting_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with nobody() as address:
        host, port = address.split(":")
        with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_PROMETHEUS_PORT"):
            ScrapeEndpoint(host, int(port), lambda: SAMPLES)

        assert start_pushes(TelemetrySettings(prometheus=(host, int(port))), lambda: SAMPLES) == []

    assert "OTEL_EXPORTER_PROMETHEUS_PORT" in caplog.text


def test_nothing_is_begun_where_nothing_asks_for_it() -> None:
    assert start_pushes(TelemetrySettings(), lambda: SAMPLES) == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, TelemetrySettings(), id="nothing"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, TelemetrySettings(otlp=True, traces=True), id="endpoint"
        ),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/v1/metrics"}, TelemetrySettings(otlp=True), id="metrics"
        ),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"},
            TelemetrySettings(traces=True),
            id="none",
        ),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"},
            TelemetrySettings(),
            id="disabled",
        ),
        pytest.param(
            {"OTEL_METRICS_EXPORTER": "prometheus,otlp", "OTEL_EXPORTER_PROMETHEUS_PORT": "9500"},
            TelemetrySettings(otlp=True, prometheus=("localhost", 9500)),
            id="both",
        ),
        pytest.param(
            {"STATSD_HOST": "s", "STATSD_PORT": "9", "OTEL_METRIC_EXPORT_INTERVAL": "5000"},
            TelemetrySettings(statsd=StatsdSettings("s", 9), interval_s=5.0),
            id="statsd",
        ),
        pytest.param(
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
                "OTEL_TRACES_EXPORTER": "none",
            },
            TelemetrySettings(otlp=True),
            id="own-protocol",
        ),
    ],
)
def test_settings_of_an_environment(environment: dict[str, str], expected: TelemetrySettings) -> None:
    assert TelemetrySettings.from_environment(environment) == expected


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        pytest.param({"OTEL_METRICS_EXPORTER": "console"}, "OTEL_METRICS_EXPORTER names 'console'", id="exporter"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "set OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
            id="grpc",
        ),
        pytest.param({"OTEL_METRIC_EXPORT_INTERVAL": "soon"}, "OTEL_METRIC_EXPORT_INTERVAL is 'soon'", id="interval"),
        pytest.param({"OTEL_METRIC_EXPORT_INTERVAL": "1"}, "from 100", id="too-often"),
        pytest.param({"OTEL_METRIC_EXPORT_INTERVAL": "9" * 5_000}, "from 100", id="too-many-digits"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": f"me:{SECRET}@c:4318"}, "OTLP_ENDPOINT is no URL: begin", id="no-url"
        ),
        pytest.param(
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318",
                "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization: Bearer {SECRET}",
            },
            "OTLP_HEADERS is no list of name=value",
            id="headers",
        ),
        pytest.param({"STATSD_HOST": "s", "STATSD_PORT": "99999"}, "STATSD_PORT is '99999'", id="port"),
        pytest.param(
            {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "-1"},
            "OTEL_EXPORTER_PROMETHEUS_PORT is '-1'",
            id="scrape-port",
        ),
    ],
)
def test_setting_that_means_nothing_is_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named) as refused:
        TelemetrySettings.from_environment(environment)
    assert SECRET not in str(refused.value)


def test_header_that_the_exporter_refuses_is_not_logged(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"a b={SECRET},(={SECRET}")

    OtlpMetrics(metrics_of(receiver)).send(SAMPLES)

    assert SECRET not in caplog.text


def test_host_that_is_none_is_named() -> None:
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_PROMETHEUS_HOST"):
        ScrapeEndpoint("ü" * 300, 0, lambda: SAMPLES)
