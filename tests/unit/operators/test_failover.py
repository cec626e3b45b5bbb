"""What a failover run does about an incident that has a record already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_event import IncidentEvent
from airflow_provider.control.records.assignment import Assignment
from airflow_provider.control.records.history import HistoryOutcome, HistoryRecord
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.records.status import TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.operators.assignment import FailOverOperator
from tests.builders import APPLICATION, active, assigned, instance, placed, standby, view_of

FAILED = active(0, state=TaskState.FAILED, error="a call took too long", error_kind="WorkerError")
BAD_RECORD = active(0, state=TaskState.FAILED, error="offset 7: no JSON", error_kind="DecodeError")


class Publisher:
    """Publishes into the view that it was given."""

    def __init__(self, view: ControlView) -> None:
        self.view = view

    def publish(self, assignment: Assignment | None, record: IncidentRecord) -> None:
        self.view.assignment = assignment or self.view.assignment
        self.view.incidents[record.incident.id] = record


class FailOver(FailOverOperator):
    """On a view instead of on a broker."""

    view: ControlView

    def publish_by(self, act: Callable[[Any], Any], *_: Any, **__: Any) -> Any:
        return act(Publisher(self.view))


def run(view: ControlView, run_id: str, *, by_hand: bool = False) -> list[list[str]]:
    """The decisions of a run that was started by hand, or for all that a watcher finds in the view."""
    operator = FailOver(task_id="fail_over", application_id=APPLICATION)
    operator.view = view
    found = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts(), view.heard_at_ms)
    events = [
        IncidentEvent(incident=incident, application_id=APPLICATION, kafka_conn_id="kafka", detected_at_ms=1)
        for incident in found
    ]
    caused = [type("Event", (), {"extra": {"payload": to_plain(event)}}) for event in events]
    given: Any = {"run_id": run_id, "triggering_asset_events": {} if by_hand else {"incidents": caused}}
    return [answer["decisions"] for answer in operator.execute(given)]


def held(task: Any) -> ControlView:
    """Its task failed on `a`, the only instance, and a run has answered that."""
    view = view_of(assigned("a"), instance("a", task))
    ((decision,),) = run(view, "first")
    assert decision.startswith("task 0_0: hold")
    return view


def with_standby(view: ControlView) -> ControlView:
    view.assignment = assigned("a b")
    view.statuses["b"] = instance("b", standby(0))
    view.heard_at_ms["b"] = view.newest_ms
    return view


def placed_in(view: ControlView) -> list[str]:
    assert view.assignment is not None
    return placed(view.assignment)


def test_task_that_is_held_for_want_of_an_instance_moves_once_there_is_one() -> None:
    view = with_standby(held(FAILED))

    ((decision,),) = run(view, "second")

    assert decision.startswith("task 0_0: promote on b")
    assert placed_in(view) == ["b a"]
    (record,) = view.incidents.values()
    assert (record.answered_by, record.answered_by_dag) == (
        "second",
        FailOver(task_id="fail_over", application_id=APPLICATION).dag_id,
    )


def test_task_that_is_held_is_not_answered_again_while_nothing_has_changed() -> None:
    view = held(FAILED)

    assert run(view, "second") == []
    assert [record.answered_by for record in view.incidents.values()] == ["first"]


def test_task_that_would_fail_anywhere_is_not_answered_again_whatever_instances_come() -> None:
    view = with_standby(held(BAD_RECORD))

    assert run(view, "second") == []


def test_run_by_hand_decides_again() -> None:
    view = with_standby(held(BAD_RECORD))

    ((decision,),) = run(view, "by-hand", by_hand=True)

    assert decision.startswith("task 0_0: hold")
    assert "any owner would fail at the same place" in decision


def test_answer_that_moved_a_task_stands() -> None:
    view = with_standby(view_of(assigned("a"), instance("a", FAILED)))

    assert len(run(view, "first")) == 1
    assert run(view, "second") == []
    assert run(view, "by-hand", by_hand=True) == []


def test_stall_behind_an_open_transaction_is_another_incident_than_one_after_its_end() -> None:
    blocked = active(0, source_offset=500, uncommitted_records=9, stalled_s=130.0)
    stuck = active(0, source_offset=500, source_lag=4_500, stalled_s=9_000.0)
    view = view_of(assigned("a b"), instance("a", blocked), instance("b", standby(0)))
    ((decision,),) = run(view, "first")
    assert decision.startswith("task 0_0: hold")

    view.statuses["a"] = instance("a", stuck)
    ((decision,),) = run(view, "second")

    assert decision.startswith("task 0_0: promote on b")
    assert placed_in(view) == ["b a"]


class Noting(FailOver):
    """Its brokers take no history."""

    def note_history(self, records: Iterable[HistoryRecord]) -> bool:
        self.noted = [(record.id, record.outcome) for record in records]
        raise RuntimeError("an error that nobody foresaw")


def test_answer_is_noted_and_nothing_that_goes_wrong_there_fails_the_failover() -> None:
    view = with_standby(view_of(assigned("a"), instance("a", FAILED)))
    operator = Noting(task_id="fail_over", application_id=APPLICATION)
    operator.view = view

    (answer,) = operator.execute({"run_id": "first", "triggering_asset_events": {}})

    assert answer["moved"] == {"0_0": "b"}
    assert operator.noted == [(answer["incident_id"], HistoryOutcome.OPEN)]


def test_history_that_cannot_be_written_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    operator = FailOver(task_id="fail_over", application_id=APPLICATION, kafka_conn_id="there_is_none")

    assert not operator.note_history([])
    assert f"Not in the history of {APPLICATION}" in capsys.readouterr().out
