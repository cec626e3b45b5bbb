from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import (
    FailureStatus,
    RestorePhase,
    RestoreStatus,
    Role,
    TaskState,
    TaskStatus,
    progress_line,
)

RESTORING = TaskStatus(
    task=TaskId(0, 1),
    role=Role.STANDBY,
    state=TaskState.FOLLOWING,
    lag_records=800_000,
    restore=RestoreStatus(
        phase=RestorePhase.CHANGELOG,
        records=1_200_000,
        bytes=139_200_000,
        bytes_left=92_800_000,
        records_per_s=410_000.4,
        remaining_s=2.2,
    ),
)
DONE = dataclasses.replace(RESTORING, restore=dataclasses.replace(RESTORING.restore, phase=None))


def test_line_tells_phase_done_left_rate_and_forecast() -> None:
    assert progress_line(RESTORING) == (
        "changelog: 1,200,000 of 2,000,000 records (60 %), 139.2 of 232.0 MB, 410,000 records/s, done in 2 s"
    )


def test_what_is_not_known_yet_is_left_out() -> None:
    begun = TaskStatus(
        task=TaskId(0, 1),
        role=Role.ACTIVE,
        state=TaskState.RESTORING,
        lag_records=10,
        restore=RestoreStatus(phase=RestorePhase.CHANGELOG),
    )

    assert progress_line(begun) == "changelog: 0 of 10 records (0 %)"


@pytest.mark.parametrize(("seconds", "words"), [(89.4, "89 s"), (600.0, "10 min"), (7200.0, "2.0 h")])
def test_forecast_has_a_unit_that_fits(seconds: float, words: str) -> None:
    restore = dataclasses.replace(RESTORING.restore, remaining_s=seconds)

    assert str(progress_line(dataclasses.replace(RESTORING, restore=restore))).endswith(f"done in {words}")


@pytest.mark.parametrize("lag_records", [0, None])
def test_task_with_nothing_left_has_no_line(lag_records: int | None) -> None:
    assert progress_line(dataclasses.replace(RESTORING, lag_records=lag_records)) is None
    assert progress_line(DONE) is None


def test_standby_is_warm_only_after_its_restore() -> None:
    assert not RESTORING.warm
    assert DONE.warm


def test_failover_counts_on_a_warm_copy_with_which_nothing_is_wrong() -> None:
    failed = dataclasses.replace(DONE, failure=FailureStatus("StoreDivergedError", "another digest"))

    assert (DONE.ready, RESTORING.ready, failed.ready) == (True, False, False)
