from __future__ import annotations

from airflow_provider.common.clock import now_ms
from airflow_provider.control.overview.watches import HeartbeatWatch, WatcherWatch, expected_instances
from airflow_provider.control.records.incident import Watcher
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.liveness import Timeouts
from tests.builders import active, assigned, instance, standby, view_of

TIMEOUTS = Timeouts(instance_s=5.0, start_s=400.0)


def test_instance_is_silent_once_no_other_heartbeat_came_for_too_long() -> None:
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)))
    heartbeats = HeartbeatWatch(TIMEOUTS)

    assert heartbeats.silent(view, 100.0) == set()
    view.heard_at_ms["b"] = 3_000
    assert heartbeats.silent(view, 104.0) == set()
    assert heartbeats.silent(view, 106.0) == {"a"}
    view.heard_at_ms["a"] = 9_000
    assert heartbeats.silent(view, 108.0) == set()
    assert heartbeats.silent(view, 110.0) == {"b"}


def test_nothing_is_known_before_each_was_heard_again_or_was_silent_for_too_long() -> None:
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)))
    heartbeats = HeartbeatWatch(TIMEOUTS)

    assert not heartbeats.known(view, 100.0)
    view.heard_at_ms["b"] = 3_000
    assert not heartbeats.known(view, 101.0)
    assert heartbeats.known(view, 105.1)
    assert heartbeats.silent(view, 105.1) == {"a"}


def test_instance_that_ended_is_not_silent() -> None:
    view = view_of(assigned("a"), instance("a", state=InstanceState.STOPPED))
    heartbeats = HeartbeatWatch(TIMEOUTS)
    heartbeats.silent(view, 100.0)

    assert heartbeats.silent(view, 200.0) == set()


def test_instance_is_expected_once_a_start_may_not_take_longer() -> None:
    launched = {name: now_ms() - ago_s * 1000 for name, ago_s in (("late", 410), ("soon", 300))}
    starting = (
        instance(name, state=InstanceState.STARTING, incarnation=incarnation) for name, incarnation in launched.items()
    )

    assert expected_instances(view_of(assigned("a"), *starting), TIMEOUTS) == {"late"}


def test_watcher_is_silent_once_it_said_nothing_for_too_long() -> None:
    view, watching = view_of(None), WatcherWatch()
    assert not watching.watched(view, 100.0)
    view.watcher, view.watcher_heard_at_ms = said(1), view.newest_ms

    assert watching.watched(view, 101.0)
    assert watching.watched(view, 110.0)
    assert not watching.watched(view, 112.0)
    view.watcher = said(2)
    assert watching.watched(view, 113.0)


def test_watcher_that_was_silent_before_the_first_look_is_found_at_once() -> None:
    view = view_of(None)
    view.watcher, view.watcher_heard_at_ms, view.newest_ms = said(1), 1_000, 30_000

    assert not WatcherWatch().watched(view, 100.0)


def said(at_ms: int) -> Watcher:
    return Watcher(application_id="app", host="h", pid=1, began_at_ms=1, sent_at_ms=at_ms)
