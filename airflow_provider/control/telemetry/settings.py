"""Where figures go to, by the standard environment variables of OpenTelemetry and of the statsd library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.errors import ConfigurationError

_HTTP: Final = "http/protobuf"
_EXPORTERS: Final = ("otlp", "prometheus", "none")


@dataclass(frozen=True)
class StatsdSettings:
    """A StatsD server."""

    host: str
    port: int = 8125
    prefix: str = ""
    ipv6: bool = False


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """What is sent, and where to. Nothing, where nothing asks for it.

    Where OTLP goes to, its headers, certificates and timeout, the exporter of OpenTelemetry reads by itself.

    Args:
        otlp: whether metrics are pushed by OTLP over HTTP.
        traces: whether failovers and restores are.
        endpoint: full URL to push metrics to, where another than the environment's; None for that.
        traces_endpoint: the same of traces.
        interval_s: between two pushes.
        statsd: None for none.
        prometheus: host and port of an endpoint that Prometheus scrapes; None for none.
    """

    otlp: bool = False
    traces: bool = False
    endpoint: str | None = None
    traces_endpoint: str | None = None
    interval_s: float = 60.0
    statsd: StatsdSettings | None = None
    prometheus: tuple[str, int] | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TelemetrySettings:
        """By ``OTEL_METRICS_EXPORTER`` (``otlp``, ``prometheus``, ``none``, or some of them with commas between).

        Without it by ``OTEL_EXPORTER_OTLP_ENDPOINT`` or its like for metrics: OpenTelemetry's own default, a collector
        on this host, is not taken for granted. And by ``STATSD_HOST``.

        Raises:
            ConfigurationError: a value means nothing, or asks for what is not there: OTLP over gRPC.
        """
        off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        return cls(
            otlp=not off and _asks_for_otlp(environment, "METRICS"),
            traces=not off and _asks_for_otlp(environment, "TRACES"),
            interval_s=_number(environment, "OTEL_METRIC_EXPORT_INTERVAL", 60_000, least=100) / 1000,
            statsd=_statsd(environment),
            prometheus=_prometheus(environment) if not off and "prometheus" in _exporters(environment) else None,
        )


def _exporters(environment: Mapping[str, str], signal: str = "METRICS") -> list[str]:
    name = f"OTEL_{signal}_EXPORTER"
    found = [word for part in environment.get(name, "").split(",") if (word := part.strip().lower())]
    known = _EXPORTERS if signal == "METRICS" else ("otlp", "none")
    if unknown := [word for word in found if word not in known]:
        raise ConfigurationError(f"{name} names {unknown[0]!r}, which is not known here: use {', '.join(known)}.")
    return found


def _asks_for_otlp(environment: Mapping[str, str], signal: str) -> bool:
    named = _exporters(environment, signal)
    own = f"OTEL_EXPORTER_OTLP_{signal}_"
    there = bool(environment.get(f"{own}ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"))
    if "otlp" not in named and (named or not there):
        return False
    for variable in (f"{own}PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environment.get(variable):
            if protocol.strip().lower() != _HTTP:
                raise ConfigurationError(
                    f"{variable} is {protocol!r}, and this provider sends by {_HTTP!r} alone: set {own}PROTOCOL to "
                    f"that, and {own}ENDPOINT to the collector's URL for it, such as http://collector:4318/v1/{signal.lower()}."
                )
            break
    for variable in (f"{own}ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        if not environment.get(variable, "http://").startswith(("http://", "https://")):
            # Not shown: it may hold a login.
            raise ConfigurationError(f"{variable} is no URL: begin it with http:// or https://.")
    for variable in (f"{own}HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"):
        if any("=" not in part for part in environment.get(variable, "").split(",") if part.strip()):
            raise ConfigurationError(
                f"{variable} is no list of name=value with commas between: write it so, with a space as %20."
            )
    return True


def _prometheus(environment: Mapping[str, str]) -> tuple[str, int]:
    port = _number(environment, "OTEL_EXPORTER_PROMETHEUS_PORT", 9464, least=1, most=65_535)
    return environment.get("OTEL_EXPORTER_PROMETHEUS_HOST") or "localhost", int(port)


def _statsd(environment: Mapping[str, str]) -> StatsdSettings | None:
    if not (host := environment.get("STATSD_HOST")):
        return None
    return StatsdSettings(
        host,
        int(_number(environment, "STATSD_PORT", StatsdSettings.port, least=1, most=65_535)),
        environment.get("STATSD_PREFIX", ""),
    )


def _number(environment: Mapping[str, str], name: str, default: float, least: int, most: int = 86_400_000) -> float:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(most)) or not least <= int(text) <= most:
        raise ConfigurationError(f"{name} is {text!r}: use a whole number from {least} to {most}, or leave it out.")
    return int(text)


def not_installed(what: str, extra: str) -> ConfigurationError:
    """That a library is missing, which an extra of the distribution brings."""
    return ConfigurationError(
        f"Figures are to be sent by {what}, and what that needs is not installed: install "
        f"'airflow-provider-stateful-streams[{extra}]' where this runs, or unset the variables that ask for it."
    )
