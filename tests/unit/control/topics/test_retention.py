from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord, NotedRecovery, Recovery
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics import view as view_module
from airflow_provider.control.topics.codec import to_key
from airflow_provider.control.topics.view import ControlView, outdated
from tests.builders import APPLICATION, assigned, instance

NOW_MS = 10_000


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_INCIDENT_MS": 1000, "_MAX_INCIDENTS": 2, "_INSTANCE_MS": 500, "_RESOLVED_MS": 100}.items():
        monkeypatch.setattr(view_module, name, value)


def incident(number: int, decided_at_ms: int, resolved: bool = True) -> IncidentRecord:
    return IncidentRecord(
        incident=Incident(
            application_id=APPLICATION,
            kind=IncidentKind.INSTANCE_ENDED,
            instance="a",
            incarnation=number,
            tasks=(TaskId(0, 0),),
            evidence="killed",
        ),
        answered_by="run",
        detected_at_ms=None,
        decided_at_ms=decided_at_ms,
        generation=number,
        resolved_at_ms=decided_at_ms if resolved else None,
    )


def deployment(name: str) -> Deployment:
    return Deployment(
        application_id=APPLICATION,
        instance=name,
        application="/job.py",
        kafka_conn_id="k",
        spark_conn_id="s",
        state_dir="/s",
        run_dir="/r",
    )


def gone(*records: IncidentRecord) -> list[int]:
    view = ControlView(APPLICATION, incidents={record.incident.id: record for record in records})
    found = outdated(view, NOW_MS)
    return sorted(record.incident.incarnation for record in found if isinstance(record, IncidentRecord))


def test_incident_goes_after_its_time_whether_it_was_resolved_or_not() -> None:
    assert gone(incident(1, NOW_MS - 1001), incident(2, NOW_MS - 1001, resolved=False), incident(3, NOW_MS - 999)) == [
        1,
        2,
    ]


def test_only_the_newest_resolved_incidents_are_kept_and_all_that_are_open() -> None:
    open_ones = [incident(number, NOW_MS - 900 + number, resolved=False) for number in (1, 2, 3)]

    assert gone(*open_ones, *(incident(number, NOW_MS - 500 + number) for number in (4, 5, 6))) == [4]


@pytest.mark.parametrize("state", list(InstanceState), ids=lambda state: state.value)
def test_instance_that_is_not_assigned_goes_with_its_deployment_after_its_time(state: InstanceState) -> None:
    view = ControlView(
        APPLICATION,
        assignment=assigned("a b"),
        statuses={name: instance(name, state=state) for name in ("a", "old", "young")},
        heard_at_ms={"a": 1, "old": NOW_MS - 501, "young": NOW_MS - 499},
        newest_ms=NOW_MS,
        deployments={name: deployment(name) for name in ("a", "old", "young")},
        commands={name: {"c": Command(id="c", kind=CommandKind.STOP, instance=name)} for name in ("a", "old", "young")},
    )

    keys = [to_key(value) for value in outdated(view, NOW_MS)]

    assert keys == [b"instance/old", b"deployment/old", b"command/old/c"]


def test_what_a_drill_did_goes_after_the_time_of_incidents() -> None:
    faults = {
        id: InjectedFault(
            id=id, instance="a", incarnation=1, generation=1, tasks=(), source_offsets={}, injected_at_ms=at_ms
        )
        for id, at_ms in (("old", NOW_MS - 1001), ("young", NOW_MS - 999))
    }

    assert outdated(ControlView(APPLICATION, faults=faults), NOW_MS) == (faults["old"],)


def test_nothing_goes_by_the_clock_of_the_caller_where_no_instance_was_heard_since() -> None:
    view = ControlView(APPLICATION, statuses={"a": instance("a")}, heard_at_ms={"a": 7}, newest_ms=7)

    assert outdated(view, NOW_MS) == ()
    assert outdated(dataclasses.replace(view, newest_ms=508), NOW_MS) == (instance("a"),)


def resolved(number: int, age_ms: int, in_history: bool = True, **of_incident: Any) -> IncidentRecord:
    record = incident(number, NOW_MS - age_ms)
    changed = dataclasses.replace(record.incident, **of_incident)
    return dataclasses.replace(record, incident=changed, in_history=in_history)


def test_resolved_incident_that_the_history_has_goes_soon() -> None:
    assert gone(resolved(1, 101), resolved(2, 99)) == [1]
    assert gone(resolved(1, 101), resolved(3, 101, in_history=False)) == [1]


@pytest.mark.parametrize("kind", [IncidentKind.TASK_FAILED, IncidentKind.TASK_STALLED])
def test_incident_of_a_task_still_says_where_the_task_failed(kind: IncidentKind) -> None:
    assert gone(resolved(1, 101, kind=kind)) == []


def test_incident_that_is_not_resolved_stays_although_the_history_has_it() -> None:
    assert gone(dataclasses.replace(resolved(1, 101), resolved_at_ms=None)) == []


@pytest.mark.parametrize("known", [True, False], ids=["in-its-incident's-record", "of-a-forgotten-incident"])
def test_noted_recovery_goes_once_nobody_asks_for_it(known: bool) -> None:
    recovery = Recovery(resumed_offsets={}, owned_at_ms=1, first_commit_at_ms=2)
    record = incident(1, NOW_MS - 10, resolved=False)
    noted = NotedRecovery(incident=record.incident.id, decided_at_ms=record.decided_at_ms, recovery=recovery)
    view = ControlView(APPLICATION, recoveries={record.incident.id: noted}, incidents={record.incident.id: record})
    assert outdated(view, NOW_MS) == ()

    resolved = dataclasses.replace(record, recovery=recovery, resolved_at_ms=NOW_MS)
    view.incidents = {record.incident.id: resolved} if known else {}

    assert outdated(view, NOW_MS) == (noted,)
