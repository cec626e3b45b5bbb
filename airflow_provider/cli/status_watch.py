"""A status that is shown again and again."""

from __future__ import annotations

import json
import math
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from airflow_provider.cli.application_state import ApplicationState
from airflow_provider.cli.instances_expected import expected_instances
from airflow_provider.common.clock import now_ms
from airflow_provider.common.interruption import interruptible
from airflow_provider.control.outlook.losses import LATELY_MS, recent_losses
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.incident import SILENT_AFTER_S, Watcher
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.topics.liveness import SilenceClock, Timeouts
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView

_CLEAR: Final = "\x1b[H\x1b[2J"
_HISTORY_EVERY_S: Final = 60.0


class HeartbeatWatch:
    """Which instances are silent, from one look to the next. The caller passes the time in.

    Args:
        timeouts: how long one may be silent, and take to start.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._clock = SilenceClock()
        self._heard_at_ms: dict[str, int] = {}

    def silent(self, view: ControlView, now: float) -> set[str]:
        """Those that are expected to send heartbeats, and sent none for too long.

        Args:
            now: monotonic seconds.
        """
        for name, heard_at_ms in view.heard_at_ms.items():
            if self._heard_at_ms.get(name) != heard_at_ms:
                self._heard_at_ms[name] = heard_at_ms
                self._clock.heard(name, now)
        expected = expected_instances(view, self._timeouts)
        self._clock.expect(expected, now)
        silent_for_s = self._clock.silent_for_s(now)
        return {name for name in expected if silent_for_s[name] > self._timeouts.instance_s}


class WatcherWatch:
    """Whether a watcher lives, from one look to the next. The caller passes the time in."""

    def __init__(self) -> None:
        self._last: Watcher | None = None
        self._heard_at = -math.inf

    def watched(self, view: ControlView, now: float) -> bool:
        """Whether it said so lately.

        Args:
            now: monotonic seconds.
        """
        if view.watcher is not self._last:
            # At the first look the broker's clock says how old it is; afterwards it came just now.
            self._heard_at = now - (max(0.0, view.watcher_silent_for_s) if self._last is None else 0.0)
            self._last = view.watcher
        return view.watcher is not None and now - self._heard_at <= SILENT_AFTER_S


def watch(
    reader: ControlReader,
    read_history: Callable[[], Sequence[HistoryRecord] | None],
    read_metrics: Callable[[], Sequence[MetricsRecord]],
    interval_s: float,
    timeouts: Timeouts,
    *,
    as_json: bool,
    standbys: bool = False,
    everything: bool = False,
    num_standby_replicas: int = 1,
) -> None:
    """Show the status until Ctrl-C: redrawn on a terminal, one after the other where it goes into a file.

    Args:
        read_history: of the application, asked once a minute; None where it cannot be read now.
        read_metrics: those of the last minutes, asked as often.
        interval_s: between two looks.
        timeouts: how long an instance may be silent, and take to start.
        as_json: one line of JSON each.
        standbys: a table of the standbys instead of those of instances and tasks.
        everything: as of `ApplicationState.to_text`.
        num_standby_replicas: wanted standbys per task.

    Raises:
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """
    heartbeats, watcher = HeartbeatWatch(timeouts), WatcherWatch()
    view = reader.read_to_end()
    history, metrics, known_at = read_history() or (), read_metrics(), time.monotonic()
    try:
        with interruptible(signal.SIGINT):
            while True:
                now = time.monotonic()
                if now - known_at > _HISTORY_EVERY_S:
                    history, metrics, known_at = read_history() or history, read_metrics(), now
                silent = heartbeats.silent(view, now)
                state = ApplicationState(
                    view,
                    silent,
                    watched=watcher.watched(view, now),
                    history=history,
                    losses=recent_losses(metrics, view.statuses, now_ms(), LATELY_MS),
                    num_standby_replicas=num_standby_replicas,
                )
                text = (
                    json.dumps(state.to_json()) if as_json else state.to_text(standbys=standbys, everything=everything)
                )
                if as_json:
                    print(text, flush=True)
                elif sys.stdout.isatty():
                    print(_CLEAR + fitted(text, shutil.get_terminal_size().lines), end="", flush=True)
                else:
                    print(f"{text}\n", flush=True)
                until = time.monotonic() + interval_s
                while (left_s := until - time.monotonic()) > 0:
                    reader.poll(left_s)
    except KeyboardInterrupt:
        print()


def fitted(text: str, lines: int) -> str:
    """The text without what the terminal has no line for.

    Args:
        text: to be shown.
        lines: of the terminal.
    """
    found = text.splitlines()
    if len(found) < lines:
        return text
    left = len(found) - (lines - 2)
    return "\n".join([*found[: lines - 2], f"... {left} more lines: use a higher window, or leave --watch out"])
