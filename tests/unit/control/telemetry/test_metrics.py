"""The table of metrics, and what comes of statuses and of the control topics."""

from __future__ import annotations

import re

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.common.timer_count import TimerCount
from airflow_provider.control.records.incident import Unanswered, Watcher
from airflow_provider.control.records.status import (
    DiskStatus,
    InstanceState,
    RestorePhase,
    TaskState,
    TimeStatus,
    WorkStatus,
)
from airflow_provider.control.telemetry.metrics import METRICS, ApplicationFigures, InstanceFigures, Kind, Level, Metric
from airflow_provider.control.telemetry.push import statsd_name
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import active, assigned, instance, standby

BUSY = active(
    0,
    processed_records=70,
    records_per_s=7.0,
    work=WorkStatus(
        commits=3,
        commits_per_s=0.5,
        process_latency_ns=800.0,
        commit_latency_ms=20.0,
        lateness_avg_ms=2.5,
        lateness_max_ms=9,
    ),
    late_records=2,
    failed_records=1,
    lost_records=4,
    timers={"clock": TimerCount(5, 1)},
    time=TimeStatus(watermark_ms=1_000),
    memory_bytes=9,
    end=11,
    lag_records=0,
    lag_s=0.0,
    stalled_s=6.0,
    source_lag=8,
)
RESTORING = active(
    1,
    TaskState.RESTORING,
    lag_records=60,
    restore_phase=RestorePhase.CHANGELOG,
    restored_records=40,
)
STATUS = instance("a", BUSY, RESTORING, standby(2), disk=DiskStatus("/s", 100, 900))


def values(status: InstanceFigures | ApplicationFigures) -> dict[str, float]:
    return {statsd_name(sample).removeprefix("stateful_streams.app."): sample.value for sample in status.samples()}


def test_names_are_one_each_in_every_system() -> None:
    for names in (
        [(metric.level, metric.name) for metric in METRICS],
        [metric.otel_name for metric in METRICS],
        [metric.prometheus_name for metric in METRICS],
    ):
        assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", metric.name) for metric in METRICS)


def test_counters_and_they_alone_are_totals_but_for_the_one_gauge_that_kafka_calls_so() -> None:
    totals = {metric.name for metric in METRICS if metric.name.endswith("-total")}

    assert totals == {m.name for m in METRICS if m.kind is Kind.COUNTER} | {"restore-remaining-records-total"}


@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [
        pytest.param("process-rate", "{record/s}", Kind.GAUGE, "stateful_streams_task_process_rate", id="gauge"),
        pytest.param("commit-total", "{commit}", Kind.COUNTER, "stateful_streams_task_commit_total", id="counter"),
        pytest.param("store-size", "By", Kind.GAUGE, "stateful_streams_task_store_size_bytes", id="bytes"),
        pytest.param("read-total", "By", Kind.COUNTER, "stateful_streams_task_read_bytes_total", id="counted-bytes"),
        pytest.param("lag-total", "{r}", Kind.GAUGE, "stateful_streams_task_lag_total", id="gauge-called-total"),
    ],
)
def test_prometheus_name_follows_the_rules_of_opentelemetry(name: str, unit: str, kind: Kind, expected: str) -> None:
    assert Metric(Level.TASK, name, unit, kind, "", lambda _: None).prometheus_name == expected


def test_instance_and_its_tasks_by_their_heartbeat() -> None:
    found = values(InstanceFigures(STATUS, {TaskId(0, 0): 512}))

    assert (
        found.items()
        >= {
            "a.state.running": 1.0,
            "a.state.ended": 0.0,
            "a.active-running-tasks": 1.0,
            "a.active-restoring-tasks": 1.0,
            "a.standby-updating-tasks": 1.0,
            "a.failed-tasks": 0.0,
            "a.disk-free": 900.0,
            "a.0_0.active.process-total": 70.0,
            "a.0_0.active.process-rate": 7.0,
            "a.0_0.active.process-latency-avg": 800.0,
            "a.0_0.active.commit-total": 3.0,
            "a.0_0.active.commit-latency-avg": 20.0,
            "a.0_0.active.dropped-records-total.late": 2.0,
            "a.0_0.active.dropped-records-total.failed": 1.0,
            "a.0_0.active.records-lag": 8.0,
            "a.0_0.active.stalled-time": 6.0,
            "a.0_0.active.watermark": 1_000.0,
            "a.0_0.active.record-lateness-avg": 2.5,
            "a.0_0.active.record-lateness-max": 9.0,
            "a.0_0.active.timers.clock": 5.0,
            "a.0_0.active.store-size": 512.0,
            "a.0_1.active.restore-remaining-records-total": 60.0,
            "a.0_1.active.restore-total": 40.0,
            "a.0_2.standby.changelog-records-lag": 0.0,
        }.items()
    )


def test_what_only_an_active_has_is_not_said_of_a_standby_and_what_is_not_known_of_none() -> None:
    found = values(InstanceFigures(instance("a", standby(2), active(3))))

    assert "a.0_2.standby.process-total" not in found
    assert "a.0_3.active.process-total" in found
    assert "a.0_3.active.records-lag" not in found
    assert "a.disk-free" not in found


def test_paused_instance_processes_no_task() -> None:
    found = values(InstanceFigures(instance("a", active(0), active(1), paused=True)))

    assert found["a.paused-tasks"] == 2.0


def view(*statuses: InstanceFigures) -> ControlView:
    return ControlView(
        "app",
        assignment=assigned("a b", "b a", "a"),
        statuses={one.status.instance: one.status for one in statuses},
    )


A = InstanceFigures(instance("a", active(0), standby(1), active(2)))
B = InstanceFigures(instance("b", active(1), standby(0)))
WATCHER = Watcher(
    application_id="app", host="h", pid=1, began_at_ms=0, sent_at_ms=0,
    unanswered=(Unanswered(incident="i", what="b ended", reported_at_ms=0),),
)  # fmt: skip


def test_whole_application_lacks_only_the_standby_that_is_not_assigned() -> None:
    found = values(ApplicationFigures(view(A, B), {}, Timeouts()))

    expected = {"alive-instances": 2.0, "lost-instances": 0.0, "standing-tasks": 0.0, "unprotected-tasks": 1.0}
    assert found.items() >= expected.items()
    assert "unanswered-incidents" not in found


@pytest.mark.parametrize(
    ("b", "silent_for_s"),
    [
        pytest.param(B, {"b": 60.0}, id="silent"),
        pytest.param(InstanceFigures(instance("b", state=InstanceState.ENDED)), {}, id="ended"),
    ],
)
def test_lost_instance_leaves_its_tasks_standing_and_the_others_unprotected(
    b: InstanceFigures, silent_for_s: dict[str, float]
) -> None:
    found = values(ApplicationFigures(view(A, b), silent_for_s, Timeouts(), WATCHER))

    assert (
        found.items()
        >= {
            "alive-instances": 1.0,
            "lost-instances": 1.0,
            "standing-tasks": 1.0,
            "unprotected-tasks": 2.0,
            "unanswered-incidents": 1.0,
        }.items()
    )


def test_application_that_was_never_assigned_has_no_tasks_to_tell_of() -> None:
    found = values(ApplicationFigures(ControlView("app"), {}, Timeouts()))

    assert found == {"alive-instances": 0.0, "lost-instances": 0.0, "unresolved-incidents": 0.0}


def test_every_metric_of_a_status_has_a_value_where_all_is_known() -> None:
    whole = active(0, stalled_s=1.0, source_lag=1, work=BUSY.work, time=BUSY.time, timers=BUSY.timers, memory_bytes=1)
    status = instance("a", whole, standby(1, end=3), disk=DiskStatus("/s", 1, 2))

    named = {sample.metric for sample in InstanceFigures(status, {TaskId(0, 0): 1}).samples()}

    assert {metric.name for metric in METRICS if metric.level is not Level.APPLICATION} == {m.name for m in named}
