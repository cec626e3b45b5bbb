"""What can be waited for of disks, sources, changelogs, drills and certificates."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.outlook.metrics_forecasts import ChangelogGrowth
from airflow_provider.control.records.history import HistoryOutcome
from airflow_provider.control.records.status import (
    CertificateStatus,
    DiskStatus,
    InstanceState,
    InstanceStatus,
    SourceStatus,
    TaskState,
    TaskStatus,
)
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Needs, Outcome
from airflow_provider.control.waiting.figures import ChangelogGrowthWithin, DiskSpaceFree, SourceLagWithin
from airflow_provider.control.waiting.recovery import DrillPassedWithin
from airflow_provider.control.waiting.standby import StandbysWarm
from tests.builders import active, assigned, instance, seen, standby
from tests.unit.control.outlook.test_drill_age import DAY_MS, PASSED

PAIR = assigned("a b", "b a")
T0, T1 = TaskId(0, 0), TaskId(0, 1)
MIB = 1 << 20


def on_disk(name: str, free_bytes: int | None, **more: Any) -> InstanceStatus:
    return dataclasses.replace(instance(name, host=f"host-{name}", **more), disk=DiskStatus("/state", 0, free_bytes))


def lagging(task: int, lag_records: int | None, state: TaskState = TaskState.RUNNING, **more: Any) -> TaskStatus:
    return active(task, state, source=SourceStatus(lag_records=lag_records), **more)


class TestDiskSpaceFree:
    ENOUGH = DiskSpaceFree(min_free_bytes=100 * MIB)

    def test_every_assigned_instance_needs_room(self) -> None:
        met = self.ENOUGH.evaluate(seen(PAIR, on_disk("a", 100 * MIB), on_disk("b", 200 * MIB)))

        assert (met.outcome, met.result) == (Outcome.MET, {"free_bytes": {"a": 100 * MIB, "b": 200 * MIB}})

    @pytest.mark.parametrize(
        ("b", "line"),
        [
            pytest.param(on_disk("b", 99 * MIB), "b has 99 MiB left at /state on host-b", id="too-little"),
            pytest.param(on_disk("b", None), "b has not measured its disk yet", id="unknown"),
            pytest.param(on_disk("b", 200 * MIB, state=InstanceState.ENDED), "b is not alive", id="ended"),
        ],
    )
    def test_one_without_room_is_named(self, b: InstanceStatus, line: str) -> None:
        found = self.ENOUGH.evaluate(seen(PAIR, on_disk("a", 100 * MIB), b))

        assert (found.outcome, found.seen) == (Outcome.WAITING, line)

    def test_only_the_named_instances_count(self) -> None:
        only_a = DiskSpaceFree(min_free_bytes=100 * MIB, instances=("a",))

        assert only_a.evaluate(seen(PAIR, on_disk("a", 100 * MIB), on_disk("b", 0))).outcome is Outcome.MET


class TestSourceLagWithin:
    TEN = SourceLagWithin(max_lag_records=10)

    def test_every_task_has_to_be_within(self) -> None:
        met = self.TEN.evaluate(seen(PAIR, instance("a", lagging(0, 10)), instance("b", lagging(1, 0))))
        over = self.TEN.evaluate(seen(PAIR, instance("a", lagging(0, 1_100)), instance("b", lagging(1, 0))))

        assert (met.outcome, met.result) == (Outcome.MET, {"lag_records": {"0_0": 10, "0_1": 0}})
        assert (over.outcome, over.seen) == (Outcome.WAITING, "task 0_0 on a has 1,100 unread records of its source")

    @pytest.mark.parametrize(
        "task",
        [lagging(0, None), lagging(0, 0, TaskState.RESTORING), lagging(0, 0, error="no answer")],
        ids=["unknown", "restoring", "error"],
    )
    def test_lag_that_says_nothing_does_not_count(self, task: TaskStatus) -> None:
        found = self.TEN.evaluate(seen(PAIR, instance("a", task), instance("b", lagging(1, 0))))

        assert found.outcome is Outcome.WAITING
        assert "0_0" in found.seen

    def test_only_the_named_tasks_count(self) -> None:
        one = SourceLagWithin(max_lag_records=10, tasks=(T1,))

        assert one.evaluate(seen(PAIR, instance("b", lagging(1, 0)))).outcome is Outcome.MET

    def test_failed_and_unknown_tasks_are_failures(self) -> None:
        failed = seen(PAIR, instance("a", lagging(0, 0, TaskState.FAILED, error="it broke")))

        assert self.TEN.evaluate(failed).outcome is Outcome.FAILED
        unknown = SourceLagWithin(max_lag_records=1, tasks=(TaskId(0, 9),))
        assert unknown.evaluate(seen(PAIR)).outcome is Outcome.FAILED


class TestChangelogGrowthWithin:
    THOUSAND = ChangelogGrowthWithin(max_records_per_day=1_000, window_s=7_200.0)

    def found(self, condition: Condition, *growths: ChangelogGrowth) -> Evaluation:
        return condition.evaluate(seen(PAIR, growths={growth.task: growth for growth in growths}))

    def growth(self, task: TaskId, records_per_day: float | None, why: str = "") -> ChangelogGrowth:
        return ChangelogGrowth(
            task=task,
            end=5,
            records_per_day=records_per_day,
            store_bytes=None,
            store_bytes_per_day=None,
            why=why,
        )

    def test_it_needs_the_growth_over_its_window(self) -> None:
        assert self.THOUSAND.needs() == Needs(growth_s=7_200.0)

    def test_every_task_has_to_be_within(self) -> None:
        met = self.found(self.THOUSAND, self.growth(T0, 1_000.0), self.growth(T1, 3.6))
        over = self.found(self.THOUSAND, self.growth(T0, 1_001.0), self.growth(T1, 3.6))

        assert (met.outcome, met.result) == (Outcome.MET, {"records_per_day": {"0_0": 1_000, "0_1": 4}})
        assert (over.outcome, over.seen) == (Outcome.WAITING, "that of task 0_0 grows by 1,001 records a day")

    def test_too_few_records_say_nothing(self) -> None:
        found = self.found(self.THOUSAND, self.growth(T0, None, "3 record(s) over 2 minutes"))

        assert found.outcome is Outcome.WAITING
        assert found.seen == (
            "task 0_0: not enough records: 3 record(s) over 2 minutes; task 0_1: not enough records: there is no record"
        )

    def test_only_the_named_tasks_count(self) -> None:
        one = ChangelogGrowthWithin(max_records_per_day=1_000, tasks=(T1,))

        assert self.found(one, self.growth(T0, 9e9), self.growth(T1, 0.0)).outcome is Outcome.MET


class TestDrillPassedWithin:
    WEEK = DrillPassedWithin(max_age_s=7 * 86_400.0)

    def test_it_needs_the_history(self) -> None:
        assert self.WEEK.needs() == Needs(history=True)

    def test_drill_of_this_week_is_enough(self) -> None:
        met = self.WEEK.evaluate(seen(PAIR, history=[PASSED], now_ms=8 * DAY_MS))

        assert met.outcome is Outcome.MET
        assert met.result == {"id": "1", "cause": "crash", "passed_at_ms": DAY_MS + 60_000}

    def test_old_one_or_none_is_waited_for_and_says_why(self) -> None:
        failed = dataclasses.replace(PASSED, id="2", at_ms=8 * DAY_MS, outcome=HistoryOutcome.FAILED, reason="too late")

        old = self.WEEK.evaluate(seen(PAIR, history=[PASSED, failed], now_ms=9 * DAY_MS))

        assert old.outcome is Outcome.WAITING
        assert "the last one was failed: too late" in old.seen
        assert self.WEEK.evaluate(seen(PAIR, now_ms=9 * DAY_MS)).outcome is Outcome.WAITING

    def test_kind_may_be_asked_for(self) -> None:
        hang = DrillPassedWithin(max_age_s=7 * 86_400.0, cause="hang")

        assert hang.evaluate(seen(PAIR, history=[PASSED], now_ms=2 * DAY_MS)).outcome is Outcome.WAITING


@pytest.mark.parametrize(
    ("certificate", "expected"),
    [
        pytest.param(CertificateStatus(10, 9_000), Outcome.MET, id="lately"),
        pytest.param(CertificateStatus(10, 1_000), Outcome.WAITING, id="long-ago"),
        pytest.param(CertificateStatus(10, None), Outcome.WAITING, id="who-knows-when"),
        pytest.param(CertificateStatus(), Outcome.WAITING, id="never"),
    ],
)
def test_certificate_may_have_to_be_young(certificate: CertificateStatus, expected: Outcome) -> None:
    b = instance("b", dataclasses.replace(standby(0), certificate=certificate))
    within = StandbysWarm(certified=True, certified_within_s=5.0)

    found = within.evaluate(seen(assigned("a b"), instance("a", active(0)), b, now_ms=10_000))

    assert found.outcome is expected
    assert "certified standby(s)" not in str(StandbysWarm())
    assert "certified (within the last 5 s)" in str(within)
