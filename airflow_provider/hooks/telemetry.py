"""What an application's watcher sends of it, from the triggerer, and by whose settings."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from airflow.sdk.configuration import conf

from airflow_provider.control.telemetry.settings import StatsdSettings, TelemetrySettings
from airflow_provider.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider.control.telemetry.metrics import ApplicationFigures, Sample
    from airflow_provider.control.telemetry.push import Stop
    from airflow_provider.kafka.connection import KafkaConnection

log = logging.getLogger(__name__)

_TRACES_EVERY_S: Final = 60.0


def settings_in_airflow() -> TelemetrySettings:
    """By the environment, as of an instance, or else by Airflow's sections ``[metrics]`` and ``[traces]``.

    They are read, and Airflow's own statistics left aside: of its two modules for them only core's works in a
    triggerer, and neither takes a value for each tag to StatsD. No endpoint for Prometheus: a triggerer watches many.

    Raises:
        ConfigurationError: a value means nothing.
    """
    found = dataclasses.replace(TelemetrySettings.from_environment(os.environ), prometheus=None)
    if not found.otlp and conf.getboolean("metrics", "otel_on", fallback=False):
        found = dataclasses.replace(found, otlp=True, endpoint=_endpoint("metrics"))
    if not found.traces and conf.getboolean("traces", "otel_on", fallback=False):
        found = dataclasses.replace(found, traces=True, traces_endpoint=_endpoint("traces"))
    if found.statsd is None and conf.getboolean("metrics", "statsd_on", fallback=False):
        found = dataclasses.replace(
            found,
            statsd=StatsdSettings(
                conf.get("metrics", "statsd_host", fallback="localhost"),
                conf.getint("metrics", "statsd_port", fallback=StatsdSettings.port),
                conf.get("metrics", "statsd_prefix", fallback=""),
                conf.getboolean("metrics", "statsd_ipv6", fallback=False),
            ),
        )
    return found


def _endpoint(section: str) -> str:
    # As Airflow itself does, whose options these are until they go.
    scheme = "https" if conf.getboolean(section, "otel_ssl_active", fallback=False) else "http"
    host, port = conf.get(section, "otel_host", fallback=None), conf.get(section, "otel_port", fallback=None)
    if not host or not port:
        raise ConfigurationError(
            f"[{section}] otel_on is set, and not where to: set OTEL_EXPORTER_OTLP_ENDPOINT for the triggerer, such as "
            "http://collector:4318."
        )
    return f"{scheme}://{host}:{port}/v1/{section}"


class WatcherPushes:
    """Pushes an application's figures and traces for as long as it is watched; nothing where nothing asks for it.

    All is sent by threads of its own. What is wrong with the settings is a line in the log, and the watching goes on.
    """

    def __init__(self, connection: KafkaConnection, application_id: str) -> None:
        self._samples: Sequence[Sample] = ()
        self._begun: list[Stop] = []
        try:
            settings = settings_in_airflow()
        except Exception as error:  # Airflow's own for a value that is none, too
            log.warning("Nothing is sent of %s: %s", application_id, error)
            return
        if not (settings.otlp or settings.statsd or settings.traces):
            return
        from airflow_provider.control.history.topic import read_history
        from airflow_provider.control.telemetry.otlp import OtlpSpans
        from airflow_provider.control.telemetry.push import start_pushes
        from airflow_provider.control.telemetry.traces import TracePush

        self._begun = start_pushes(settings, lambda: self._samples)
        if settings.traces:
            traces = TracePush(
                _TRACES_EVERY_S,
                lambda since_ms: read_history(connection, application_id, stored_since=since_ms),
                lambda: OtlpSpans(settings.traces_endpoint).send,
            )
            traces.start()
            self._begun.append(traces)

    def tell(self, figures: ApplicationFigures | None) -> None:
        """What is so now is what is sent next; None where nobody can say: then nothing is."""
        if self._begun:
            self._samples = () if figures is None else tuple(figures.samples())

    def stop(self) -> None:
        """Send no more; returns at once."""
        for one in self._begun:
            one.stop()
