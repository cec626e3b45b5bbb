from __future__ import annotations

import dataclasses
from typing import Any

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.metrics_forecasts import changelog_series, disk_series, store_series
from airflow_provider.control.records.metrics import MetricsRecord, TaskMetrics
from airflow_provider.control.records.status import Role, TaskState
from tests.builders import APPLICATION

T0 = TaskId(0, 0)
TASK = TaskMetrics(task=T0, role=Role.ACTIVE, state=TaskState.RUNNING, generation=1, changelog_end=10, store_bytes=100)
COPY = dataclasses.replace(TASK, role=Role.STANDBY, state=TaskState.FOLLOWING)


def record(at_ms: int, *tasks: TaskMetrics, name: str = "a", incarnation: int = 1, **more: Any) -> MetricsRecord:
    return MetricsRecord(
        application_id=APPLICATION,
        instance=name,
        incarnation=incarnation,
        at_ms=at_ms,
        tasks=tasks,
        **{"host": "h", "disk_free_bytes": 1_000, **more},
    )


def grown(end: int, generation: int = 1, store_bytes: int | None = 100) -> TaskMetrics:
    return dataclasses.replace(TASK, changelog_end=end, generation=generation, store_bytes=store_bytes)


def test_changelog_is_one_run_over_its_owners() -> None:
    records = [record(2, grown(20)), record(1, grown(10)), record(3, grown(35, generation=2), name="b")]

    (points,) = changelog_series(records).values()

    assert [(point.at_ms, point.value) for point in points] == [(1, 10), (2, 20), (3, 35)]
    assert len({point.run for point in points}) == 1


def test_owner_that_was_followed_by_another_is_not_believed_any_more() -> None:
    next_one = record(2, grown(20, generation=2), name="b")
    records = [record(1, grown(10)), next_one, record(3, grown(11)), record(4, COPY)]

    assert [point.value for point in changelog_series(records)[T0]] == [10, 20]


def test_changelog_that_was_created_anew_begins_anew() -> None:
    records = [record(1, grown(500)), record(2, grown(3)), record(3, grown(4))]

    assert [point.value for point in changelog_series(records)[T0]] == [3, 4]


def test_store_of_each_owner_is_a_run_and_one_that_is_restored_is_left_out() -> None:
    restoring = dataclasses.replace(TASK, restoring=True, store_bytes=7, generation=2)
    records = [
        record(1, grown(1, store_bytes=100)),
        record(2, restoring, name="b"),
        record(3, grown(2, generation=2, store_bytes=60), name="b"),
        record(4, grown(2, generation=2, store_bytes=None), name="b"),
    ]

    points = store_series(records)[T0]

    assert [point.value for point in points] == [100, 60]
    assert len({point.run for point in points}) == 2


def test_disk_has_a_run_for_each_process_host_and_set_of_tasks() -> None:
    records = [
        record(1, TASK),
        record(2, COPY),  # demoted, with the same store
        record(3, TASK, incarnation=2),
        record(4, TASK, incarnation=2, host="other"),
        record(5, incarnation=2, host="other"),
        record(6, TASK, name="b"),
    ]

    series = disk_series(records)

    assert {name: len(points) for name, points in series.items()} == {"a": 5, "b": 1}
    assert len({point.run for point in series["a"]}) == 4


def test_disk_while_a_store_is_restored_and_one_that_is_not_known_are_left_out() -> None:
    restoring = dataclasses.replace(COPY, restoring=True)
    records = [record(1, restoring), record(2, TASK, disk_free_bytes=None), record(3, TASK)]

    assert [point.at_ms for point in disk_series(records)["a"]] == [3]
