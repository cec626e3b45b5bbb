from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import (
    FailoverAnswer,
    IncidentEvent,
    IncidentFinder,
    answer_incident,
    ended_holds,
    is_due,
    wrong_now,
)
from airflow_provider.control.history.builder import failover_record
from airflow_provider.control.records.incident import WATCHER, Action, Incident, IncidentKind
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import APPLICATION, active, assigned, instance, standby, view_of

DETECTED_MS, DECIDED_MS = 2_000, 20_000


def failed_task() -> tuple[ControlView, Incident]:
    """The instance lives: its newest heartbeat came long after the one that told the failure."""
    view = view_of(assigned("a b"), instance("a", active(0, TaskState.FAILED)), instance("b", standby(0)))
    (incident,) = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts(), view.heard_at_ms)
    assert incident.kind is IncidentKind.TASK_FAILED
    view.heard_at_ms["a"] = 19_000
    return view, incident


def finder(incident: Incident, failed_at_ms: int | None) -> IncidentFinder:
    event = IncidentEvent(
        incident=incident,
        application_id=APPLICATION,
        kafka_conn_id="kafka",
        detected_at_ms=DETECTED_MS,
        failed_at_ms=failed_at_ms,
    )
    return IncidentFinder(
        answered_by="run", timeouts=Timeouts(), num_standby_replicas=1, by_hand=False, events=(event,)
    )


def test_failure_of_a_task_is_timed_by_the_heartbeat_that_told_it_and_not_by_the_newest() -> None:
    view, incident = failed_task()

    record = answer_incident(view, incident, finder(incident, 1_000), lambda: DECIDED_MS).record

    assert record is not None
    assert record.failed_at_ms == 1_000
    assert failover_record(record).rto.detected_ms == DETECTED_MS - 1_000


def reported(kind: IncidentKind) -> tuple[ControlView, Incident]:
    """By a heartbeat of just now."""
    if kind is IncidentKind.TASK_FAILED:
        task = active(0, TaskState.FAILED, failed_s=392.0)
    else:
        task = active(0, stalled_s=300.0, source_lag=5)
    view = view_of(assigned("a b"), instance("a", task), instance("b", standby(0)))
    (incident,) = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts(), view.heard_at_ms)
    assert incident.kind is kind
    view.heard_at_ms["a"] = 500_000
    return view, incident


@pytest.mark.parametrize(
    ("kind", "failed_at_ms"), [(IncidentKind.TASK_FAILED, 108_000), (IncidentKind.TASK_STALLED, 200_000)]
)
def test_time_until_a_failed_task_was_noticed_is_part_of_the_rto(kind: IncidentKind, failed_at_ms: int) -> None:
    view, incident = reported(kind)

    record = answer_incident(view, incident, finder(incident, None), lambda: 510_000).record

    assert record is not None
    assert record.failed_at_ms == failed_at_ms
    assert failover_record(record).at_ms == failed_at_ms


def test_process_that_took_the_place_of_the_one_that_failed_does_not_time_its_failure() -> None:
    view, incident = reported(IncidentKind.TASK_FAILED)
    view.statuses["a"] = dataclasses.replace(view.statuses["a"], incarnation=9)

    assert finder(incident, None).failed_at_ms(incident, view) is None


def test_failure_of_a_task_that_nobody_timed_counts_from_its_detection() -> None:
    view, incident = failed_task()

    record = answer_incident(view, incident, finder(incident, None), lambda: DECIDED_MS).record

    assert record is not None
    assert record.failed_at_ms is None
    assert failover_record(record).at_ms == DETECTED_MS


def test_decision_of_before_is_not_published_again_however_often_a_person_asks() -> None:
    view = view_of(assigned("a"), instance("a", active(0, TaskState.FAILED)))
    (incident,) = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts(), view.heard_at_ms)
    by_hand = IncidentFinder(answered_by="first", timeouts=Timeouts(), num_standby_replicas=0, by_hand=True)
    first = answer_incident(view, incident, by_hand, lambda: DECIDED_MS)
    assert first.new
    assert first.record is not None
    view.incidents[incident.id] = first.record

    again = answer_incident(view, incident, dataclasses.replace(by_hand, answered_by="second"), lambda: DECIDED_MS + 1)

    assert (again.new, again.record, again.assignment) == (False, first.record, None)


def answered_by_a_watcher() -> tuple[ControlView, Incident]:
    view, incident = failed_task()
    watcher = dataclasses.replace(finder(incident, None), answered_by=f"{WATCHER}host/1")
    answer = answer_incident(view, incident, watcher, lambda: DECIDED_MS)
    assert answer.record is not None
    assert answer.assignment is not None
    assert not answer.record.taken_up
    view.assignment, view.incidents[incident.id] = answer.assignment, answer.record
    return view, incident


@pytest.mark.parametrize("by_hand", [False, True])
def test_run_takes_up_what_a_watcher_has_answered_and_changes_nothing_of_it(by_hand: bool) -> None:
    view, incident = answered_by_a_watcher()
    decided = view.incidents[incident.id]
    run = dataclasses.replace(finder(incident, None), dag_id="failover", by_hand=by_hand)
    assert incident in wrong_now(view, (), None)

    answer = answer_incident(view, incident, run, lambda: DECIDED_MS + 1)

    assert (answer.new, answer.assignment) == (True, None)
    assert answer.record == dataclasses.replace(decided, answered_by="run", answered_by_dag="failover")
    view.incidents[incident.id] = answer.record
    again = answer_incident(view, incident, run, lambda: DECIDED_MS + 2)
    assert (again.new, again.record) == (False, answer.record), "a retry finds its own"
    other = answer_incident(view, incident, dataclasses.replace(run, answered_by="other"), lambda: DECIDED_MS + 2)
    assert other.record in (None, answer.record), "another run takes nothing from it"
    assert wrong_now(view, (), None) == ()


def test_watcher_takes_nothing_up() -> None:
    view, incident = answered_by_a_watcher()
    other = dataclasses.replace(finder(incident, None), answered_by=f"{WATCHER}other/2")

    assert answer_incident(view, incident, other, lambda: DECIDED_MS + 1).record is None


def test_what_is_repaired_is_not_taken_up() -> None:
    view, incident = answered_by_a_watcher()
    view.incidents[incident.id] = dataclasses.replace(view.incidents[incident.id], resolved_at_ms=DECIDED_MS + 1)

    assert answer_incident(view, incident, finder(incident, None), lambda: DECIDED_MS + 2).record is None
    assert wrong_now(view, (), None) == ()


BROKEN = active(0, TaskState.FAILED, error="no JSON", error_kind="DecodeError")


def view_with_a_hold(task: TaskStatus = BROKEN, held: TaskStatus = BROKEN) -> ControlView:
    """`held` would get on with no owner, so it stays on a; what a reports of it now is `task`."""
    view = view_of(assigned("a b"), instance("a", held), instance("b", standby(0)))
    (incident,) = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts(), view.heard_at_ms)
    record = answer_incident(view, incident, finder(incident, 1_000), lambda: DECIDED_MS).record
    assert record is not None
    assert record.holds
    view.incidents[incident.id] = record
    view.statuses["a"] = instance("a", task)
    return view


@pytest.mark.parametrize(
    ("task", "over"),
    [
        pytest.param(BROKEN, False, id="failed-still"),
        pytest.param(active(0, TaskState.RESTORING), False, id="replays"),
        pytest.param(active(0, owned_at_ms=3), False, id="runs-and-may-fail-at-the-same-record"),
        pytest.param(active(0, owned_at_ms=3, first_commit_at_ms=4), True, id="commits-again"),
        pytest.param(active(0, owned_at_ms=3, stalled_s=0.0), True, id="has-nothing-to-commit"),
        pytest.param(
            active(0, owned_at_ms=3, first_commit_at_ms=4, stalled_s=500.0, source_lag=9), False, id="stands-still"
        ),
    ],
)
def test_hold_is_over_once_its_task_works_again(task: TaskStatus, over: bool) -> None:
    assert len(ended_holds(view_with_a_hold(task))) == over


def test_hold_of_a_paused_instance_is_not_over() -> None:
    view = view_with_a_hold(active(0, owned_at_ms=3, first_commit_at_ms=4))
    view.statuses["a"] = dataclasses.replace(view.statuses["a"], paused=True)

    assert ended_holds(view) == []


def test_task_that_had_worked_since_it_was_held_is_answered_anew() -> None:
    """It has the same id: it was tried again in the same process."""
    view = view_with_a_hold()
    ((id_, record),) = view.incidents.items()
    assert not is_due(record.incident, view, ["a", "b"], now_ms=DECIDED_MS + 1)
    view.incidents[id_] = dataclasses.replace(record, resolved_at_ms=DECIDED_MS + 1)

    disk = active(0, TaskState.FAILED, error="the disk broke", error_kind="StateError")
    view.statuses["a"] = instance("a", disk)
    (again,) = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts(), view.heard_at_ms)

    assert again.id == id_
    assert is_due(again, view, ["a", "b"], now_ms=DECIDED_MS + 2)
    other = dataclasses.replace(finder(again, 1_000), answered_by=f"{WATCHER}h/2")
    answer = answer_incident(view, again, other, lambda: DECIDED_MS + 3)
    assert (answer.record and answer.record.plan[0].action, answer.new) == (Action.PROMOTE, True)


def test_stalled_task_whose_open_transaction_was_aborted_has_nothing_left_to_wait_for() -> None:
    stalled = active(0, stalled_s=300.0, source_lag=0, uncommitted_records=4, source_offset=7, owned_at_ms=3)
    view = view_with_a_hold(stalled, held=stalled)
    (record,) = view.incidents.values()
    assert ended_holds(view) == []

    view.statuses["a"] = instance("a", active(0, stalled_s=0.0, source_lag=0, source_offset=7, owned_at_ms=3))

    assert ended_holds(view) == [record]


def test_incident_of_a_task_that_the_job_has_no_more_can_still_be_repaired() -> None:
    view = view_with_a_hold()
    (record,) = view.incidents.values()
    gone = dataclasses.replace(record, incident=dataclasses.replace(record.incident, tasks=(TaskId(9, 9),)))

    assert view.assignment is not None
    assert FailoverAnswer.of(gone, view.assignment).moved == {}


def test_failover_that_moved_a_task_is_over_once_it_is_repaired() -> None:
    view, incident = failed_task()
    record = answer_incident(view, incident, finder(incident, 1_000), lambda: DECIDED_MS).record
    assert record is not None
    view.incidents[incident.id] = record
    view.assignment = assigned("b a", generation=2)
    view.statuses["b"] = instance("b", active(0, generation=2, owned_at_ms=3, first_commit_at_ms=4))

    assert ended_holds(view) == []
