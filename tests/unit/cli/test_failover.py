from __future__ import annotations

import pytest

from airflow_provider.cli import failover
from airflow_provider.cli.failover import answer_found, answers_text, close_incidents, not_assigned, unmoved
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.failover_answer import FailoverAnswer
from airflow_provider.control.failover.incident_answer import IncidentFinder, wrong_now
from airflow_provider.control.failover.incident_event import IncidentEvent
from airflow_provider.control.records.history import HistoryOutcome, HistoryRecord
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.records.status import InstanceState, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.conditions import Outcome, WaitResult
from airflow_provider.kafka.connection import KafkaConnection
from tests.builders import APPLICATION, active, assigned, ended, instance, placed, standby, view_of


def answered(view: ControlView, instance: str | None = None) -> list[FailoverAnswer]:
    """What a person who starts a failover gets; the view is as after it."""
    found = wrong_now(view, detect(view.assignment, view.statuses, view.silent_for_s, Timeouts()), instance)
    events = tuple(
        IncidentEvent(incident=incident, application_id=APPLICATION, kafka_conn_id="", detected_at_ms=1)
        for incident in found
    )
    finder = IncidentFinder(answered_by="me", timeouts=Timeouts(), num_standby_replicas=1, by_hand=True, events=events)
    return answer_found(view, finder, lambda *_: None)


def test_instance_that_ended_is_answered_with_its_standby() -> None:
    view = view_of(
        assigned("a b", "b a"),
        instance("a", state=InstanceState.ENDED, exit_code=-9),
        instance("b", active(1), standby(0)),
    )

    (answer,) = answers = answered(view)

    assert view.assignment is not None
    assert placed(view.assignment) == ["b", "b"]
    assert not unmoved(answer)
    text = answers_text(answers, dry_run=True)
    assert text.startswith(
        "a dry run: nothing is published\na/1/gone-1: instance_ended, ended without a clean shutdown"
    )
    assert "\n  task 0_0: promote on b (b: lag 0)\n  generation 2" in text


def test_everything_is_moved_off_an_instance_that_is_named_and_well() -> None:
    view = view_of(assigned("a b", "b a"), instance("a", active(0), standby(1)), instance("b", active(1), standby(0)))

    (answer,) = answered(view, "a")

    assert view.assignment is not None
    assert placed(view.assignment)[0].startswith("b")
    assert answer.evidence == "nothing is wrong with it: moved by hand"


def test_task_that_is_held_or_has_no_instance_is_not_moved() -> None:
    bad_record = active(0, state=TaskState.FAILED, error="offset 7: no JSON", error_kind="DecodeError")
    (held,) = answered(view_of(assigned("a b"), instance("a", bad_record), instance("b", standby(0))))
    (waits,) = answered(view_of(assigned("a"), instance("a", state=InstanceState.ENDED)))

    assert unmoved(held)
    assert unmoved(waits)


def test_nothing_wrong_is_said() -> None:
    view = view_of(assigned("a b"), instance("a", active(0)), instance("b", standby(0)))

    assert answered(view) == []
    assert answers_text([], dry_run=False) == "nothing is wrong that a failover could answer"


RECORD = IncidentRecord(
    incident=ended("a", 0),
    answered_by="command-line-1",
    detected_at_ms=1_010,
    decided_at_ms=2_000,
    generation=2,
)


@pytest.mark.parametrize(
    ("tasks", "why"),
    [
        pytest.param(("a b", "b a"), None, id="all-were-given"),
        pytest.param(("a b", "b"), "task(s) 0_1 lack standbys, and need another instance", id="a-standby-is-missing"),
        pytest.param(("a b", "-"), "no instance has task(s) 0_1", id="nobody-has-it"),
    ],
)
def test_nothing_is_waited_for_that_no_instance_was_given(tasks: tuple[str, ...], why: str | None) -> None:
    assert not_assigned(view_of(assigned(*tasks)), 1) == why


class Closing:
    """An application with one incident that was answered, in place of its topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, view: ControlView, outcome: Outcome) -> None:
        self.history: list[HistoryRecord] = []
        self.written: list[IncidentRecord] = []
        view.incidents[RECORD.incident.id] = RECORD
        found = WaitResult(outcome=outcome, waited_for="", waited_s=1.0, seen="task 0_0 has 0 of 1 standbys")
        monkeypatch.setattr(failover, "_read", lambda *_: view)
        monkeypatch.setattr(failover, "wait_for", lambda *_, **__: found)
        monkeypatch.setattr(failover, "note", lambda *given: self._noted(given[2]))
        monkeypatch.setattr(failover, "write_control", lambda *given: self.written.append(given[2]))

    def _noted(self, record: HistoryRecord) -> bool:
        self.history.append(record)
        return True

    def close(self) -> None:
        close_incidents(KafkaConnection("127.0.0.1:1"), APPLICATION, 1, 1.0)


def whole() -> ControlView:
    return view_of(assigned("b a", generation=2), instance("a", standby(0)), instance("b", active(0, generation=2)))


def test_incident_is_resolved_once_every_task_is_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closing = Closing(monkeypatch, whole(), Outcome.MET)

    closing.close()

    (record,), (kept,) = closing.written, closing.history
    assert (record.resolved_at_ms is not None, record.in_history) == (True, True)
    assert (kept.outcome, kept.ended_at_ms) == (HistoryOutcome.PASSED, record.resolved_at_ms)
    assert capsys.readouterr().err == "resolved: a/1/gone-1\n"


@pytest.mark.parametrize(
    ("view", "outcome"),
    [
        pytest.param(whole(), Outcome.WAITING, id="not-in-time"),
        pytest.param(whole(), Outcome.FAILED, id="never"),
        pytest.param(view_of(assigned("b", generation=2)), Outcome.MET, id="without-standbys"),
    ],
)
def test_incident_stays_open_while_a_task_is_not_whole(
    view: ControlView, outcome: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closing = Closing(monkeypatch, view, outcome)

    closing.close()

    assert (closing.written, closing.history) == ([], [])
    assert capsys.readouterr().err.startswith("not resolved yet: a/1/gone-1: task")
