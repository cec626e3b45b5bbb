"""Prometheus: the exposition of samples, and an endpoint that serves it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from airflow_provider.control.telemetry.metrics import Kind, Sample, by_metric
from airflow_provider.control.telemetry.settings import not_installed
from airflow_provider.errors import ConfigurationError

_SLOW_S: Final = 5.0


class _Collector:
    def __init__(self, samples: Callable[[], Sequence[Sample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for group in by_metric(self._samples()):
            of = group[0].metric
            kind = CounterMetricFamily if of.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(of.prometheus_name, of.meaning, labels=of.tags)
            for sample in group:
                family.add_metric(sample.tags, sample.value)
            yield family


def _registry(samples: Callable[[], Sequence[Sample]]) -> Any:
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise not_installed("Prometheus", "prometheus") from error
    registry = CollectorRegistry()
    registry.register(_Collector(samples))
    return registry


def exposition(samples: Sequence[Sample]) -> str:
    """Samples as Prometheus reads them.

    Raises:
        ConfigurationError: its client is not installed.
    """
    registry = _registry(lambda: samples)
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()


class _Handler(WSGIRequestHandler):
    timeout = _SLOW_S  # of a client that connects and asks nothing: the next one waits for no longer

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a client that asks nothing holds up no other

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was too slow, or went away: no trace of it on standard error."""


class _ServerOfIpv6(_Server):
    address_family = socket.AF_INET6


class ScrapeEndpoint:
    """Serves ``/metrics`` from daemon threads.

    Raises:
        ConfigurationError: the port is taken, the host is none of this machine's, or the client is not installed.
    """

    def __init__(self, host: str, port: int, samples: Callable[[], Sequence[Sample]]) -> None:
        registry = _registry(samples)
        from prometheus_client import make_wsgi_app

        try:
            server = _ServerOfIpv6 if ":" in host else _Server
            self._server = make_server(host, port, make_wsgi_app(registry), server, _Handler)
        except (OSError, TypeError, ValueError) as error:  # the last two: of a host that is none
            why = getattr(error, "strerror", None) or error
            raise ConfigurationError(
                f"Nothing is served at {host}:{port} ({why}): set OTEL_EXPORTER_PROMETHEUS_HOST "
                "and OTEL_EXPORTER_PROMETHEUS_PORT to what is free on this host, one port for each instance."
            ) from error
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="prometheus", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Serve no more; a request that is under way is left behind."""
        threading.Thread(target=self._close, daemon=True).start()

    def _close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
