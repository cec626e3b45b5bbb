"""What crosses between a triggerer, Airflow's tasks and its DAGs: plain JSON values that come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider.common.json_codec import from_plain, to_plain
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.failover.incident_answer import FailoverAnswer, IncidentEvent
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.drill_fault import InjectedFault
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.waiting.evaluation import Outcome, WaitResult
from tests.builders import APPLICATION, assigned, instance, promoted

INCIDENT = Incident(
    application_id=APPLICATION,
    kind=IncidentKind.INSTANCE_ENDED,
    instance="a",
    incarnation=7,
    tasks=(TaskId(0, 0), TaskId(0, 1)),
    evidence="killed by signal 9",
)
RECORD = IncidentRecord(
    incident=INCIDENT,
    answered_by="run",
    detected_at_ms=1,
    decided_at_ms=2,
    generation=2,
    plan=(promoted(0, "b"),),
    failed_at_ms=0,
)
ANSWER = FailoverAnswer.of(RECORD, assigned("b", "-", generation=2))
EVENT = IncidentEvent(
    incident=INCIDENT, application_id=APPLICATION, kafka_conn_id="kafka", detected_at_ms=1, silent={"a": 3}
)
VALUES = [
    EVENT,
    ANSWER,
    InstanceHandle.of(instance("a", pid=3, host="h", log_file="/l")),
    InjectedFault(
        id="dag/run/fault/-1",
        instance="a",
        incarnation=7,
        generation=1,
        tasks=(TaskId(0, 0),),
        source_offsets={TaskId(0, 0): 5},
        injected_at_ms=1,
    ),
    WaitResult(outcome=Outcome.MET, waited_for="rain", waited_s=1.5, seen="clouds", result={"mm": 1}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_crosses_as_json_and_comes_back_as_it_was(value: Any) -> None:
    plain = to_plain(value)

    assert json.loads(json.dumps(plain)) == plain
    assert from_plain(plain, type(value)) == value


def test_event_of_an_earlier_version_has_the_default_timeouts() -> None:
    plain = to_plain(EVENT)
    del plain["start_timeout_s"]

    assert from_plain(plain, IncidentEvent).timeouts == Timeouts()


def test_answer_says_where_the_tasks_went() -> None:
    assert ANSWER.moved == {TaskId(0, 0): "b", TaskId(0, 1): None}


@pytest.mark.parametrize(
    ("kind", "replace"),
    [
        (IncidentKind.INSTANCE_ENDED, True),
        (IncidentKind.HEARTBEAT_MISSED, True),
        (IncidentKind.INSTANCE_STOPPED, True),
        (IncidentKind.HAND_OVER, False),
        (IncidentKind.TASK_FAILED, False),
        (IncidentKind.TASK_STALLED, False),
        (IncidentKind.TASKS_UNOWNED, False),
        (IncidentKind.GENERATION_LOST, False),
        (IncidentKind.MANUAL, False),
    ],
)
def test_only_an_instance_that_is_gone_is_replaced(kind: IncidentKind, replace: bool) -> None:
    assert from_plain({**to_plain(ANSWER), "kind": kind.value}, FailoverAnswer).replace is replace
