"""A receiver of OTLP over HTTP, by the protocol's own messages; it can refuse, or say nothing any more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Series = tuple[str, frozenset[tuple[str, str]]]


class OtlpReceiver:
    """What it took; used by several threads."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Path and headers of each request, answered or not."""
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.status = 200
        self.silent = False
        """Whether a request is read and never answered."""
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                if receiver.silent:
                    receiver.released.wait()
                    return
                if receiver.status == 200:
                    of_metrics = self.path.endswith("/v1/metrics")
                    taken = receiver.metrics if of_metrics else receiver.traces
                    taken.append((ExportMetricsServiceRequest if of_metrics else ExportTraceServiceRequest)())
                    taken[-1].ParseFromString(body)
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    def values(self) -> dict[Series, float]:
        """The newest value of each series."""
        found: dict[Series, float] = {}
        for request in list(self.metrics):
            for metric in request.resource_metrics[0].scope_metrics[0].metrics:
                points = getattr(metric, metric.WhichOneof("data")).data_points
                for point in points:
                    tags = frozenset((tag.key, tag.value.string_value) for tag in point.attributes)
                    found[(metric.name, tags)] = point.as_double
        return found

    def value(self, name: str, **tags: str) -> float | None:
        """The newest value of a series."""
        return self.values().get((name, frozenset(tags.items())))

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver()
    try:
        yield receiver
    finally:
        receiver.close()


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which connections are refused, and nobody else can listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"
