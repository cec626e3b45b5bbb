"""A status that is shown again and again."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from typing import Final

from airflow_provider.cli.application_state import ApplicationState
from airflow_provider.cli.instances_expected import expected_instances
from airflow_provider.cli.interruption import interruptible
from airflow_provider.control.liveness import Timeouts
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.silence import SilenceClock
from airflow_provider.control.view import ControlView

__all__ = ["HeartbeatWatch", "fitted", "watch"]

_CLEAR: Final = "\x1b[H\x1b[2J"


class HeartbeatWatch:
    """Which instances are silent, from one look to the next. The caller passes the time in.

    Args:
        timeout_s: how long one may be silent.
    """

    def __init__(self, timeout_s: float = Timeouts.instance_s) -> None:
        self._timeout_s = timeout_s
        self._clock = SilenceClock()
        self._heard_at_ms: dict[str, int] = {}

    def silent(self, view: ControlView, now: float) -> set[str]:
        """Those that are expected to send heartbeats, and sent none for too long.

        Args:
            view: the newest.
            now: monotonic seconds.
        """
        for name, heard_at_ms in view.heard_at_ms.items():
            if self._heard_at_ms.get(name) != heard_at_ms:
                self._heard_at_ms[name] = heard_at_ms
                self._clock.heard(name, now)
        expected = expected_instances(view)
        self._clock.expect(expected, now)
        silent_for_s = self._clock.silent_for_s(now)
        return {name for name in expected if silent_for_s[name] > self._timeout_s}


def watch(reader: ControlReader, interval_s: float, *, as_json: bool) -> None:
    """Show the status until Ctrl-C: redrawn on a terminal, one after the other where it goes into a file.

    Args:
        reader: of the application.
        interval_s: between two looks.
        as_json: one line of JSON each.

    Raises:
        TopicMissingError: the application has no control topics.
        BrokerUnreachableError: no broker answered.
    """
    heartbeats = HeartbeatWatch()
    view = reader.read_to_end()
    try:
        with interruptible(signal.SIGINT):
            while True:
                state = ApplicationState(view, heartbeats.silent(view, time.monotonic()))
                if as_json:
                    print(json.dumps(state.to_json()), flush=True)
                elif sys.stdout.isatty():
                    print(_CLEAR + fitted(state.to_text(), shutil.get_terminal_size().lines), end="", flush=True)
                else:
                    print(f"{state.to_text()}\n", flush=True)
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
