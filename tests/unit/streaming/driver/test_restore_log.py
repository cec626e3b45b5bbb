from __future__ import annotations

import dataclasses
import logging

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import RestorePhase, RestoreStatus, Role, TaskState, TaskStatus
from airflow_provider.streaming.driver.restore_log import RestoreLog

RESTORING = TaskStatus(
    task=TaskId(0, 3),
    role=Role.STANDBY,
    state=TaskState.FOLLOWING,
    lag_records=5,
    restore=RestoreStatus(phase=RestorePhase.CHANGELOG, records=15, bytes=1_500, took_s=2.0),
)
DONE = dataclasses.replace(
    RESTORING, lag_records=0, restore=dataclasses.replace(RESTORING.restore, records=20, phase=None)
)


def test_restore_is_logged_once_in_a_while_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    restores = RestoreLog()
    with caplog.at_level(logging.INFO):
        for status in (RESTORING, RESTORING, DONE, DONE):
            restores.update([status])

    assert caplog.messages == [
        "task 0_3 restores, changelog: 15 of 20 records (75 %)",
        "task 0_3 is restored: 20 records, 1,500 bytes in 2.0 s",
    ]


def test_copy_that_never_restored_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        RestoreLog().update([DONE])

    assert not caplog.messages
