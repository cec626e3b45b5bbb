"""``status``: one look at an application, or one after the other."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from airflow_provider.cli.application_text import state_text
from airflow_provider.cli.options import add_application_options, add_seconds, add_start_timeout, cluster_of
from airflow_provider.cli.terminal import ExitStatus, printable, say
from airflow_provider.common.clock import now_ms
from airflow_provider.common.interruption import interruptible
from airflow_provider.control.outlook.losses import LATELY_MS, recent_losses
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.records import known_history, known_metrics
from airflow_provider.control.overview.watches import HeartbeatWatch, WatcherWatch, expected_instances
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import SILENT_AFTER_S
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection


def add_status(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``status``."""
    status = commands.add_parser("status", help="instances, tasks with state and lags, open incidents, problems")
    add_application_options(status)
    status.add_argument("--standbys", action="store_true", help="a table of the standbys: lag, certificate, snapshot")
    status.add_argument("--all", action="store_true", help="a line for each task and each problem, however many")
    status.add_argument("--json", action="store_true", help="everything, for programs")
    status.add_argument(
        "--check",
        action="store_true",
        help="exit with 3 when there is a problem; a pause by a person is none, nor that nobody watches",
    )
    status.add_argument(
        "--num-standby-replicas", type=int, default=1, metavar="N", help="each task is to have (%(default)d)"
    )
    add_seconds(status, "--listen", 5.0, "for heartbeats")
    add_start_timeout(status)
    status.add_argument(
        "--watch", type=_interval, nargs="?", const=1.0, metavar="SECONDS", help="show it again and again, until Ctrl-C"
    )
    status.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster, timeouts = cluster_of(asked), Timeouts(start_s=asked.start_timeout)
    with ControlReader(cluster, asked.application_id, follows=asked.watch is not None) as reader:
        if asked.watch is not None:
            _watch(asked, cluster, reader, timeouts)
            return ExitStatus.FINE
        state = look(reader, asked.listen, timeouts)
    history = known_history(cluster, asked.application_id)
    if history is None:
        say("the history could not be read: the RTO is predicted by defaults, and the last one is not known")
    state = _completed(asked, state, history or (), known_metrics(cluster, asked.application_id) or ())
    print(_text(asked, state, indent=2))
    return ExitStatus.NO if asked.check and state.problems else ExitStatus.FINE


def _completed(
    asked: argparse.Namespace,
    state: ApplicationState,
    history: Sequence[HistoryRecord],
    metrics: Sequence[MetricsRecord],
) -> ApplicationState:
    return dataclasses.replace(
        state,
        history=history,
        losses=recent_losses(metrics, state.view.statuses, now_ms(), LATELY_MS),
        num_standby_replicas=asked.num_standby_replicas,
    )


def _text(asked: argparse.Namespace, state: ApplicationState, indent: int | None = None) -> str:
    if asked.json:
        return json.dumps(state.to_json(), indent=indent)
    return printable(state_text(state, standbys=asked.standbys, everything=asked.all))


def _interval(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def look(reader: ControlReader, listen_s: float, timeouts: Timeouts) -> ApplicationState:
    """Read the control topics to their end, and listen until each living instance was heard again.

    Where none is, only the watcher's next word tells whether it lives, and is listened for as well.
    """
    view = reader.read_to_end()
    silent = reader.listen(lambda: expected_instances(view, timeouts), listen_s)
    if expected_instances(view, timeouts) - silent:
        watched = view.watcher_silent_for_s <= SILENT_AFTER_S
    else:
        watched = view.watcher is not None and reader.listen_for_watcher(listen_s)
    return ApplicationState(view, silent, watched=watched)


_CLEAR: Final = "\x1b[H\x1b[2J"
_HISTORY_EVERY_S: Final = 60.0
_LISTEN_S: Final = 0.2


def _watch(asked: argparse.Namespace, cluster: KafkaConnection, reader: ControlReader, timeouts: Timeouts) -> None:
    """Show the status until Ctrl-C: redrawn on a terminal, one after the other where it goes into a file."""
    heartbeats, watcher = HeartbeatWatch(timeouts), WatcherWatch()
    view = reader.read_to_end()

    def known() -> tuple[Sequence[HistoryRecord] | None, Sequence[MetricsRecord] | None]:
        return known_history(cluster, asked.application_id), known_metrics(cluster, asked.application_id)

    (read, of_now), known_at = known(), time.monotonic()
    history, metrics = read or (), of_now or ()
    try:
        with interruptible(signal.SIGINT):
            # Before each was heard, or was silent for too long, one that is dead would be shown as living.
            until = time.monotonic() + asked.listen
            while not heartbeats.known(view, now := time.monotonic()) and now < until:
                reader.poll(min(_LISTEN_S, until - now))
            while True:
                now = time.monotonic()
                if now - known_at > _HISTORY_EVERY_S:
                    (read, of_now), known_at = known(), now
                    history, metrics = read or history, of_now or metrics
                state = ApplicationState(view, heartbeats.silent(view, now), watched=watcher.watched(view, now))
                text = _text(asked, _completed(asked, state, history, metrics))
                if asked.json:
                    print(text, flush=True)
                elif sys.stdout.isatty():
                    print(_CLEAR + fitted(text, shutil.get_terminal_size().lines), end="", flush=True)
                else:
                    print(f"{text}\n", flush=True)
                until = time.monotonic() + asked.watch
                while (left_s := until - time.monotonic()) > 0:
                    reader.poll(left_s)
    except KeyboardInterrupt:
        print()


def fitted(text: str, lines: int) -> str:
    """The text without what the terminal has no line for."""
    found = text.splitlines()
    if len(found) < lines:
        return text
    left = len(found) - (lines - 2)
    return "\n".join([*found[: lines - 2], f"... {left} more lines: use a higher window, or leave --watch out"])
