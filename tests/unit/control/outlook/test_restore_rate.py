from __future__ import annotations

import dataclasses
from typing import Any

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.record import HistoryKind, HistoryRecord
from airflow_provider.control.history.task_restore import TaskRestore
from airflow_provider.control.outlook.restore_rate import RestoreRate, restore_rate
from airflow_provider.control.status import RestorePhase, RestoreStatus, TaskStatus
from tests.builders import APPLICATION, active, instance, standby


def restored(
    name: str, records: int = 20_000, took_s: float = 2.0, kind: HistoryKind = HistoryKind.RESTORE
) -> HistoryRecord:
    restore = TaskRestore(task=TaskId(0, 0), instance=name, records=records, bytes=10 * records, took_s=took_s)
    return HistoryRecord(
        application_id=APPLICATION, kind=kind, id=name, cause="replay", at_ms=1, by="run", restores=(restore,)
    )


def restoring(task: TaskStatus, **restore: Any) -> TaskStatus:
    return dataclasses.replace(task, restore=RestoreStatus(**restore))


def rate(name: str | None, *history: HistoryRecord, **tasks: TaskStatus) -> RestoreRate:
    return restore_rate(name, {name: instance(name, task) for name, task in tasks.items()}, history)


def test_instance_is_judged_by_its_own_restores() -> None:
    assert rate("b", restored("a", took_s=0.1), restored("b"), restored("b", 40_000, took_s=8.0)) == RestoreRate(
        records_per_s=6_000.0, bytes_per_s=60_000.0, measured=True
    )


def test_instance_without_a_restore_is_judged_by_the_others() -> None:
    assert rate("c", restored("a")).records_per_s == 10_000.0
    assert rate(None, restored("a")).records_per_s == 10_000.0


def test_default_where_nothing_or_only_little_was_restored() -> None:
    few = restored("b", records=9_999)

    assert rate("b", few) == RestoreRate(records_per_s=100_000.0, bytes_per_s=None, measured=False)


def test_failover_counts_once_although_its_drill_has_the_same_restores() -> None:
    both = [restored("b", kind=HistoryKind.FAILOVER), restored("b", took_s=1.0, kind=HistoryKind.DRILL)]

    assert rate("b", *both).records_per_s == 10_000.0


def test_replay_of_a_drill_that_no_failover_answers_counts() -> None:
    shadow = dataclasses.replace(restored("b", kind=HistoryKind.DRILL), cause="shadow_restore")

    assert rate("b", shadow).records_per_s == 10_000.0


def test_restore_under_way_and_that_of_an_active_count() -> None:
    now = {"records": 30_000, "took_s": 3.0}

    assert rate("b", b=restoring(standby(0), phase=RestorePhase.CHANGELOG, **now)).records_per_s == 10_000.0
    assert rate("b", b=restoring(active(0), **now)).records_per_s == 10_000.0


def test_what_a_standby_followed_since_its_restore_is_no_rate() -> None:
    assert not rate("b", b=restoring(standby(0), records=30_000_000, took_s=3.0)).measured
