from __future__ import annotations

import inspect
import itertools
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException

from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.waiting.evaluation import Outcome, WaitResult
from airflow_provider.errors import ConfigurationError, DeadlineError, FencedError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.operators.application_reset import RemoveStateOperator, ResetApplicationOperator
from airflow_provider.operators.assignment import AssignTasksOperator, FailOverOperator, PromoteStandbyOperator
from airflow_provider.operators.checks import CheckBlackoutOperator, CheckDrillReadinessOperator, CheckSloOperator
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.drill import CheckRecoveryOperator, InjectFaultOperator
from airflow_provider.operators.instance_commands import (
    CertifyStandbysOperator,
    PauseProcessingOperator,
    ReplayChangelogOperator,
    SnapshotStandbysOperator,
    StopInstanceOperator,
)
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.repair import ListRepairsOperator, ReportFailOverOperator
from airflow_provider.operators.topics import CheckTopicsOperator, CreateChangelogTopicsOperator
from airflow_provider.sensors.control import ControlSensor
from airflow_provider.sensors.figures import StandbyLagSensor
from airflow_provider.sensors.states import (
    FaultEndSensor,
    IncidentResolutionSensor,
    InstanceStateSensor,
    TaskStateSensor,
)
from airflow_provider.triggers import ControlTrigger
from tests.unit.control.drills.test_judgement import FAULT

ARGUMENTS: dict[type[ControlOperator | ControlSensor], dict[str, Any]] = {
    AssignTasksOperator: {},
    CertifyStandbysOperator: {},
    CheckBlackoutOperator: {},
    CheckDrillReadinessOperator: {},
    CheckRecoveryOperator: {"fault": {}},
    CheckSloOperator: {},
    CheckTopicsOperator: {"source_topics": "source"},
    CreateChangelogTopicsOperator: {"source_topics": "source"},
    DeployInstanceOperator: {"instance": "a"},
    FailOverOperator: {},
    InjectFaultOperator: {},
    PauseProcessingOperator: {},
    PromoteStandbyOperator: {"tasks": 0},
    RemoveStateOperator: {"instance": "a", "state_dir": "/state"},
    ReplayChangelogOperator: {"instance": "a", "tasks": [0]},
    ListRepairsOperator: {},
    ReportFailOverOperator: {"incident_id": "i"},
    ResetApplicationOperator: {},
    SnapshotStandbysOperator: {},
    StopInstanceOperator: {"instance": "a"},
    FaultEndSensor: {"fault": to_plain(FAULT)},
    IncidentResolutionSensor: {"instance": "a", "incarnation": 1},
    InstanceStateSensor: {"instance": "a"},
    StandbyLagSensor: {},
    TaskStateSensor: {"task": "0_0"},
}


@pytest.fixture(params=ARGUMENTS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[ControlOperator | ControlSensor]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def made(kind: type[ControlOperator | ControlSensor]) -> ControlOperator | ControlSensor:
    return kind(task_id="t", application_id="app", **ARGUMENTS[kind])


def test_template_fields_are_attributes_and_arguments(made: ControlOperator | ControlSensor) -> None:
    arguments = {
        name for base in type(made).__mro__ for name in inspect.signature(vars(base).get("__init__", object)).parameters
    }

    for name in made.template_fields:
        assert hasattr(made, name)
        assert name in arguments


NO_TEMPLATES = {"timeout", "until", "certified", "soft_fail", "deferrable"}


def test_other_arguments_than_the_documented_are_template_fields(made: ControlOperator | ControlSensor) -> None:
    ours = [base for base in type(made).__mro__ if base.__module__.startswith("airflow_provider.")]
    arguments = {name for base in ours for name in inspect.signature(base).parameters}

    assert arguments - {"retries", "retry_delay", "kwargs"} - NO_TEMPLATES == set(made.template_fields)


def test_it_retries_soon_by_default(made: ControlOperator | ControlSensor) -> None:
    assert (made.retries or 0) >= 1
    assert made.retry_delay.total_seconds() <= 10


def test_it_is_deferred_where_airflows_setting_says_so(made: ControlOperator | ControlSensor) -> None:
    assert made.deferrable is conf.getboolean("operators", "default_deferrable") is True


def test_own_number_of_retries_wins(kind: type[ControlOperator | ControlSensor]) -> None:
    assert kind(task_id="t", application_id="app", retries=7, **ARGUMENTS[kind]).retries == 7


def test_contract_names_what_can_go_wrong(kind: type[ControlOperator | ControlSensor]) -> None:
    assert kind.__doc__
    assert "Args:" in kind.__doc__
    assert "Raises:" in kind.__doc__


def test_sensor_says_what_it_waits_for(made: ControlOperator | ControlSensor) -> None:
    if isinstance(made, ControlSensor):
        assert str(made.condition())


def test_fenced_publisher_lets_the_other_finish_for_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def fenced(*_: object) -> object:
        raise FencedError("a newer publisher took over")

    monkeypatch.setattr(KafkaStreamsHook, "connection", KafkaConnection("127.0.0.1:1"))
    monkeypatch.setattr("airflow_provider.control.topics.publisher.AssignmentPublisher", fenced)
    # Of this module alone: other threads sleep, too.
    monkeypatch.setattr("airflow_provider.control.topics.publisher.time", SimpleNamespace(sleep=pauses.append))

    with pytest.raises(FencedError, match="look for DAG runs"):
        AssignTasksOperator(task_id="t", application_id="app").publish_by(lambda _: None, look=False)

    assert len(pauses) == 10
    assert all(later > earlier for earlier, later in itertools.pairwise(pauses[:5]))
    assert 10.0 < sum(pauses) < 60.0


@pytest.mark.parametrize("timeout_s", ["nan", -1, "soon"], ids=repr)
def test_wrong_setting_ends_the_task_without_another_try(timeout_s: Any) -> None:
    waits = StandbyLagSensor(task_id="t", application_id="app", timeout_s=timeout_s)

    with pytest.raises(ConfigurationError, match="timeout_s is") as raised:
        waits.execute({})

    assert isinstance(raised.value, AirflowFailException)


WAITED_IN_VAIN = to_plain(
    WaitResult(outcome=Outcome.WAITING, waited_for="rain", waited_s=1.0, seen="clouds", result={})
)


def test_deadline_of_a_sensor_is_airflows_and_is_not_tried_again() -> None:
    with pytest.raises(AirflowSensorTimeout) as raised:
        StandbyLagSensor(task_id="t", application_id="app").execute_complete({}, WAITED_IN_VAIN)

    assert isinstance(raised.value, DeadlineError)


@pytest.mark.parametrize(
    ("waits", "limit"),
    [
        pytest.param(
            DeployInstanceOperator(task_id="t", application_id="app", instance="a", start_timeout_s="180"),
            "start_timeout_s=180",
            id="start",
        ),
        pytest.param(
            DeployInstanceOperator(task_id="t", application_id="app", instance="a", until="ended", timeout_s=60),
            "timeout_s=60",
            id="life",
        ),
        pytest.param(StopInstanceOperator(task_id="t", application_id="app", instance="a"), "timeout_s=60", id="stop"),
    ],
)
def test_deadline_names_the_argument_that_set_it_and_its_value(waits: ControlOperator, limit: str) -> None:
    name, _, _ = limit.partition("=")

    with pytest.raises(DeadlineError, match=rf"for rain, .* \({limit}\)\. Last seen: .* allow more with {name}\.$"):
        waits.execute_complete({}, WAITED_IN_VAIN)


@pytest.mark.parametrize(
    "how", [pytest.param({"soft_fail": True}, id="soft_fail"), pytest.param({"never_fail": True}, id="never_fail")]
)
def test_sensor_that_must_not_fail_is_skipped_at_its_deadline(how: dict[str, Any]) -> None:
    waits = StandbyLagSensor(task_id="t", application_id="app", **how)

    with pytest.raises(AirflowSkipException, match="rain"):
        waits.execute_complete({}, WAITED_IN_VAIN)


def test_airflows_timeout_of_a_sensor_is_its_deadline() -> None:
    assert StandbyLagSensor(task_id="t", application_id="app", timeout=timedelta(minutes=2)).timeout_s == 120.0


def test_look_before_a_task_is_deferred_stops_no_instance_when_its_worker_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = StandbyLagSensor(task_id="t", application_id="app", deferrable=True)
    written: list[object] = []

    async def look(_: ControlTrigger, __: object) -> WaitResult:
        sensor.on_kill()
        return WaitResult(outcome=Outcome.MET, waited_for="rain", waited_s=0.1, seen="rain", result={"mm": 1})

    monkeypatch.setattr(KafkaStreamsHook, "connection", KafkaConnection("127.0.0.1:1"))
    monkeypatch.setattr(ControlTrigger, "wait", look)
    monkeypatch.setattr(
        "airflow_provider.control.topics.writer.write_control", lambda *given, **_: written.append(given)
    )
    handle = InstanceHandle(application_id="app", instance="a", incarnation=1)

    assert sensor.wait_for(sensor.condition(), stop_on_kill=handle) == {"mm": 1}

    assert not written
