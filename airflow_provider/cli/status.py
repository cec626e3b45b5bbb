"""``status``: one look at an application."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Final

from airflow_provider.cli.application_state import ApplicationState
from airflow_provider.cli.cluster import add_application_options, cluster_of
from airflow_provider.cli.exit_status import ExitStatus
from airflow_provider.cli.instances_expected import expected_instances
from airflow_provider.cli.start_timeout_option import add_start_timeout
from airflow_provider.cli.status_watch import watch
from airflow_provider.cli.waiting import say
from airflow_provider.common.clock import now_ms
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.outlook.losses import LATELY_MS, recent_losses
from airflow_provider.control.outlook.metrics_topic import read_metrics
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import SILENT_AFTER_S
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection

_HISTORY_MS: Final = 180 * 86_400_000
_HISTORY_S: Final = 5.0
_METRICS_MS: Final = LATELY_MS + 180_000
"""With a record that is older than what is looked at."""


def add_status(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``status``."""
    status = commands.add_parser("status", help="instances, tasks with state and lags, open incidents, problems")
    add_application_options(status)
    status.add_argument("--standbys", action="store_true", help="a table of the standbys: lag, certificate, snapshot")
    status.add_argument("--all", action="store_true", help="a line for each task and each problem, however many")
    status.add_argument("--json", action="store_true", help="everything, for programs")
    status.add_argument("--check", action="store_true", help="exit with 3 when there is a problem")
    status.add_argument(
        "--num-standby-replicas", type=int, default=1, metavar="N", help="each task is to have (%(default)d)"
    )
    status.add_argument("--listen", type=float, default=5.0, metavar="SECONDS", help="for heartbeats (%(default)g)")
    add_start_timeout(status)
    status.add_argument(
        "--watch", type=_interval, nargs="?", const=1.0, metavar="SECONDS", help="show it again and again, until Ctrl-C"
    )
    status.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster, application_id = cluster_of(asked), asked.application_id
    timeouts = Timeouts(start_s=asked.start_timeout)
    with ControlReader(cluster, application_id) as reader:
        if asked.watch is not None:
            watch(
                reader,
                lambda: known_history(cluster, application_id),
                lambda: known_metrics(cluster, application_id),
                asked.watch,
                timeouts,
                as_json=asked.json,
                standbys=asked.standbys,
                everything=asked.all,
                num_standby_replicas=asked.num_standby_replicas,
            )
            return ExitStatus.FINE
        state = look(reader, asked.listen, timeouts)
    history = known_history(cluster, application_id)
    if history is None:
        say("the history could not be read: the RTO is predicted by defaults, and the last one is not known")
    state = dataclasses.replace(
        state,
        history=history or (),
        losses=recent_losses(known_metrics(cluster, application_id), state.view.statuses, now_ms(), LATELY_MS),
        num_standby_replicas=asked.num_standby_replicas,
    )
    print(
        json.dumps(state.to_json(), indent=2)
        if asked.json
        else state.to_text(standbys=asked.standbys, everything=asked.all)
    )
    return ExitStatus.NO if asked.check and state.problems else ExitStatus.FINE


def _interval(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def look(reader: ControlReader, listen_s: float, timeouts: Timeouts) -> ApplicationState:
    """Read the control topics to their end, and listen until each living instance was heard again.

    Where none is, only the watcher's next word tells whether it lives, and is listened for as well.

    Args:
        listen_s: how long to listen at most, to each of them.
        timeouts: how long a start may take.

    Raises:
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """
    view = reader.read_to_end()
    silent = reader.listen(lambda: expected_instances(view, timeouts), listen_s)
    if expected_instances(view, timeouts) - silent:
        watched = view.watcher_silent_for_s <= SILENT_AFTER_S
    else:
        watched = view.watcher is not None and reader.listen_for_watcher(listen_s)
    return ApplicationState(view, silent, watched=watched)


def known_history(cluster: KafkaConnection, application_id: str) -> tuple[HistoryRecord, ...] | None:
    """The history of half a year; empty where the application has none, None where it could not be read soon."""
    try:
        return read_history(cluster, application_id, since=now_ms() - _HISTORY_MS, timeout_s=_HISTORY_S)
    except TopicMissingError:
        return ()
    except BrokerUnreachableError:
        return None


def known_metrics(cluster: KafkaConnection, application_id: str) -> tuple[MetricsRecord, ...]:
    """The metrics of the last minutes; empty where the application has none, or they could not be read soon."""
    try:
        return read_metrics(cluster, application_id, since=now_ms() - _METRICS_MS, timeout_s=_HISTORY_S)
    except (TopicMissingError, BrokerUnreachableError, ConfigurationError):
        return ()
