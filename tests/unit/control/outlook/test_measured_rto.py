from __future__ import annotations

import dataclasses

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.record import HistoryKind, RtoParts
from airflow_provider.control.outlook.measured_rto import measured_rto_ms
from tests.unit.control.outlook.test_phase_times import failover

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)


def test_newest_failover_that_was_measured_counts_for_each_of_its_tasks() -> None:
    both = dataclasses.replace(failover(), tasks=(FIRST, SECOND))
    later = dataclasses.replace(both, tasks=(FIRST,), rto=RtoParts(total_ms=900))
    unmeasured = dataclasses.replace(both, rto=RtoParts(detected_ms=5))
    upgrade = dataclasses.replace(both, kind=HistoryKind.UPGRADE, rto=RtoParts(total_ms=1))

    assert measured_rto_ms([both, later, unmeasured, upgrade]) == {FIRST: 900, SECOND: 3_310}


def test_nothing_is_measured_before_the_first_failover() -> None:
    assert measured_rto_ms([]) == {}
