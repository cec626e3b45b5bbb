from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.json_codec import to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import new_recoveries, recovery_of, report
from airflow_provider.control.records.incident import (
    Action,
    Decision,
    Incident,
    IncidentKind,
    IncidentRecord,
    NotedRecovery,
    Recovery,
)
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.control.topics.view import ControlView
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


COMMITTED = active(0, generation=2, owned_at_ms=2_100, first_commit_at_ms=2_500)


def waiting(source_lag: int | None, uncommitted_records: int = 0) -> TaskStatus:
    return active(
        1,
        generation=2,
        owned_at_ms=2_200,
        stalled_s=0.0,
        source_lag=source_lag,
        uncommitted_records=uncommitted_records,
    )


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


def held(**more: Any) -> IncidentRecord:
    """Its task failed where any owner would: it stays on a, which had it for long."""
    failed = dataclasses.replace(INCIDENT, kind=IncidentKind.TASK_FAILED, tasks=(TaskId(0, 0),), active_since=2)
    hold = Decision(task=TaskId(0, 0), action=Action.HOLD, to=None, evidence="any owner would fail at the same place")
    return dataclasses.replace(
        RECORD, **{"incident": failed, "plan": (hold,), "failed_at_ms": 60_000, "resolved_at_ms": None, **more}
    )


def test_takeover_of_a_task_before_it_failed_is_none_of_what_answered_that() -> None:
    a = instance("a", active(0, TaskState.FAILED, owned_at_ms=2_100, first_commit_at_ms=2_500, **OWNED))
    view = view_of(assigned("a", generation=2), a)

    found = report(held(), view)

    assert (found.owned_at_ms, found.first_commit_at_ms, found.rto_ms, found.unmeasured) == (None, None, None, None)
    assert found.restored_records == 0
    assert new_recoveries(view, 0) == []


def test_task_that_is_tried_again_where_it_failed_has_recovered() -> None:
    a = instance("a", active(0, owned_at_ms=90_000, first_commit_at_ms=91_000, **OWNED))

    found = report(held(), view_of(assigned("a", generation=2), a))

    assert (found.owned_at_ms, found.rto_ms) == (90_000, 31_000)


OPEN = dataclasses.replace(RECORD, resolved_at_ms=None)
"""Everything is gone: nobody took its tasks."""
BACK = instance(
    "a",
    active(0, generation=4, owned_at_ms=38_000, first_commit_at_ms=40_000),
    active(1, generation=4, owned_at_ms=38_500, first_commit_at_ms=41_000),
    incarnation=2,
)


def test_recovery_by_a_later_answer_is_noted_by_who_was_there_all_the_time() -> None:
    view = view_of(assigned("a", "a", generation=4), BACK)
    view.incidents[INCIDENT.id] = OPEN

    (noted,) = new_recoveries(view, OPEN.decided_at_ms - 1)
    view.recoveries[INCIDENT.id] = noted

    assert report(OPEN, view).rto_ms == 40_000
    assert new_recoveries(view, 0) == []
    view.assignment = assigned("b", "b", generation=7)
    assert report(OPEN, view).rto_ms == 40_000, "however the tasks move later"


def test_who_came_later_cannot_tell_a_recovery_from_a_move_for_another_reason() -> None:
    view = view_of(assigned("a", "a", generation=4), BACK)
    view.incidents[INCIDENT.id] = OPEN

    assert new_recoveries(view, OPEN.decided_at_ms + 1) == []


def test_recovery_that_was_noted_of_an_earlier_answer_says_nothing_of_the_next() -> None:
    view = view_of(assigned("a", "a", generation=4), BACK)
    noted = NotedRecovery(
        incident=INCIDENT.id,
        decided_at_ms=1_500,
        recovery=Recovery(resumed_offsets={}, owned_at_ms=1_600, first_commit_at_ms=1_700),
    )
    view.incidents[INCIDENT.id], view.recoveries[INCIDENT.id] = OPEN, noted

    assert report(OPEN, view).rto_ms is None
    assert [one.decided_at_ms for one in new_recoveries(view, 0)] == [OPEN.decided_at_ms]


def test_task_that_failed_on_its_new_owner_has_not_recovered() -> None:
    failed = active(
        1, TaskState.FAILED, generation=2, owned_at_ms=2_200, error="another version wrote it", stalled_s=0.0
    )
    view = view_of(assigned("b", "b", generation=2), instance("b", COMMITTED, failed))
    view.incidents[INCIDENT.id] = OPEN

    assert new_recoveries(view, 0) == []


def test_recovery_of_tasks_without_input_is_noted_after_some_seconds_and_the_next_record_is_none_of_it() -> None:
    """It may come in hours: neither that is what the failover took, nor what the next will take."""

    def seen(after_s: int) -> ControlView:
        idle = [dataclasses.replace(waiting(0), task=TaskId(0, number)) for number in (0, 1)]
        view = view_of(assigned("b", "b", generation=2), instance("b", *idle, sent_at_ms=2_200 + 1_000 * after_s))
        view.heard_at_ms["b"] = 2_200 + 1_000 * after_s
        view.incidents[INCIDENT.id] = OPEN
        return view

    assert new_recoveries(seen(after_s=3), 0) == []
    view = seen(after_s=11)
    (noted,) = new_recoveries(view, 0)
    view.recoveries[INCIDENT.id] = noted

    late = [active(n, generation=2, owned_at_ms=2_200, first_commit_at_ms=28_800_000) for n in (0, 1)]
    view.statuses["b"] = instance("b", *late)
    assert (report(OPEN, view).rto_ms, report(OPEN, view).owned_at_ms) == (None, 2_200)
    assert new_recoveries(view, 0) == []
