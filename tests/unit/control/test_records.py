from __future__ import annotations

import pytest

from airflow_provider.control.assignment import Assignment
from airflow_provider.control.command import Command, CommandKind
from airflow_provider.control.deployment import Deployment
from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.records import Value, apply, instance_of, to_key, to_value
from airflow_provider.control.status import InstanceState
from airflow_provider.control.view import ControlView
from tests.builders import APPLICATION, active, assigned, instance, standby

INCIDENT = Incident(APPLICATION, IncidentKind.INSTANCE_ENDED, "a", 1, (0, 2), "killed")
VALUES: list[Value] = [
    assigned("a b", "- c"),
    instance("a", active(0), standby(1)),
    Command("c1", CommandKind.REPLAY, "a", 7, (1, 2)),
    Deployment(APPLICATION, "a", "/job.py", "kafka", "spark", "/state", "/run", {"spark.x": "1"}, ("--y",), {"Z": "2"}),
    IncidentRecord(INCIDENT, "run", 1, 2, 3, ("task 0: promote",), failed_at_ms=4),
]


def put(view: ControlView, value: Value, at_ms: int = 1) -> bool:
    return apply(view, to_key(value), to_value(value), at_ms)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_is_read_as_it_was_written(value: Value) -> None:
    view = ControlView(APPLICATION)

    assert put(view, value)

    held = [view.assignment, *view.statuses.values(), *view.commands.values()]
    assert value in [*held, *view.deployments.values(), *view.incidents.values()]


@pytest.mark.parametrize("value", VALUES[1:], ids=lambda value: type(value).__name__)
def test_deleted_value_is_gone(value: Value) -> None:
    view = ControlView(APPLICATION)
    put(view, value)

    assert apply(view, to_key(value), None, 2)
    held = [view.statuses, view.commands, view.deployments, view.incidents, view.heard_at_ms]
    assert not any(held)


def test_older_generation_changes_nothing() -> None:
    view = ControlView(APPLICATION)
    put(view, assigned("a", generation=3))

    assert not put(view, assigned("b", generation=2))
    assert isinstance(view.assignment, Assignment)
    assert view.assignment.generation == 3


def test_zombie_of_an_earlier_incarnation_is_not_heard() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a", incarnation=2), at_ms=10)

    assert not put(view, instance("a", incarnation=1), at_ms=20)
    assert view.heard_at_ms == {"a": 10}


def test_heartbeat_that_arrives_after_the_end_does_not_bring_the_process_back() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a", state=InstanceState.ENDED))

    assert not put(view, instance("a"))
    assert view.statuses["a"].state is InstanceState.ENDED


def test_next_incarnation_lives_again() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a", state=InstanceState.ENDED))

    assert put(view, instance("a", incarnation=2, state=InstanceState.STARTING))


def test_unknown_key_is_passed_over() -> None:
    view = ControlView(APPLICATION)

    assert not apply(view, b"something/else", b"not even JSON", 5)
    assert not view.unreadable


def test_only_a_status_has_an_instance() -> None:
    assert [instance_of(to_key(value)) for value in VALUES] == [None, "a", None, None, None]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b"instance/a", b"{no json", id="no-json"),
        pytest.param(b"instance/a", b'{"application_id": "app"}', id="field-missing"),
        pytest.param(b"instance/a", b"\xff\xfe", id="no-text"),
        pytest.param(
            b"assignment",
            b'{"application_id":"app","generation":9,"tasks":[{"active":"a","standbys":["a"]}]}',
            id="assignment-that-names-an-instance-twice",
        ),
    ],
)
def test_record_that_cannot_be_read_is_told_and_hides_nothing(
    key: bytes, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    view = ControlView(APPLICATION)
    put(view, assigned("a"))
    put(view, instance("a", active(0)))

    assert apply(view, key, value, 2)

    assert set(view.unreadable) == {key}
    assert repr(key) in caplog.text
    assert view.assignment == assigned("a")
    assert view.statuses["a"].tasks == (active(0),)
    put(view, instance("a", active(0)))
    put(view, assigned("a", generation=10))
    assert not view.unreadable


def test_deletion_of_what_cannot_be_read_mends_the_view() -> None:
    view = ControlView(APPLICATION)
    apply(view, b"instance/a", b"{", 1)

    apply(view, b"instance/a", None, 2)

    assert not view.unreadable


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000], ids=["an-hour-ahead", "an-hour-back"])
def test_jump_of_the_brokers_clock_silences_nobody_who_speaks(jump_ms: int) -> None:
    view, start_ms = ControlView(APPLICATION), 10_000_000
    for name in "ab":
        put(view, instance(name), at_ms=start_ms)
    for name in "ab":
        put(view, instance(name), at_ms=start_ms + jump_ms + 500)

    assert view.healthy(5.0) == ("a", "b")


def test_instance_that_was_silent_before_the_brokers_clock_went_back_stays_so() -> None:
    view, start_ms = ControlView(APPLICATION), 10_000_000
    for name in "ab":
        put(view, instance(name), at_ms=start_ms)
    for second in range(1, 10):
        put(view, instance("b"), at_ms=start_ms + 1_000 * second)
    put(view, instance("b"), at_ms=start_ms - 3_600_000)

    assert view.healthy(5.0) == ("b",)


def test_append_times_of_the_other_topic_move_no_clock() -> None:
    view = ControlView(APPLICATION)
    put(view, instance("a"), at_ms=5_000)

    put(view, assigned("a"), at_ms=1_000)
    put(view, assigned("a", generation=2), at_ms=60_000)

    assert view.silent_for_s == {"a": 0.0}
