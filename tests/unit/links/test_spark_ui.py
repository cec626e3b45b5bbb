from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.links.spark_ui import SparkUiLink
from airflow_provider.sensors.instance_state import InstanceStateSensor
from tests.builders import instance

NO_KEY: Any = None


@pytest.mark.parametrize("ui_url", ["http://h1:4040", None], ids=["on", "off"])
def test_ui_is_where_the_instance_says(ui_url: str | None) -> None:
    sensor = InstanceStateSensor(task_id="up", application_id="app", instance="a")
    sensor.linked_instance = InstanceHandle.of(instance("a", ui_url=ui_url))

    assert SparkUiLink().get_link(sensor, ti_key=NO_KEY) == (ui_url or "")


def test_before_an_instance_is_known_there_is_no_button() -> None:
    sensor = InstanceStateSensor(task_id="up", application_id="app", instance="a")

    assert SparkUiLink().get_link(sensor, ti_key=NO_KEY) == ""
