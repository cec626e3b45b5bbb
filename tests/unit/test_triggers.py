"""Which of the incidents that are found are fired."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import pytest
from airflow.serialization.encoders import encode_trigger
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.decide import decide
from airflow_provider.control.failover.detection import detect
from airflow_provider.control.failover.incident_answer import IncidentEvent
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.incident import WATCHER, Action, Decision, IncidentRecord
from airflow_provider.control.records.status import InstanceState, TaskState
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.standby import StandbysWarm
from airflow_provider.errors import AccessError, DeadlineError, InstanceError, StatefulStreamsError
from airflow_provider.triggers import ControlTrigger, IncidentTrigger, result_of
from tests.builders import APPLICATION, active, assigned, ended, instance, standby, view_of

FAILED = instance("a", active(0, state=TaskState.FAILED, error="a call took too long", error_kind="WorkerError"))


@dataclasses.dataclass
class Follower:
    """Of topics of which everything was read."""

    view: ControlView

    def silent_for_s(self) -> Mapping[str, float]:
        return dict.fromkeys(self.view.statuses, 0.1)


class Trigger(IncidentTrigger):
    """It notes what it answers, and publishes nothing."""

    answered: ClassVar[list[str]] = []
    refusal: StatefulStreamsError | None = None

    def due(self, view: ControlView) -> list[str]:
        follower, connection = (Follower(view), None)
        events = asyncio.run(self._answered(cast(Any, connection), cast(Any, follower)))
        return [event.incident.instance for event in events]

    def _answer(self, connection: object, events: Sequence[IncidentEvent]) -> None:
        self.answered.extend(event.incident.instance for event in events)
        if self.refusal is not None:
            raise self.refusal

    def write(self, writer: Any) -> None:
        self._write_that_it_watches(writer, began_at_ms=7)

    def note_recoveries(self, writer: Any, view: ControlView) -> None:
        self._note_recoveries(writer, view, began_at_ms=1)

    def ended(self, view: ControlView) -> list[str]:
        """What it would mark as resolved now."""
        return [record.incident.id for record in self._ended_holds(view)]

    def waits(self, seconds: float) -> None:
        """As if all that it did had been so long ago."""
        self._fired = {id: at - seconds for id, at in self._fired.items()}
        self._reported = {id: (at - seconds, one) for id, (at, one) in self._reported.items()}
        self._wrote_at -= seconds
        self._ended = {key: at - seconds for key, at in self._ended.items()}

    def event(self, view: ControlView) -> IncidentEvent:
        follower: Any = Follower(view)
        (incident,), _ = asyncio.run(self._due(follower))
        return self._event(incident, follower)


@pytest.fixture(autouse=True)
def _nothing_answered() -> None:
    Trigger.answered.clear()


def held(view: ControlView, answered_by: str = "run") -> ControlView:
    """The failure of its task is answered: there is no instance to move it to."""
    assert view.assignment is not None
    (incident,) = detect(view.assignment, view.statuses, view.silent_for_s, Timeouts())
    plan = decide(incident, view.assignment, view.statuses, ["a"])
    assert [decision.action for decision in plan.decisions] == [Action.HOLD]
    view.incidents[incident.id] = IncidentRecord(
        incident=incident,
        answered_by=answered_by,
        detected_at_ms=1,
        decided_at_ms=2,
        generation=1,
        no_candidate=plan.no_candidate,
    )
    return view


def test_incident_without_an_answer_is_fired_once() -> None:
    trigger, view = Trigger(APPLICATION), view_of(assigned("a"), FAILED)

    assert trigger.due(view) == ["a"]
    assert trigger.due(view) == []
    assert trigger.answered == ["a"]


def test_incident_that_could_not_be_answered_is_left_to_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    trigger = Trigger(APPLICATION)
    trigger.refusal = AccessError("no right to write")

    assert trigger.due(view_of(assigned("a"), FAILED)) == ["a"]
    assert "by a run of the failover DAG: no right to write" in capsys.readouterr().out


def test_what_a_watcher_answered_is_fired_again_until_a_run_has_taken_it_up() -> None:
    """The one that answered it may be gone, and its event with it."""
    view = held(view_of(assigned("a"), FAILED), answered_by=f"{WATCHER}host/1")
    trigger = Trigger(APPLICATION, refire_after_s=30.0)

    assert trigger.due(view) == ["a"]
    assert trigger.due(view) == []
    trigger.waits(31.0)
    assert trigger.due(view) == ["a"]
    assert trigger.answered == [], "it is answered"

    (record,) = view.incidents.values()
    view.incidents[record.incident.id] = dataclasses.replace(record, answered_by="run")
    trigger.waits(31.0)
    assert trigger.due(view) == []


def test_incident_that_is_held_for_want_of_an_instance_is_fired_again_once_one_runs() -> None:
    trigger, view = Trigger(APPLICATION), held(view_of(assigned("a"), FAILED))
    assert trigger.due(view) == []

    view.statuses["b"] = instance("b", state=InstanceState.STARTING)
    assert trigger.due(view) == [], "one that starts has no copy yet"
    view.statuses["b"] = instance("b", standby(0))

    assert trigger.due(view) == ["a"]
    assert trigger.due(view) == [], "its answer is under way"


@pytest.mark.parametrize(("failed_s", "failed_at_ms"), [(392.0, 108_000), (None, 500_000)])
def test_event_says_when_the_task_failed_or_where_that_is_not_reported_when_it_was_told(
    failed_s: float | None, failed_at_ms: int
) -> None:
    failed = instance("a", active(0, state=TaskState.FAILED, error="no", failed_s=failed_s))
    view = view_of(assigned("a b"), failed, instance("b", standby(0)))
    view.heard_at_ms["a"] = 500_000

    assert Trigger(APPLICATION).event(view).failed_at_ms == failed_at_ms


def test_failure_that_stays_without_an_answer_is_in_the_watchers_record_and_in_its_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trigger, writer, view = Trigger(APPLICATION, refire_after_s=30.0), Writer(), view_of(assigned("a"), FAILED)

    assert trigger.due(view) == ["a"]
    trigger.write(writer)
    trigger.waits(29.0)
    assert trigger.due(view) == []
    trigger.write(writer)
    trigger.waits(2.0)
    assert trigger.due(view) == ["a"]
    trigger.write(writer)
    trigger.waits(31.0)
    assert trigger.due(view) == ["a"], "fired again and again"
    trigger.write(writer)

    assert [[one.what for one in watcher.unanswered] for watcher in writer.sent] == [
        [],
        [],
        ["task_failed of a"],
        ["task_failed of a"],
    ]
    first, second = (watcher.unanswered[0].reported_at_ms for watcher in writer.sent[2:])
    assert first == second, "counted from the first time"
    assert capsys.readouterr().out.count("and no failover has taken it up") == 2


def test_failure_that_is_answered_leaves_the_watchers_record() -> None:
    trigger, writer, view = Trigger(APPLICATION), Writer(), view_of(assigned("a"), FAILED)
    trigger.due(view)
    trigger.waits(31.0)
    trigger.due(view)

    trigger.due(held(view))
    trigger.write(writer)

    assert writer.sent[0].unanswered == ()


class Writer:
    """Takes records, or refuses them."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[Any] = []
        self._error = error

    def send(self, value: Any) -> None:
        if self._error is not None:
            raise self._error
        self.sent.append(value)


def test_it_writes_that_it_watches_once_an_interval() -> None:
    trigger, writer = Trigger(APPLICATION), Writer()

    for _ in range(3):
        trigger.write(writer)

    (watcher,) = writer.sent
    assert (watcher.application_id, watcher.began_at_ms) == (APPLICATION, 7)


def test_recovery_is_noted_once_as_soon_as_the_tasks_commit_again() -> None:
    view = view_of(assigned("b", generation=2), instance("b", active(0, generation=2)))
    record = IncidentRecord(incident=ended("a", 0), answered_by="run", detected_at_ms=1, decided_at_ms=2, generation=2)
    view.incidents[record.incident.id] = record
    trigger, writer = Trigger(APPLICATION), Writer()

    trigger.note_recoveries(writer, view)
    assert writer.sent == []
    view.statuses["b"] = instance("b", active(0, generation=2, owned_at_ms=3, first_commit_at_ms=4))
    for _ in range(2):
        trigger.note_recoveries(writer, view)

    (noted,) = writer.sent
    assert (noted.incident, noted.recovery.first_commit_at_ms) == (record.incident.id, 4)


def test_hold_is_over_once_its_task_has_worked_for_some_time_since_a_run_took_it_up() -> None:
    """A run that takes it up writes of it for some seconds, too."""
    view = held(view_of(assigned("a"), FAILED))
    ((id_, record),) = view.incidents.items()
    record = dataclasses.replace(
        record, plan=(Decision(task=TaskId(0, 0), action=Action.HOLD, to=None, evidence="it fails anywhere"),)
    )
    view.incidents[id_] = record
    view.statuses["a"] = instance("a", active(0, owned_at_ms=3, first_commit_at_ms=4))
    trigger = Trigger(APPLICATION)

    assert trigger.ended(view) == []
    trigger.waits(6.0)
    assert trigger.ended(view) == [id_]
    view.incidents[id_] = dataclasses.replace(record, answered_by="another-run")
    assert trigger.ended(view) == []
    trigger.waits(6.0)
    view.statuses["a"] = FAILED
    assert trigger.ended(view) == []
    view.statuses["a"] = instance("a", active(0, owned_at_ms=3, first_commit_at_ms=4))
    assert trigger.ended(view) == [], "it counts from the beginning"


@pytest.mark.parametrize(
    "error", [BufferError("the queue is full"), KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))], ids=repr
)
def test_watching_goes_on_where_that_cannot_be_written(error: Exception) -> None:
    trigger = Trigger(APPLICATION)

    trigger.write(Writer(error))

    assert trigger.due(view_of(assigned("a"), FAILED)) == ["a"]


def event(outcome: str) -> dict[str, Any]:
    return {"outcome": outcome, "waited_for": "rain", "waited_s": 3.0, "seen": "clouds", "result": {"mm": 1}}


def test_trigger_is_rebuilt_from_its_arguments() -> None:
    trigger = ControlTrigger(
        "app",
        StandbysWarm(num_standby_replicas=2, tasks=(TaskId(0, 0), TaskId(0, 1))),
        "kafka",
        99,
        stop_on_kill=InstanceHandle(application_id="app", instance="a", incarnation=1),
    )

    path, arguments = trigger.serialize()

    assert path == "airflow_provider.triggers.ControlTrigger"
    assert ControlTrigger(**arguments).serialize() == (path, arguments)


def test_incident_trigger_is_rebuilt_from_its_arguments() -> None:
    path, arguments = IncidentTrigger("app", "kafka", 3.0, num_standby_replicas=2).serialize()

    assert path == "airflow_provider.triggers.IncidentTrigger"
    assert IncidentTrigger(**arguments).serialize() == (path, arguments)


def test_airflow_can_store_the_arguments() -> None:
    path, arguments = ControlTrigger(
        "app", StandbysWarm(num_standby_replicas=2, tasks=(TaskId(0, 0), TaskId(0, 1)))
    ).serialize()

    assert encode_trigger({"classpath": path, "kwargs": arguments})


def test_met_condition_gives_its_result() -> None:
    assert result_of(event("met")) == {"mm": 1}


@pytest.mark.parametrize(
    ("outcome", "error"), [("failed", InstanceError), ("waiting", DeadlineError)], ids=["failed", "deadline"]
)
def test_other_ends_are_typed_errors_that_say_what_was_waited_for(outcome: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"rain.*clouds"):
        result_of(event(outcome))


def test_resuming_without_an_event_is_an_error() -> None:
    with pytest.raises(StatefulStreamsError):
        result_of(None)
