from __future__ import annotations

from airflow_provider.cli.status_watch import HeartbeatWatch, fitted
from airflow_provider.control.status import InstanceState
from tests.builders import active, assigned, instance, standby, view_of


def test_instance_is_silent_once_no_other_heartbeat_came_for_too_long() -> None:
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)))
    heartbeats = HeartbeatWatch(timeout_s=5.0)

    assert heartbeats.silent(view, 100.0) == set()
    view.heard_at_ms["b"] = 3_000
    assert heartbeats.silent(view, 104.0) == set()
    assert heartbeats.silent(view, 106.0) == {"a"}
    view.heard_at_ms["a"] = 9_000
    assert heartbeats.silent(view, 108.0) == set()
    assert heartbeats.silent(view, 110.0) == {"b"}


def test_instance_that_ended_is_not_silent() -> None:
    view = view_of(assigned("a"), instance("a", state=InstanceState.STOPPED))
    heartbeats = HeartbeatWatch(timeout_s=5.0)
    heartbeats.silent(view, 100.0)

    assert heartbeats.silent(view, 200.0) == set()


def test_what_the_terminal_has_no_line_for_is_left_out() -> None:
    text = "\n".join("abcdefgh")

    assert fitted(text, 9) == text
    assert fitted(text, 5).splitlines() == [
        "a",
        "b",
        "c",
        "... 5 more lines: use a higher window, or leave --watch out",
    ]
