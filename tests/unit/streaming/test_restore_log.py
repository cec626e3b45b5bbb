from __future__ import annotations

import dataclasses
import logging

import pytest

from airflow_provider.control.status import RestorePhase, Role, TaskState, TaskStatus
from airflow_provider.streaming.restore_log import RestoreLog

RESTORING = TaskStatus(
    3, Role.STANDBY, TaskState.FOLLOWING, lag_records=5, restored_records=15, restored_bytes=1_500, restore_s=2.0,
    restore_phase=RestorePhase.CHANGELOG,
)  # fmt: skip
DONE = dataclasses.replace(RESTORING, lag_records=0, restored_records=20, restore_phase=None)


def test_restore_is_told_once_in_a_while_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    told = RestoreLog()
    with caplog.at_level(logging.INFO):
        for status in (RESTORING, RESTORING, DONE, DONE):
            told.tell([status])

    assert caplog.messages == [
        "task 3 restores, changelog: 15 of 20 records (75 %)",
        "task 3 is restored: 20 records, 1,500 bytes in 2.0 s",
    ]


def test_copy_that_never_restored_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        RestoreLog().tell([DONE])

    assert not caplog.messages
