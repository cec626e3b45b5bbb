"""``status``: one look at an application, or one after the other."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from airflow_provider.cli.application_state import ApplicationState
from airflow_provider.cli.options import add_application_options, add_seconds, add_start_timeout, cluster_of
from airflow_provider.cli.terminal import ExitStatus, say
from airflow_provider.common.clock import now_ms
from airflow_provider.common.interruption import interruptible
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.outlook.losses import LATELY_MS, recent_losses
from airflow_provider.control.outlook.metrics_topic import read_metrics
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import SILENT_AFTER_S, Watcher
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.topics.liveness import SilenceClock, Timeouts, may_be_starting
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
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
    add_seconds(status, "--listen", 5.0, "for heartbeats")
    add_start_timeout(status)
    status.add_argument(
        "--watch", type=_interval, nargs="?", const=1.0, metavar="SECONDS", help="show it again and again, until Ctrl-C"
    )
    status.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    cluster, timeouts = cluster_of(asked), Timeouts(start_s=asked.start_timeout)
    with ControlReader(cluster, asked.application_id) as reader:
        if asked.watch is not None:
            _watch(asked, cluster, reader, timeouts)
            return ExitStatus.FINE
        state = look(reader, asked.listen, timeouts)
    history = known_history(cluster, asked.application_id)
    if history is None:
        say("the history could not be read: the RTO is predicted by defaults, and the last one is not known")
    state = _completed(asked, state, history or (), known_metrics(cluster, asked.application_id))
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
    return state.to_text(standbys=asked.standbys, everything=asked.all)


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


def expected_instances(view: ControlView, timeouts: Timeouts) -> set[str]:
    """The instances that send heartbeats, as far as was reported.

    One that was launched a short while ago sends nothing before Spark is up, and is not waited for.
    """
    alive = {name: status for name, status in view.statuses.items() if status.state.alive}
    return {name for name, status in alive.items() if not may_be_starting(status, now_ms(), timeouts)}


_CLEAR: Final = "\x1b[H\x1b[2J"
_HISTORY_EVERY_S: Final = 60.0


class HeartbeatWatch:
    """Which instances are silent, from one look to the next. The caller passes the time in, in monotonic seconds."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._clock = SilenceClock()
        self._heard_at_ms: dict[str, int] = {}

    def silent(self, view: ControlView, now: float) -> set[str]:
        """Those that are expected to send heartbeats, and sent none for too long."""
        for name, heard_at_ms in view.heard_at_ms.items():
            if self._heard_at_ms.get(name) != heard_at_ms:
                self._heard_at_ms[name] = heard_at_ms
                self._clock.heard(name, now)
        expected = expected_instances(view, self._timeouts)
        self._clock.expect(expected, now)
        silent_for_s = self._clock.silent_for_s(now)
        return {name for name in expected if silent_for_s[name] > self._timeouts.instance_s}


class WatcherWatch:
    """Whether a watcher lives, from one look to the next. The caller passes the time in, in monotonic seconds."""

    def __init__(self) -> None:
        self._last: Watcher | None = None
        self._heard_at = -math.inf

    def watched(self, view: ControlView, now: float) -> bool:
        """Whether it said so lately."""
        if view.watcher is not self._last:
            # At the first look the broker's clock says how old it is; afterwards it came just now.
            self._heard_at = now - (max(0.0, view.watcher_silent_for_s) if self._last is None else 0.0)
            self._last = view.watcher
        return view.watcher is not None and now - self._heard_at <= SILENT_AFTER_S


def _watch(asked: argparse.Namespace, cluster: KafkaConnection, reader: ControlReader, timeouts: Timeouts) -> None:
    """Show the status until Ctrl-C: redrawn on a terminal, one after the other where it goes into a file."""
    heartbeats, watcher = HeartbeatWatch(timeouts), WatcherWatch()
    view = reader.read_to_end()

    def known() -> tuple[Sequence[HistoryRecord] | None, Sequence[MetricsRecord]]:
        return known_history(cluster, asked.application_id), known_metrics(cluster, asked.application_id)

    (read, metrics), known_at = known(), time.monotonic()
    history = read or ()
    try:
        with interruptible(signal.SIGINT):
            while True:
                now = time.monotonic()
                if now - known_at > _HISTORY_EVERY_S:
                    (read, metrics), known_at = known(), now
                    history = read or history
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
