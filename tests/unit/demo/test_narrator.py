from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest

from airflow_provider.control.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.status import InstanceState
from airflow_provider.control.view import ControlView
from airflow_provider.demo.narrator import Narrator, processed
from airflow_provider.demo.screen import Screen
from tests.builders import APPLICATION, active, assigned, instance, standby, view_of

INCIDENT = Incident(APPLICATION, IncidentKind.INSTANCE_ENDED, "a", 7, (0,), "killed by signal 9")
RECORD = IncidentRecord(INCIDENT, "run", 1_200, 2_000, 2, ("task 0: promote on b",), failed_at_ms=1_000)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def narrator(stream: io.StringIO) -> Narrator:
    return Narrator(Screen(stream))


def answered(record: IncidentRecord, **of_task: Any) -> ControlView:
    view = view_of(assigned("b", generation=2), instance("b", active(0, generation=2, **of_task)))
    view.incidents[record.incident.id] = record
    return view


def test_nothing_is_said_before_the_failure_is_answered(narrator: Narrator, stream: io.StringIO) -> None:
    assert narrator.failover(view_of(assigned("a b")), "a", 7, 1_000) is None
    assert stream.getvalue() == ""


def test_each_step_is_said_once(narrator: Narrator, stream: io.StringIO) -> None:
    resolved = dataclasses.replace(RECORD, resolved_at_ms=9_000)
    for view in (
        answered(RECORD),
        answered(RECORD),
        answered(RECORD, owned_at_ms=2_100),
        answered(RECORD, owned_at_ms=2_100, first_commit_at_ms=3_500),
        answered(resolved, owned_at_ms=2_100, first_commit_at_ms=3_500),
        answered(resolved, owned_at_ms=2_100, first_commit_at_ms=3_500),
    ):
        told = narrator.failover(view, "a", 7, 1_000)

    assert told is not None
    assert told.resolved_at_ms == 9_000
    assert [line.split("s  ", 1)[1].strip() for line in stream.getvalue().splitlines()] == [
        "detected 0.2 s after the kill: killed by signal 9",
        "decided 1.0 s after the kill by the failover DAG, generation 2",
        "task 0: promote on b",
        "promoted 1.1 s after the kill",
        "all its tasks commit again 2.5 s after the kill",
        "every task has a warm standby again 8.0 s after the kill",
    ]


def test_failure_of_another_process_of_the_instance_is_not_this_one(narrator: Narrator) -> None:
    assert narrator.failover(answered(RECORD), "a", 8, 1_000) is None


def test_processed_counts_what_the_assigned_actives_tell() -> None:
    view = view_of(
        assigned("a b", "b a", "c"),
        instance("a", active(0, source_offset=10), standby(1)),
        instance("b", standby(0, source_offset=99), active(1, source_offset=5)),
        instance("c", active(2, source_offset=7), state=InstanceState.ENDED),
    )

    assert processed(view) == 15
