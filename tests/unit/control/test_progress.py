from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.control.progress import progress_line
from airflow_provider.control.status import RestorePhase, Role, TaskState, TaskStatus

RESTORING = TaskStatus(
    1, Role.STANDBY, TaskState.FOLLOWING, lag_records=800_000, caught_up_in_s=2.2, restored_records=1_200_000,
    restored_bytes=139_200_000, restore_bytes_left=92_800_000, restore_records_per_s=410_000.4,
    restore_phase=RestorePhase.CHANGELOG,
)  # fmt: skip


def test_line_tells_phase_done_left_rate_and_forecast() -> None:
    assert progress_line(RESTORING) == (
        "changelog: 1,200,000 of 2,000,000 records (60 %), 139.2 of 232.0 MB, 410,000 records/s, done in 2 s"
    )


def test_what_is_not_known_yet_is_left_out() -> None:
    begun = TaskStatus(
        1, Role.ACTIVE, TaskState.RESTORING, lag_records=10, restore_phase=RestorePhase.CHANGELOG, caught_up_in_s=None
    )

    assert progress_line(begun) == "changelog: 0 of 10 records (0 %)"


@pytest.mark.parametrize(("seconds", "words"), [(89.4, "89 s"), (600.0, "10 min"), (7200.0, "2.0 h")])
def test_forecast_has_a_unit_that_fits(seconds: float, words: str) -> None:
    assert str(progress_line(dataclasses.replace(RESTORING, caught_up_in_s=seconds))).endswith(f"done in {words}")


@pytest.mark.parametrize("change", [{"restore_phase": None}, {"lag_records": 0}, {"lag_records": None}])
def test_task_with_nothing_left_has_no_line(change: dict[str, object]) -> None:
    assert progress_line(dataclasses.replace(RESTORING, **change)) is None  # type: ignore[arg-type]


def test_standby_is_warm_only_after_its_restore() -> None:
    assert not RESTORING.warm
    assert dataclasses.replace(RESTORING, restore_phase=None).warm
