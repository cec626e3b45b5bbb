"""OTLP over HTTP: samples and spans in OpenTelemetry's words, sent by its exporters."""

from __future__ import annotations

import importlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from airflow_provider import __version__
from airflow_provider.control.telemetry.metrics import Kind, Sample, by_metric
from airflow_provider.control.telemetry.settings import not_installed

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan

    from airflow_provider.control.telemetry.traces import Span

_SCOPE: Final = "airflow_provider"
_BEGAN_NS: Final = time.time_ns()


class NotTakenError(Exception):
    """Nobody took what was sent; says why, without what may be secret."""


class OtlpMetrics:
    """Sends samples; used by one thread.

    The values are given to the exporter as they are. So there is no `MeterProvider`, whose own thread and whose
    last push at the interpreter's end, of up to half a minute, would be the instance's.

    Args:
        endpoint: full URL; None for the environment's.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.
    """

    def __init__(self, endpoint: str | None = None) -> None:
        self._exporter = _exporter("metric_exporter", "OTLPMetricExporter", endpoint)

    def send(self, samples: Sequence[Sample]) -> None:
        """Send, and wait for the answer for as long as ``OTEL_EXPORTER_OTLP_TIMEOUT`` says (10 s).

        Raises:
            NotTakenError: they were not taken.
        """
        if samples:
            _export(lambda: self._exporter.export(metrics_data(samples, time.time_ns())))


class OtlpSpans:
    """The same of spans."""

    def __init__(self, endpoint: str | None = None) -> None:
        self._exporter = _exporter("trace_exporter", "OTLPSpanExporter", endpoint)

    def send(self, spans: Sequence[Span]) -> None:
        """As `OtlpMetrics.send`."""
        if spans:
            _export(lambda: self._exporter.export([_readable(span) for span in spans]))


def _exporter(module: str, name: str, endpoint: str | None) -> Any:
    try:
        found = importlib.import_module(f"opentelemetry.exporter.otlp.proto.http.{module}")
    except ImportError as error:
        raise not_installed("OTLP", "otel") from error
    with _heard():
        return getattr(found, name)(endpoint=endpoint)


def metrics_data(samples: Sequence[Sample], now_ns: int) -> MetricsData:
    """Samples as OpenTelemetry's data: counters as what they have come to, since this process began."""
    from opentelemetry.sdk.metrics import export
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    def point(sample: Sample) -> export.NumberDataPoint:
        tags = dict(zip(sample.metric.tags, sample.tags, strict=True))
        return export.NumberDataPoint(tags, _BEGAN_NS, now_ns, sample.value)

    def metric(group: Sequence[Sample]) -> export.Metric:
        of, points = group[0].metric, [point(sample) for sample in group]
        data = (
            export.Sum(points, export.AggregationTemporality.CUMULATIVE, is_monotonic=True)
            if of.kind is Kind.COUNTER
            else export.Gauge(points)
        )
        return export.Metric(of.otel_name, of.meaning, of.unit, data)

    scope = export.ScopeMetrics(InstrumentationScope(_SCOPE, __version__), [*map(metric, by_metric(samples))], "")
    return export.MetricsData([export.ResourceMetrics(_resource(), [scope], "")])


def _readable(span: Span) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    def context(id: int) -> SpanContext:
        return SpanContext(span.trace_id, id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    return ReadableSpan(
        name=span.name,
        context=context(span.id),
        parent=None if span.parent is None else context(span.parent),
        resource=_resource(),
        attributes=span.attributes,
        status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR, span.error),
        start_time=span.begin_ms * 1_000_000,
        end_time=span.end_ms * 1_000_000,
        instrumentation_scope=InstrumentationScope(_SCOPE, __version__),
    )


def _resource() -> Any:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    # Of the environment: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    return Resource({"service.name": "stateful-streams"}).merge(OTELResourceDetector().detect())


_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.util.re",
    "urllib3.connectionpool",
)
_local = threading.local()


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What the exporter logs meanwhile, which may hold what is secret in a setting, in the place of its log lines.

    Only those of this thread: another user of the same library, as Airflow is, keeps its own.
    """
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _keep not in logger.filters:
            logger.addFilter(_keep)
    _local.said = said = list[str]()
    try:
        yield said
    finally:
        _local.said = None


def _export(send: Callable[[], Any]) -> None:
    """Export; what the exporter says becomes the error's text, without what may be secret in an endpoint."""
    with _heard() as said:
        try:
            result = send()
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
            result = None
    if result is None or result.name != "SUCCESS":
        raise NotTakenError(f"OTLP: {without_secrets(said[0]) if said else 'not taken'}") from None


def _keep(record: logging.LogRecord) -> bool:
    said = getattr(_local, "said", None)
    if said is None:
        return True
    if record.levelno >= logging.WARNING and not said:
        said.append(str(record.args[0]) if record.msg.startswith("Transient error") else record.getMessage())  # type: ignore[index]
    return False


def without_secrets(text: str) -> str:
    """A client's text without what a URL may carry (a login, a path, a query), and without addresses of objects."""
    text = re.sub(r"(?:Failed to parse|Invalid URL)\b.*", "the endpoint is no URL", text, flags=re.DOTALL)
    text = re.sub(r"(?<=//)[^/@\s]*@", "", text)
    text = re.sub(r" with url: \S+|\?[^\s'\")]*", "", text)
    return re.sub(r"<?[\w.]+(?: object)? at 0x[0-9a-f]+>?(?:: )?", "", text)
