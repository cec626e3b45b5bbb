"""``history`` and ``metrics``: what an application went through, its figures, and what they say of the future."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from airflow_provider.cli.options import add_application_options, cluster_of
from airflow_provider.cli.status import look
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.history.report import history_table
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.outlook.metrics_forecasts import MetricsForecasts, metrics_forecasts
from airflow_provider.control.outlook.metrics_topic import read_metrics
from airflow_provider.control.outlook.predicted_rto import rto_basis
from airflow_provider.control.records.history import HistoryKind, HistoryRecord, history_plain
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.telemetry.exposition import exposition
from airflow_provider.control.telemetry.metrics import ApplicationFigures, InstanceFigures, Sample
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.errors import TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection

_UNIT_MS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def add_history(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``history``."""
    history = commands.add_parser("history", help="drills, failovers, restores and upgrades, with what each cost")
    add_application_options(history)
    history.add_argument("--kind", choices=[kind.value for kind in HistoryKind], help="only this")
    _add_since(history, None, "36h, 30d or 8w")
    history.add_argument("--json", action="store_true", help="everything, for programs")
    history.set_defaults(act=_history)


def _history(asked: argparse.Namespace) -> int:
    kind = None if asked.kind is None else HistoryKind(asked.kind)
    records = read_history(cluster_of(asked), asked.application_id, asked.since, kind)
    print(json.dumps([history_plain(record) for record in records], indent=2) if asked.json else history_table(records))
    return ExitStatus.FINE


def _add_since(parser: argparse.ArgumentParser, default: str | None, ages: str) -> None:
    meaning = f"a date such as 2026-01-31 (UTC), or an age such as {ages}"
    parser.add_argument("--since", metavar="WHEN", type=since_ms, default=default, help=meaning)


def since_ms(when: str, now: int | None = None) -> int:
    """The epoch ms that a date or an age means, for argparse.

    Args:
        when: a date or a time as ISO 8601 writes it, UTC where it names no zone; or a number of ``h``, ``d`` or ``w``.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if (age := re.fullmatch(r"(\d+)([hdw])", when)) is not None:
        return (now_ms() if now is None else now) - int(age[1]) * _UNIT_MS[age[2]]
    try:
        at = datetime.fromisoformat(when)
    except ValueError:
        what = f"{when!r} is neither a date such as 2026-01-31 nor an age such as 30d"
        raise argparse.ArgumentTypeError(what) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def add_metrics(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``metrics``."""
    metrics = commands.add_parser(
        "metrics", help="what the last week says of the future; or all figures of now, as Prometheus reads them"
    )
    add_application_options(metrics)
    _add_since(metrics, "7d", "36h (7d)")
    metrics.add_argument(
        "--max-rto", type=float, metavar="SECONDS", help="forecast when a replay of a whole changelog takes longer"
    )
    how = metrics.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="the forecasts, for programs")
    how.add_argument("--prometheus", action="store_true", help="the figures of now, without forecasts")
    metrics.set_defaults(act=_metrics)


def _metrics(asked: argparse.Namespace) -> int:
    cluster = cluster_of(asked)
    if asked.prometheus:
        print(exposition(_samples(cluster, asked.application_id)), end="")
        return ExitStatus.FINE
    records = read_metrics(cluster, asked.application_id, asked.since)
    forecasts = _forecasts(cluster, asked, records)
    if asked.json:
        print(json.dumps({"records": len(records), "forecasts": to_plain(forecasts)}, indent=2))
    else:
        print("\n".join(forecasts.lines()) if records else "no metrics")
    return ExitStatus.FINE


def _samples(cluster: KafkaConnection, application_id: str) -> list[Sample]:
    """Of the application, and of the instances that are heard now."""
    timeouts = Timeouts()
    with ControlReader(cluster, application_id) as reader:
        state = look(reader, timeouts.instance_s, timeouts)
    watcher = state.view.watcher if state.watched else None
    figures = ApplicationFigures(state.view, dict.fromkeys(state.silent, math.inf), timeouts, watcher)
    return [
        *figures.samples(),
        *(one for status in figures.alive.values() for one in InstanceFigures(status).samples()),
    ]


def _forecasts(
    cluster: KafkaConnection, asked: argparse.Namespace, records: Sequence[MetricsRecord]
) -> MetricsForecasts:
    history: Sequence[HistoryRecord] = ()
    if asked.max_rto is not None:
        with contextlib.suppress(TopicMissingError):  # then failovers take what is the default
            history = read_history(cluster, asked.application_id)
    return metrics_forecasts(records, now_ms(), max_rto_s=asked.max_rto, basis=rto_basis(history, {}))
