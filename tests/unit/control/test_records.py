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
    assert view.newest_ms == 5


def test_only_a_status_has_an_instance() -> None:
    assert [instance_of(to_key(value)) for value in VALUES] == [None, "a", None, None, None]
