from __future__ import annotations

from airflow_provider.cli.failover import answer_found, answers_text, unmoved
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import FailoverAnswer, IncidentEvent, IncidentFinder, wrong_now
from airflow_provider.control.records.status import InstanceState, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from tests.builders import APPLICATION, active, assigned, instance, placed, standby, view_of


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
