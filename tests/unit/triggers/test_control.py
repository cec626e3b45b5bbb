from __future__ import annotations

from typing import Any

import pytest
from airflow.serialization.encoders import encode_trigger

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.waiting.conditions import StandbysWarm
from airflow_provider.errors import DeadlineError, InstanceError, StatefulStreamsError
from airflow_provider.triggers.control import ControlTrigger, result_of
from airflow_provider.triggers.incident import IncidentTrigger


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

    assert path == "airflow_provider.triggers.control.ControlTrigger"
    assert ControlTrigger(**arguments).serialize() == (path, arguments)


def test_incident_trigger_is_rebuilt_from_its_arguments() -> None:
    path, arguments = IncidentTrigger("app", "kafka", 3.0, num_standby_replicas=2).serialize()

    assert path == "airflow_provider.triggers.incident.IncidentTrigger"
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
