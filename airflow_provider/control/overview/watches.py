"""Which instances are silent and whether a watcher lives, from one look to the next."""

from __future__ import annotations

import math

from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.incident import SILENT_AFTER_S, Watcher
from airflow_provider.control.topics.liveness import SilenceClock, Timeouts, may_be_starting
from airflow_provider.control.topics.view import ControlView


def expected_instances(view: ControlView, timeouts: Timeouts) -> set[str]:
    """The instances that send heartbeats, as far as was reported.

    One that was launched a short while ago sends nothing before Spark is up, and is not waited for.
    """
    alive = {name: status for name, status in view.statuses.items() if status.state.alive}
    return {name for name, status in alive.items() if not may_be_starting(status, now_ms(), timeouts)}


class HeartbeatWatch:
    """Which instances are silent, from one look to the next. The caller passes the time in, in monotonic seconds."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._clock = SilenceClock()
        self._heard_at_ms: dict[str, int] = {}
        self._at_first: dict[str, int] | None = None

    def known(self, view: ControlView, now: float) -> bool:
        """Whether each that is expected was heard since the first look, or silent for too long since then."""
        silent = self.silent(view, now)
        if self._at_first is None:
            self._at_first = dict(view.heard_at_ms)
        expected = expected_instances(view, self._timeouts) - silent
        return all(view.heard_at_ms.get(name) != self._at_first.get(name) for name in expected)

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
