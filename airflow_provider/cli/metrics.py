"""``metrics``: the figures of an application's instances over the last week."""

from __future__ import annotations

import argparse
import json

from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.history import since_ms
from airflow_provider.common.clock import now_ms
from airflow_provider.control.metrics_record import metrics_plain
from airflow_provider.control.metrics_table import metrics_table
from airflow_provider.control.metrics_topic import read_metrics

__all__ = ["add_metrics"]


def add_metrics(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``metrics``."""
    metrics = commands.add_parser("metrics", help="disk, changelog growth, lags and rates over the last week")
    add_application_options(metrics)
    metrics.add_argument(
        "--since", metavar="WHEN", default="7d", help="a date such as 2026-01-31 (UTC), or an age such as 36h (7d)"
    )
    metrics.add_argument("--json", action="store_true", help="every record, for programs")
    metrics.set_defaults(act=_act, refuse=metrics.error)


def _act(asked: argparse.Namespace) -> int:
    try:
        since = since_ms(asked.since, now_ms())
    except ValueError as error:
        asked.refuse(f"argument --since: {error}")
    records = read_metrics(cluster_of(asked), asked.application_id, since)
    if asked.json:
        print(json.dumps({"records": [metrics_plain(record) for record in records]}, indent=2))
    else:
        print(metrics_table(records))
    return ExitStatus.FINE
