from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider.control.topics import topic_absence
from airflow_provider.errors import BrokerUnreachableError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.topics import CreateChangelogTopicsOperator
from airflow_provider.sensors.states import InstanceStateSensor


class Reads(ControlOperator):
    def execute(self, context: Context) -> Any:
        raise TopicMissingError("Control topic 'ap-assignment' does not exist")


class FakeAdmin:
    """Knows the topics after some looks, or never."""

    unknown_looks: int
    unreachable = False

    def __init__(self, _: KafkaConnection) -> None: ...

    def describe(self, _: str) -> object | None:
        if FakeAdmin.unreachable:
            raise BrokerUnreachableError("no broker answered")
        FakeAdmin.unknown_looks -= 1
        return None if FakeAdmin.unknown_looks >= 0 else object()


@pytest.fixture(autouse=True)
def brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.hooks.kafka_streams.KafkaStreamsHook.connection", KafkaConnection("b:1"))
    monkeypatch.setattr(topic_absence, "TopicAdmin", FakeAdmin)
    monkeypatch.setattr(topic_absence, "MISSING_S", 0.05)
    monkeypatch.setattr(topic_absence, "_PAUSE_S", 0.01)
    monkeypatch.setattr(FakeAdmin, "unreachable", False)
    FakeAdmin.unknown_looks = 1_000_000


def test_wrong_application_id_ends_the_task_without_another_try() -> None:
    with pytest.raises(TopicMissingError, match="does not exist") as error:
        Reads(task_id="t", application_id="ap").execute(Context())

    assert isinstance(error.value, AirflowFailException)


@pytest.mark.parametrize("unreachable", [False, True], ids=["known-soon", "no-broker"])
def test_topics_that_brokers_may_know_soon_are_looked_for_by_another_try(unreachable: bool) -> None:
    FakeAdmin.unknown_looks, FakeAdmin.unreachable = 2, unreachable

    with pytest.raises(TopicMissingError) as error:
        Reads(task_id="t", application_id="app").execute(Context())

    assert not isinstance(error.value, AirflowFailException)


def test_operator_that_creates_the_topics_does_not_miss_them() -> None:
    assert not CreateChangelogTopicsOperator(
        task_id="t", application_id="app", source_topics="s"
    ).has_no_control_topics()


EVENT = {"outcome": "failed", "waited_for": "x", "waited_s": 20.0, "seen": "", "missing": "'ap-status' does not exist"}


def test_deferred_wait_for_an_application_that_does_not_exist_is_not_tried_again() -> None:
    with pytest.raises(TopicMissingError, match="'ap-status' does not exist") as error:
        InstanceStateSensor(task_id="t", application_id="ap", instance="a").execute_complete(Context(), dict(EVENT))

    assert isinstance(error.value, AirflowFailException)


def test_sensor_that_must_not_fail_skips_where_the_application_does_not_exist() -> None:
    sensor = InstanceStateSensor(task_id="t", application_id="ap", instance="a", never_fail=True)

    with pytest.raises(AirflowSkipException, match="'ap-status' does not exist"):
        sensor.execute_complete(Context(), dict(EVENT))
