"""By when the rows of a held task are late for the stage behind it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.losses import late_outlooks
from airflow_provider.control.records.assignment import Assignment, TaskAssignment
from airflow_provider.control.records.status import InstanceStatus, SourceStatus, TableWaitStatus, TaskState, TimeStatus
from airflow_provider.control.topics.view import ControlView
from airflow_provider.streaming import StatefulJob, stream, window
from airflow_provider.streaming import functions as F
from tests.builders import active, instance, standby, view_of

JOB = StatefulJob(
    "app",
    stream("flights", schema="airport STRING, at TIMESTAMP", event_time="at", watermark="10 minutes")
    .group_by("airport", window("at", "1 hour"))
    .aggregate(F.count())
    .sink("hourly"),
)
FIRST, OTHER, HOURLY = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)
MINUTE = 60_000


def view(*statuses: InstanceStatus, job: StatefulJob = JOB) -> ControlView:
    tasks = {
        FIRST: TaskAssignment("a", ("b",), 1),
        OTHER: TaskAssignment("b", (), 1),
        HOURLY: TaskAssignment("b", (), 1),
    }
    found = view_of(Assignment(application_id="app", generation=1, tasks=tasks, reason="test"), *statuses)
    return dataclasses.replace(found, job=job.description())


def lines(found: ControlView, *silent: str) -> list[str]:
    return list(map(str, late_outlooks(found, silent)))


def others(watermark_ms: int = 50 * MINUTE, **more: Any) -> InstanceStatus:
    """The instance that runs, and holds a copy of the first task."""
    behind = active(HOURLY, time=TimeStatus(watermark_ms=watermark_ms))
    return instance("b", active(OTHER, stream_time_ms=60 * MINUTE), behind, standby(FIRST, **more))


HELD = active(FIRST, TaskState.FAILED, stream_time_ms=55 * MINUTE)


def test_held_task_says_by_when_its_rows_begin_to_be_late() -> None:
    (line,) = lines(view(instance("a", HELD), others()))

    assert line == (
        "task 0_0 is held at event time 1970-01-01T00:55:00+00:00: its rows begin to be late for stage 1 (hourly) when "
        "that has got 300 s of event time further, its watermark stands at 1970-01-01T00:50:00+00:00. Pause the "
        "instances until it is well, by the operate DAG, and time stands still."
    )


def test_held_task_whose_rows_are_late_already_says_so() -> None:
    (line,) = lines(view(instance("a", HELD), others(watermark_ms=60 * MINUTE)))

    assert line.startswith(
        "task 0_0 is held at event time 1970-01-01T00:55:00+00:00, and rows before 1970-01-01T01:00:00+00:00 are late "
        "for stage 1 (hourly): those in between will be left out and counted."
    )


def test_copy_tells_where_a_lost_instance_stood() -> None:
    (outlook,) = late_outlooks(view(others(stream_time_ms=54 * MINUTE)))

    assert (outlook.tasks, outlook.stands_ms) == ((FIRST,), 54 * MINUTE)


def test_where_it_stood_may_not_be_known() -> None:
    (line,) = lines(view(others()))

    assert line.startswith("task 0_0 is held: rows before 1970-01-01T00:50:00+00:00 are late for stage 1 (hourly) when")


WAITING = SourceStatus(waits_for=TableWaitStatus(topic="customers", task=OTHER))


@pytest.mark.parametrize(
    ("status", "silent"),
    [
        pytest.param(instance("a", active(FIRST, stream_time_ms=1)), ("a",), id="silent"),
        pytest.param(instance("a", active(FIRST, stream_time_ms=1), paused=True), (), id="paused"),
        pytest.param(instance("a", active(FIRST, TaskState.OWNING, stream_time_ms=1)), (), id="owning"),
        pytest.param(instance("a", active(FIRST, stream_time_ms=1, stalled_s=500.0)), (), id="stands-still"),
        pytest.param(instance("a", active(FIRST, stream_time_ms=1, source=WAITING)), (), id="waits-for-a-table"),
    ],
)
def test_whatever_holds_a_task_is_told_of(status: InstanceStatus, silent: tuple[str, ...]) -> None:
    assert len(lines(view(status, others()), *silent)) == 1


def test_task_that_runs_is_not_told_of() -> None:
    assert lines(view(instance("a", active(FIRST, stream_time_ms=1)), others())) == []


def test_where_every_task_is_held_nothing_moves_time() -> None:
    held = instance("b", active(OTHER, TaskState.FAILED), active(HOURLY, time=TimeStatus(watermark_ms=50 * MINUTE)))

    assert lines(view(instance("a", HELD), held)) == []


def test_stage_that_leaves_no_row_out_has_no_line() -> None:
    counted = StatefulJob(
        "app",
        stream("flights", schema="airport STRING").group_by("airport").aggregate(F.count()).sink("hourly"),
    )

    assert lines(view(instance("a", HELD), others(), job=counted)) == []
