from __future__ import annotations

import dataclasses

import msgspec
import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.metrics import (
    METRICS_FORMAT,
    MetricsRecord,
    TaskMetrics,
    metrics_record,
    metrics_value,
    read_metrics_value,
)
from airflow_provider.control.records.status import DiskStatus, RestorePhase, Role, SourceStatus, TaskState
from tests.builders import APPLICATION, active, instance, standby

TASK = TaskMetrics(
    task=TaskId(0, 3),
    role=Role.ACTIVE,
    state=TaskState.RUNNING,
    generation=4,
    processed_records=900,
    source_lag_records=5,
    changelog_end=1_200,
    store_bytes=4_096,
)
RECORD = MetricsRecord(
    application_id=APPLICATION,
    instance="a",
    incarnation=7,
    at_ms=60_000,
    host="host-a",
    disk_used_bytes=4_096,
    disk_free_bytes=1 << 30,
    tasks=(TASK,),
)


def test_record_is_read_as_it_was_written_and_timed_by_the_broker() -> None:
    assert read_metrics_value(metrics_value(RECORD), 61_000) == dataclasses.replace(RECORD, at_ms=61_000)


def test_fields_that_a_newer_version_added_are_skipped_and_a_newer_format_is_refused() -> None:
    plain = msgspec.json.decode(metrics_value(RECORD))

    assert read_metrics_value(msgspec.json.encode({**plain, "colour": "blue"}), 60_000) == RECORD
    with pytest.raises(msgspec.ValidationError, match=r"found format 2, this version reads up to 1: .* upgrade"):
        read_metrics_value(msgspec.json.encode({**plain, "format": METRICS_FORMAT + 1}), 60_000)


def test_record_has_what_a_status_says_of_the_instance_and_of_each_copy() -> None:
    status = dataclasses.replace(
        instance(
            "a",
            active(0, end=500, processed_records=70, source=SourceStatus(lag_records=3)),
            standby(1, lag_records=20, lag_s=1.5, end=30, restore_phase=RestorePhase.CHANGELOG, restored_records=10),
            incarnation=7,
            host="host-a",
        ),
        disk=DiskStatus("/state", 2_000, 9_000),
    )

    found = metrics_record(status, {TaskId(0, 0): 1_500}, at_ms=60_000)

    assert (found.instance, found.incarnation, found.host) == ("a", 7, "host-a")
    assert (found.disk_used_bytes, found.disk_free_bytes) == (2_000, 9_000)
    first, second = found.tasks
    assert (first.processed_records, first.source_lag_records, first.changelog_end) == (70, 3, 500)
    assert (first.store_bytes, first.restoring) == (1_500, False)
    assert (second.changelog_end, second.store_bytes) == (30, None)
    assert (second.restoring, second.restored_records) == (True, 10)


def test_record_of_an_instance_of_a_hundred_tasks_is_small() -> None:
    tasks = tuple(dataclasses.replace(TASK, task=TaskId(0, number)) for number in range(100))

    assert len(metrics_value(dataclasses.replace(RECORD, tasks=tasks))) < 50_000
