from __future__ import annotations

from airflow_provider.control.status import TaskState
from airflow_provider.streaming.driver.failure_clock import FailureClock
from tests.builders import active


def test_time_counts_from_the_first_report_of_the_failure() -> None:
    clock, failed = FailureClock(), active(0, TaskState.FAILED)

    assert clock.failed_s(active(0), 1.0) is None
    assert clock.failed_s(failed, 10.0) == 0.0
    assert clock.failed_s(failed, 402.5) == 392.5


def test_task_that_went_on_or_failed_in_another_generation_counts_afresh() -> None:
    clock, failed = FailureClock(), active(0, TaskState.FAILED)
    clock.failed_s(failed, 1.0)

    assert clock.failed_s(active(0, TaskState.FAILED, generation=2), 5.0) == 0.0
    assert clock.failed_s(active(0), 6.0) is None
    assert clock.failed_s(failed, 8.0) == 0.0
    assert clock.failed_s(active(1, TaskState.FAILED), 9.0) == 0.0
