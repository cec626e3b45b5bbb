"""What hours of metrics on a real broker say to the monitor and to a sensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.metrics import metrics_value
from airflow_provider.errors import DeadlineError, InstanceError, TopicMissingError
from airflow_provider.kafka.names import metrics_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.operators.checks import CheckSloOperator
from airflow_provider.sensors.figures import ChangelogGrowthSensor
from tests.integration.airflow.conftest import Deploy, make_pair
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import Application
from tests.unit.control.outlook.test_metrics_forecasts import NOW_MS, day
from tests.watched import watched

MINUTES = 300


def keep(
    application: Application, *names: str, minutes: int = MINUTES, counted: Mapping[str, Any] | None = None
) -> None:
    """The figures of some instances in the last hours: each minute a MiB of 2,000 less, 100 changelog records more.

    Args:
        application: the application.
        names: of the instances.
        minutes: so many records each.
        counted: further fields of each task, the same all the time.
    """
    topic, now = metrics_topic(application.id), now_ms()
    # So that the records lie in the past: the topic of an application is timed by the brokers.
    TopicAdmin(application.connection).alter_setting(topic, "message.timestamp.type", "CreateTime")
    producer = Producer(application.connection.to_client_config())
    for record in day(free=lambda at: (2_000 - at) << 20, minutes=minutes):
        tasks = tuple(dataclasses.replace(task, **(counted or {})) for task in record.tasks)
        record = dataclasses.replace(record, tasks=tasks)
        for name in names:
            value = metrics_value(dataclasses.replace(record, application_id=application.id, instance=name))
            producer.produce(topic, value, name.encode(), partition=0, timestamp=now - NOW_MS + record.at_ms)
    assert producer.flush(10.0) == 0


def check(application: Application, **limits: Any) -> dict[str, Any]:
    """What the monitor's task returns."""
    operator = CheckSloOperator(task_id="check_slo", application_id=application.id, slo=limits)
    with watched(application.id):
        found: dict[str, Any] = run(operator)
    return found


def test_monitor_is_red_for_a_disk_that_is_full_soon_and_says_what_helps(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    keep(application, "a", "gone")

    with pytest.raises(InstanceError) as found:
        check(application, forecast_s=2 * 86_400)

    lines = str(found.value).splitlines()
    assert len(lines) == 2, "no other promise is missed, and an instance that is not assigned has none"
    assert lines[1].startswith("  - a's disk is full in 1.2 days: it has ")
    assert lines[1].endswith(f"stateful-streams assign {application.id} --balance")


def test_monitor_that_is_green_returns_what_is_ahead(application: Application, pair: list[dict[str, Any]]) -> None:
    keep(application, "a")

    forecasts = check(application, forecast_s=3_600, rto_s=60)["forecasts"]

    assert forecasts["disks"]["a"]["outlook"] == "ahead"
    assert forecasts["growths"]["0_0"]["records_per_day"] == pytest.approx(144_000, rel=0.01)
    assert forecasts["replays"]["0_0"]["outlook"] == "not_enough_records", "no restore is on record"


def test_growth_beyond_what_is_promised_is_red(application: Application, pair: list[dict[str, Any]]) -> None:
    keep(application, "a")

    with pytest.raises(InstanceError, match=r"task 0_0 grows by 14\d,\d{3} records a day, 100 are promised"):
        check(application, changelog_records_per_day="100")


def test_records_left_out_within_the_hour_beyond_what_is_promised_are_red(
    application: Application, deploy: Deploy
) -> None:
    make_pair(application, deploy, env_vars={"LATE": "7", "LEFT_OUT": "5"})
    keep(application, "a", counted={"late_records": 2, "left_out_records": 3})

    assert check(application, late_per_hour="5", left_out_per_hour=2)
    with pytest.raises(InstanceError, match=r"5 records came too late .*, 4 are allowed \(task 0_0: 5\)"):
        check(application, late_per_hour=4)
    with pytest.raises(InstanceError, match=r"2 records could not be processed .*, 1 are allowed \(task 0_0: 2\)"):
        check(application, left_out_per_hour="1")


@pytest.mark.parametrize("there", [True, False], ids=["few-records", "no-topic"])
def test_monitor_invents_nothing(there: bool, application: Application, pair: list[dict[str, Any]]) -> None:
    if there:
        keep(application, "a", minutes=10)
    else:
        TopicAdmin(application.connection).delete([metrics_topic(application.id)])

    found = check(application, forecast_s=1e9, replay_rto_s=1, changelog_records_per_day=1)

    outlooks = {name: disk["outlook"] for name, disk in found["forecasts"]["disks"].items()}
    assert outlooks == ({"a": "not_enough_records"} if there else {})


def test_sensor_waits_for_changelogs_to_grow_slowly(application: Application, pair: list[dict[str, Any]]) -> None:
    growth: dict[str, Any] = {"task_id": "growth", "application_id": application.id, "tasks": "0_0"}
    with pytest.raises(DeadlineError, match="task 0_0: not enough records: there is no record"):
        run(ChangelogGrowthSensor(max_records_per_day=200_000, timeout_s=3.0, **growth))
    keep(application, "a")

    found = run(ChangelogGrowthSensor(max_records_per_day=200_000, timeout_s=30.0, **growth))

    assert found["records_per_day"]["0_0"] == pytest.approx(144_000, rel=0.01)
    with pytest.raises(DeadlineError, match=r"that of task 0_0 grows by 14\d,\d{3} records a day"):
        run(ChangelogGrowthSensor(max_records_per_day=1_000, timeout_s=3.0, **growth))


def test_sensor_that_pokes_looks_at_the_records_of_its_window(
    application: Application, pair: list[dict[str, Any]]
) -> None:
    keep(application, "a")
    growth: dict[str, Any] = {"task_id": "growth", "application_id": application.id, "tasks": "0_0"}
    growth |= {"max_records_per_day": 200_000, "deferrable": False, "instance_timeout_s": 2.0}

    assert ChangelogGrowthSensor(**growth).poke(context())
    assert not ChangelogGrowthSensor(window_s=1_800, **growth).poke(context()), "half an hour is too short"


def test_sensor_of_an_application_without_metrics_says_what_to_do(
    application: Application, pair: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.control.waiting.condition_wait.MISSING_S", 1.0)
    TopicAdmin(application.connection).delete([metrics_topic(application.id)])

    with pytest.raises(TopicMissingError, match="stateful-streams topics repair"):
        run(ChangelogGrowthSensor(task_id="growth", application_id=application.id, max_records_per_day=1))
