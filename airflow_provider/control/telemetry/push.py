"""Pushes figures, each way in a thread of its own: what hangs there holds up nothing else."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from airflow_provider.common.in_thread import RepeatedLook
from airflow_provider.control.telemetry.exposition import ScrapeEndpoint
from airflow_provider.control.telemetry.metrics import PREFIX, Sample
from airflow_provider.control.telemetry.otlp import OtlpMetrics
from airflow_provider.control.telemetry.settings import StatsdSettings, TelemetrySettings, not_installed
from airflow_provider.errors import ConfigurationError

log = logging.getLogger(__name__)

Samples = Callable[[], Sequence[Sample]]
Send = Callable[[Sequence[Sample]], None]
"""One way out; it may take as long as it likes, and raise what it likes."""
_SEPARATORS: Final = re.compile(r"[^\w-]")


class Stop(Protocol):
    """What runs until it is stopped."""

    def stop(self) -> None:
        """End; returns at once."""


class Push(RepeatedLook):
    """Sends the newest samples each interval. What is not taken is gone: nothing is queued, so nothing grows.

    Args:
        connect: makes the sender; called by the thread, and again where that failed.
    """

    def __init__(self, way: str, interval_s: float, samples: Samples, connect: Callable[[], Send]) -> None:
        super().__init__(f"push-{way}", interval_s, f"the figures of now are not sent by {way}")
        self._samples, self._connect = samples, connect
        self._send: Send | None = None

    def look(self) -> None:
        """See `RepeatedLook`."""
        self._send = self._send or self._connect()
        self._send(self._samples())


class StatsdMetrics:
    """Sends samples as gauges over UDP, which waits for nobody; counters too, as what they have come to.

    Tags are parts of the name, because StatsD knows none: ``stateful_streams.flights.a.0_3.active.process-rate``.

    Raises:
        ConfigurationError: the library is not installed.
        OSError: the host's name cannot be resolved.
    """

    def __init__(self, to: StatsdSettings) -> None:
        try:
            from statsd import StatsClient
        except ImportError as error:
            raise not_installed("StatsD", "statsd") from error
        self._client: Any = StatsClient(to.host, to.port, to.prefix or None, ipv6=to.ipv6)

    def send(self, samples: Sequence[Sample]) -> None:
        """Send all, in packets of 512 bytes."""
        with self._client.pipeline() as packets:
            for sample in samples:
                packets.gauge(statsd_name(sample), round(sample.value, 6))


def statsd_name(sample: Sample) -> str:
    """The name of a sample's series."""
    words = (PREFIX, *sample.tags[: len(sample.metric.level.tags)], sample.metric.name)
    own = sample.tags[len(sample.metric.level.tags) :]
    return ".".join(_SEPARATORS.sub("_", word) for word in (*words, *own))


def start_pushes(settings: TelemetrySettings, samples: Samples) -> list[Stop]:
    """Begin all that the settings ask for. What cannot be done is a line in the log: nobody ends for want of figures.

    Args:
        samples: the newest; called by several threads.
    """
    begun: list[Stop] = []
    if settings.prometheus is not None:
        try:
            begun.append(ScrapeEndpoint(*settings.prometheus, samples))
        except ConfigurationError as error:
            log.warning("%s", error)
    ways: dict[str, Callable[[], Send]] = {}
    if settings.otlp:
        ways["OTLP"] = lambda: OtlpMetrics(settings.endpoint).send
    if (to := settings.statsd) is not None:
        ways["StatsD"] = lambda: StatsdMetrics(to).send
    for way, connect in ways.items():
        push = Push(way, settings.interval_s, samples, connect)
        push.start()
        begun.append(push)
    return begun
