from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.errors import ConfigurationError
from airflow_provider.links.instance_log import InstanceLogLink, log_url
from airflow_provider.operators.instance_deployment import DeployInstanceOperator

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
