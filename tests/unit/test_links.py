from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.records.incident import Incident, IncidentKind, IncidentRecord
from airflow_provider.errors import ConfigurationError
from airflow_provider.links import FailoverRun, FailoverRunLink, InstanceLogLink, SparkUiLink, log_url
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.repair import ReportFailOverOperator
from airflow_provider.sensors.states import InstanceStateSensor
from tests.builders import instance

HANDLE = InstanceHandle(
    application_id="orders", instance="a", incarnation=7, host="h1", log_file="/run/my logs/instance.log"
)
SETTING = "AIRFLOW__STATEFUL_STREAMS__LOG_URL"
NO_KEY: Any = None


def deploying(handle: InstanceHandle | None) -> DeployInstanceOperator:
    operator = DeployInstanceOperator(task_id="deploy", application_id="orders", instance="a")
    operator.linked_instance = handle
    return operator


def test_log_is_where_the_setting_says_that_files_of_hosts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "https://logs.example.com/{host}{log_file}")

    link = InstanceLogLink().get_link(deploying(HANDLE), ti_key=NO_KEY)

    assert link == "https://logs.example.com/h1/run/my%20logs/instance.log"


@pytest.mark.parametrize(
    ("setting", "handle"),
    [
        pytest.param(None, HANDLE, id="no-setting"),
        pytest.param("https://logs/{host}", None, id="no-instance"),
        pytest.param("https://logs/{host}", dataclasses.replace(HANDLE, log_file=None), id="not-launched-yet"),
    ],
)
def test_without_a_known_place_there_is_no_button(
    setting: str | None, handle: InstanceHandle | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting is not None:
        monkeypatch.setenv(SETTING, setting)

    assert InstanceLogLink().get_link(deploying(handle), ti_key=NO_KEY) == ""


def test_every_name_can_be_used() -> None:
    assert log_url("/{application_id}/{instance}/{incarnation}?{{}}", HANDLE) == "/orders/a/7?{}"


@pytest.mark.parametrize("template", ["https://{hots}", "https://{", "https://{0}", "https://{host.x}", "{host[0][x]}"])
def test_template_that_is_none_is_refused_with_the_names_that_can_be_used(template: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\[stateful_streams\] log_url is .*: use a URL .*\{log_file\}"):
        log_url(template, HANDLE)


def answered(dag_id: str | None) -> IncidentRecord:
    incident = Incident(
        application_id="app", kind=IncidentKind.INSTANCE_ENDED, instance="a", incarnation=1, tasks=(), evidence="gone"
    )
    return IncidentRecord(
        incident=incident,
        answered_by="asset_triggered__2026-01-02T03:04:05+00:00_x",
        answered_by_dag=dag_id,
        detected_at_ms=1,
        decided_at_ms=2,
        generation=2,
    )


def link_of(dag_id: str | None) -> str:
    operator = ReportFailOverOperator(task_id="report", application_id="app", incident_id="i")
    operator.linked_run = FailoverRun.of(answered(dag_id))
    return FailoverRunLink().get_link(operator, ti_key=NO_KEY)


def test_run_that_answered_is_linked_in_this_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/team/")

    assert link_of("app_failover") == (
        "https://airflow.example.com/team/dags/app_failover/runs/asset_triggered__2026-01-02T03%3A04%3A05%2B00%3A00_x"
    )


def test_failure_that_the_command_line_answered_has_no_run() -> None:
    assert link_of(None) == ""


@pytest.mark.parametrize("ui_url", ["http://h1:4040", None], ids=["on", "off"])
def test_ui_is_where_the_instance_says(ui_url: str | None) -> None:
    sensor = InstanceStateSensor(task_id="up", application_id="app", instance="a")
    sensor.linked_instance = InstanceHandle.of(instance("a", ui_url=ui_url))

    assert SparkUiLink().get_link(sensor, ti_key=NO_KEY) == (ui_url or "")


def test_address_that_is_no_page_is_no_link() -> None:
    sensor = InstanceStateSensor(task_id="up", application_id="app", instance="a")
    sensor.linked_instance = InstanceHandle.of(instance("a", ui_url="javascript:alert(1)"))

    assert SparkUiLink().get_link(sensor, ti_key=NO_KEY) == ""


def test_before_an_instance_is_known_there_is_no_button() -> None:
    sensor = InstanceStateSensor(task_id="up", application_id="app", instance="a")

    assert SparkUiLink().get_link(sensor, ti_key=NO_KEY) == ""
