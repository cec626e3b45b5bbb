"""What was left out lately: told from what is kept each minute, over owners that come and go."""

from __future__ import annotations

import dataclasses

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.losses import HOUR_MS, Losses, loss_lines, recent_losses
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics, metrics_record
from airflow_provider.control.records.status import InstanceState, InstanceStatus, Role, TaskState, TaskStatus

TASK, OTHER = TaskId(0, 0), TaskId(0, 1)
NOW = 100 * HOUR_MS


def task(late: int, left_out: int, task_id: TaskId = TASK, role: Role = Role.ACTIVE) -> TaskStatus:
    return TaskStatus(task=task_id, role=role, state=TaskState.RUNNING, late_records=late, failed_records=left_out)


def instance(name: str, *tasks: TaskStatus) -> InstanceStatus:
    return InstanceStatus(application_id="app", instance=name, incarnation=1, state=InstanceState.RUNNING, tasks=tasks)


def kept(minutes_ago: int, *tasks: TaskStatus, name: str = "a") -> MetricsRecord:
    return metrics_record(instance(name, *tasks), {}, NOW - minutes_ago * 60_000)


def found(records: list[MetricsRecord], *statuses: InstanceStatus) -> dict[TaskId, Losses]:
    return recent_losses(records, {status.instance: status for status in statuses}, NOW, HOUR_MS)


def test_losses_are_counted_from_the_last_record_before_the_time() -> None:
    records = [kept(90, task(1, 0)), kept(61, task(5, 1)), kept(30, task(7, 2))]

    assert found(records, instance("a", task(9, 4))) == {
        TASK: Losses(late=4, left_out=3, late_in_all=9, left_out_in_all=4)
    }


def test_losses_of_a_young_application_are_counted_from_its_first_record() -> None:
    assert found([kept(5, task(1, 0)), kept(4, task(2, 0))], instance("a", task(9, 4)))[TASK].late == 8


def test_next_owner_goes_on_counting_and_the_one_before_is_not_believed() -> None:
    records = [kept(61, task(5, 0)), kept(1, task(8, 0), name="b")]

    assert found(records, instance("b", task(9, 0)), instance("a", task(6, 0)))[TASK].late == 4


def test_standby_and_task_without_a_record_are_not_told_of() -> None:
    assert found([kept(61, task(0, 0, role=Role.STANDBY))], instance("a", task(9, 4))) == {}
    assert found([kept(61, task(0, 0))], instance("a", task(9, 4, role=Role.STANDBY))) == {}


def test_record_of_an_earlier_version_says_nothing() -> None:
    record = kept(61, task(5, 1))
    old: tuple[TaskMetrics, ...] = tuple(
        dataclasses.replace(one, late_records=None, left_out_records=None) for one in record.tasks
    )

    assert found([dataclasses.replace(record, tasks=old)], instance("a", task(9, 4))) == {}


def test_line_for_each_kind_names_the_tasks_with_the_most_first() -> None:
    losses = {
        TASK: Losses(late=1, left_out=0, late_in_all=1, left_out_in_all=7),
        OTHER: Losses(late=1_500, left_out=0, late_in_all=2_000, left_out_in_all=0),
    }

    assert list(loss_lines(losses, "within the last ten minutes")) == [
        "1,501 records came too late within the last ten minutes and were left out (task 0_1: 1,500, task 0_0: 1), "
        "2,001 since the application began"
    ]


def test_what_was_left_out_long_ago_makes_no_line() -> None:
    losses = {TASK: Losses(late=0, left_out=0, late_in_all=9, left_out_in_all=9)}

    assert list(loss_lines(losses, "within the last ten minutes")) == []
