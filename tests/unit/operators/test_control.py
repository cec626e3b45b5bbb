from __future__ import annotations

import inspect
from typing import Any

import pytest

from airflow_provider.operators.changelog_replay import ReplayChangelogOperator
from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
from airflow_provider.operators.control import ControlOperator
from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.operators.failover_report import ReportFailOverOperator
from airflow_provider.operators.fault_injection import InjectFaultOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.instance_stop import StopInstanceOperator
from airflow_provider.operators.promotion import PromoteStandbyOperator, numbers_of
from airflow_provider.operators.recovery_check import CheckRecoveryOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.control import ControlSensor
from airflow_provider.sensors.incident_resolution import IncidentResolutionSensor
from airflow_provider.sensors.instance_state import InstanceStateSensor
from airflow_provider.sensors.standby_lag import StandbyLagSensor
from airflow_provider.sensors.task_state import TaskStateSensor

ARGUMENTS: dict[type[ControlOperator | ControlSensor], dict[str, Any]] = {
    AssignTasksOperator: {},
    CheckRecoveryOperator: {"fault": {}},
    CreateChangelogTopicsOperator: {"source_topics": "source"},
    DeployInstanceOperator: {"instance": "a"},
    FailOverOperator: {},
    InjectFaultOperator: {},
    PromoteStandbyOperator: {"tasks": 0},
    ReplayChangelogOperator: {"instance": "a", "tasks": [0]},
    ReportFailOverOperator: {"incident_id": "i"},
    StopInstanceOperator: {"instance": "a"},
    IncidentResolutionSensor: {"instance": "a", "incarnation": 1},
    InstanceStateSensor: {"instance": "a"},
    StandbyLagSensor: {},
    TaskStateSensor: {"task_number": 0},
}
ONCE = {InjectFaultOperator}


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


def test_it_retries_soon_by_default(made: ControlOperator | ControlSensor) -> None:
    assert (made.retries or 0) == 0 if type(made) in ONCE else (made.retries or 0) >= 1
    assert made.retry_delay.total_seconds() <= 10


def test_own_number_of_retries_wins(kind: type[ControlOperator | ControlSensor]) -> None:
    assert kind(task_id="t", application_id="app", retries=7, **ARGUMENTS[kind]).retries == 7


def test_contract_names_what_can_go_wrong(kind: type[ControlOperator | ControlSensor]) -> None:
    assert kind.__doc__
    assert "Args:" in kind.__doc__
    assert "Raises:" in kind.__doc__


def test_sensor_says_what_it_waits_for(made: ControlOperator | ControlSensor) -> None:
    if isinstance(made, ControlSensor):
        assert str(made.condition())


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [(3, (3,)), ([0, 2], (0, 2)), ("1, 2", (1, 2)), ("[4]", (4,)), (["5"], (5,))],
    ids=["number", "list", "text", "rendered list", "texts"],
)
def test_task_numbers_are_read_as_people_write_them(tasks: Any, expected: tuple[int, ...]) -> None:
    assert numbers_of(tasks) == expected
