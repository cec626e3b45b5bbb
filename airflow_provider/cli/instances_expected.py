"""Which instances are to send heartbeats."""

from __future__ import annotations

from airflow_provider.common.clock import now_ms
from airflow_provider.control.topics.liveness import Timeouts, may_be_starting
from airflow_provider.control.topics.view import ControlView


def expected_instances(view: ControlView, timeouts: Timeouts) -> set[str]:
    """The instances that send heartbeats, as far as was reported.

    One that was launched a short while ago sends nothing before Spark is up, and is not waited for.

    Args:
        timeouts: how long a start may take.
    """
    alive = {name: status for name, status in view.statuses.items() if status.state.alive}
    return {name for name, status in alive.items() if not may_be_starting(status, now_ms(), timeouts)}
