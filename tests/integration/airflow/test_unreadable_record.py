"""A record of the control topics that cannot be read: people see it, and the other records are read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.codec import to_value
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.errors import AssignmentError, DeadlineError
from airflow_provider.sensors.figures import StandbyLagSensor
from airflow_provider.triggers import IncidentTrigger
from tests.builders import active, assigned, instance, standby
from tests.integration.airflow.running import run
from tests.integration.launch.application import Application


def write_raw(application: Application, topic: str, key: bytes, value: bytes) -> None:
    producer = Producer(application.connection.to_client_config())
    producer.produce(f"{application.id}-{topic}", value, key, partition=0)
    assert producer.flush(30) == 0


def of(application: Application, name: str, *tasks: Any, state: InstanceState = InstanceState.RUNNING) -> Any:
    return instance(name, *tasks, state=state)


def test_assignment_that_cannot_be_read_is_followed_by_none(application: Application) -> None:
    application.publish(assigned("a b", application_id=application.id))
    write_raw(application, "assignment", b"assignment", b"{no json")

    with pytest.raises(AssignmentError, match="cannot be read"):
        AssignmentPublisher(application.connection, application.id)

    mended = assigned("a b", generation=2, application_id=application.id)
    write_raw(application, "assignment", b"assignment", to_value(mended))
    assert AssignmentPublisher(application.connection, application.id).view.assignment == mended


def test_failure_is_found_although_another_status_cannot_be_read(application: Application) -> None:
    application.publish(assigned("a b", application_id=application.id))
    application.write(of(application, "a", active(0)), of(application, "b", standby(0)))
    write_raw(application, "status", b"instance/b", b"{no json")
    application.write(of(application, "a", state=InstanceState.ENDED))

    async def first() -> dict[str, Any]:
        async for event in IncidentTrigger(application.id).run():
            payload: dict[str, Any] = event.payload
            return payload
        raise AssertionError("the watch ended")

    found = asyncio.run(asyncio.wait_for(first(), 20.0))
    assert found["incident"]["instance"] == "a"


def test_sensor_says_which_record_it_could_not_read(application: Application) -> None:
    application.publish(assigned("a b", application_id=application.id))
    application.write(of(application, "a", active(0)))
    write_raw(application, "status", b"instance/b", b"{no json")

    with pytest.raises(DeadlineError, match=r"records that cannot be read: b'instance/b'"):
        run(StandbyLagSensor(task_id="warm", application_id=application.id, timeout_s=1.0))
