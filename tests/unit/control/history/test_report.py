from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import recovery_of, report
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records.status import TaskStatus
from tests.builders import APPLICATION, active, assigned, instance, promoted, view_of

INCIDENT = Incident(
    application_id=APPLICATION,
    kind=IncidentKind.INSTANCE_ENDED,
    instance="a",
    incarnation=1,
    tasks=(TaskId(0, 0), TaskId(0, 1)),
    evidence="killed by signal 9",
)
RECORD = IncidentRecord(
    incident=INCIDENT,
    answered_by="run",
    detected_at_ms=1_100,
    decided_at_ms=2_000,
    generation=2,
    plan=(promoted(0, "b"),),
    resolved_at_ms=9_000,
    failed_at_ms=1_000,
)
OWNED: dict[str, Any] = {"generation": 2, "restored_records": 4}


def test_last_task_counts() -> None:
    b = instance(
        "b",
        active(0, owned_at_ms=2_100, first_commit_at_ms=2_500, **OWNED),
        active(1, owned_at_ms=2_200, first_commit_at_ms=3_000, **OWNED),
    )

    found = report(RECORD, view_of(assigned("b", "b", generation=2), b))

    assert (found.owned_at_ms, found.first_commit_at_ms, found.restored_records) == (2_200, 3_000, 8)
    assert found.rto_ms == 2_000
    assert "RTO" in str(found)
    assert "2.00 s" in str(found)


def test_output_that_a_clock_puts_before_the_failure_is_not_measured_and_names_the_clocks() -> None:
    b = instance(
        "b",
        active(0, owned_at_ms=2_100, first_commit_at_ms=2_500, **OWNED),
        active(1, owned_at_ms=2_200, first_commit_at_ms=3_000, **OWNED),
    )
    record = dataclasses.replace(RECORD, failed_at_ms=1_790_000)

    found = report(record, view_of(assigned("b", "b", generation=2), b))

    assert (found.rto_ms, found.first_commit_at_ms) == (None, 3_000)
    assert found.unmeasured == "not measured: the clocks of the brokers and of b differ by 1787.0 s or more"
    assert f"  {found.unmeasured}" in str(found).splitlines()


def test_output_of_an_owner_whose_clock_is_ahead_is_measured_by_the_brokers_clock() -> None:
    b = instance(
        "b",
        active(0, owned_at_ms=602_100, first_commit_at_ms=602_500, **OWNED),
        active(1, owned_at_ms=602_200, first_commit_at_ms=603_000, **OWNED),
        sent_at_ms=604_000,
    )
    view = view_of(assigned("b", "b", generation=2), b)
    view.heard_at_ms["b"] = view.newest_ms = 4_000

    found = report(RECORD, view)

    assert (found.owned_at_ms, found.first_commit_at_ms, found.rto_ms) == (2_200, 3_000, 2_000)


COMMITTED = active(0, owned_at_ms=2_100, first_commit_at_ms=2_500)


def waiting(source_lag: int | None, uncommitted_records: int = 0) -> TaskStatus:
    return active(1, owned_at_ms=2_200, stalled_s=0.0, source_lag=source_lag, uncommitted_records=uncommitted_records)


def test_task_without_input_since_is_named_and_the_others_are_measured() -> None:
    found = report(RECORD, view_of(assigned("b", "b", generation=2), instance("b", COMMITTED, waiting(0))))

    assert (found.first_commit_at_ms, found.rto_ms) == (2_500, 1_500)
    assert found.owned_at_ms == 2_200
    assert found.without_input == (TaskId(0, 1),)
    assert "not measured, because they had no input: 0_1" in str(found)


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(waiting(5), id="has-input"),
        pytest.param(waiting(None), id="not-known-yet"),
        pytest.param(waiting(0, uncommitted_records=3), id="of-an-open-transaction"),
    ],
)
def test_task_that_has_input_and_has_not_committed_leaves_the_rto_open(task: TaskStatus) -> None:
    found = report(RECORD, view_of(assigned("b", "b", generation=2), instance("b", COMMITTED, task)))

    assert (found.first_commit_at_ms, found.rto_ms) == (None, None)
    assert found.without_input == ()


def test_nothing_is_measured_where_no_task_had_input() -> None:
    idle = [dataclasses.replace(waiting(0), task=TaskId(0, number)) for number in (0, 1)]

    found = report(RECORD, view_of(assigned("b", "b", generation=2), instance("b", *idle)))

    assert found.rto_ms is None
    assert found.without_input == (TaskId(0, 0), TaskId(0, 1))


def test_task_that_moved_on_tells_nothing_of_this_failover() -> None:
    c = instance("c", active(0, first_commit_at_ms=8_000, owned_at_ms=7_000), active(1, first_commit_at_ms=8_000))

    found = report(RECORD, view_of(assigned("c", "c", generation=3), c))

    assert (found.owned_at_ms, found.rto_ms) == (None, None)


def test_report_is_plain() -> None:
    plain = to_plain(report(RECORD, view_of(None)))

    assert plain["decisions"] == ["task 0_0: promote on b (lag 0)"]


def test_what_was_noted_at_the_end_is_reported_however_the_tasks_moved_since() -> None:
    b = instance(
        "b",
        active(0, owned_at_ms=2_100, first_commit_at_ms=2_500, resumed_offset=40, **OWNED),
        active(1, owned_at_ms=2_200, first_commit_at_ms=3_000, resumed_offset=50, **OWNED),
    )
    recovery = recovery_of(RECORD, view_of(assigned("b", "b", generation=2), b))
    assert recovery.resumed_offsets == {TaskId(0, 0): 40, TaskId(0, 1): 50}
    c = instance("c", active(0, first_commit_at_ms=8_000), active(1, first_commit_at_ms=8_000))

    found = report(dataclasses.replace(RECORD, recovery=recovery), view_of(assigned("c", "c", generation=3), c))

    assert (found.owned_at_ms, found.rto_ms, found.restored_records) == (2_200, 2_000, 8)
