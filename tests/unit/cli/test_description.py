from __future__ import annotations

import json

import pytest

from airflow_provider.cli.description import describe, without_secrets
from airflow_provider.cli.text import nested_text
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError
from tests.builders import APPLICATION, active, assigned, instance, standby, view_of

DEPLOYMENT = Deployment(
    application_id=APPLICATION,
    instance="a",
    application="/srv/job.py",
    kafka_conn_id="kafka",
    spark_conn_id="spark",
    state_dir="/state",
    run_dir="/run",
    conf={"spark.executor.memory": "2g", "spark.hadoop.fs.s3a.access.key": "AKIA-1"},
    application_args=("--day", "monday", "--password", "hunter2", "--api-token=t0p", "plain"),
    env_vars={"DB_URL": "postgres://u:hunter2@h/d"},
)


def whole() -> ControlView:
    view = view_of(
        assigned("a b", "b a"),
        instance("a", active(0, source_offset=57, position=31), standby(1), host="h1", pid=7),
        instance("b", active(1), standby(0, certified_position=30)),
    )
    view.deployments["a"] = DEPLOYMENT
    return view


def test_deployment_shows_no_secret() -> None:
    shown = without_secrets(DEPLOYMENT)

    assert shown["conf"] == {"spark.executor.memory": "2g", "spark.hadoop.fs.s3a.access.key": "(hidden)"}
    assert shown["application_args"] == ["--day", "monday", "--password", "(hidden)", "(hidden)", "plain"]
    assert shown["env_vars"] == {"DB_URL": "(hidden)"}
    everything = json.dumps([describe(whole(), ()), describe(whole(), (), "a")])
    assert not [secret for secret in ("hunter2", "t0p", "AKIA-1") if secret in everything]


def test_task_has_its_assignment_and_every_copy_the_active_first() -> None:
    known = describe(whole(), (), "0_1")

    assert (known["active"], known["standbys"]) == ("b", ["a"])
    assert [copy["instance"] for copy in known["copies"]] == ["b", "a"]


def test_instance_has_its_status_tasks_and_deployment() -> None:
    known = describe(whole(), {"a"}, "a")

    assert (known["silent"], known["active_for"], known["standby_for"]) == (True, ["0_0"], ["0_1"])
    assert known["status"]["process"]["host"] == "h1"
    assert known["deployment"]["application"] == "/srv/job.py"


def test_what_does_not_exist_is_an_error_that_names_what_does() -> None:
    with pytest.raises(InstanceError, match="no instance and no task 'c': its instances are a, b, its tasks 0_0, 0_1"):
        describe(whole(), (), "c")
    with pytest.raises(InstanceError, match="no instance and no task '0_7'"):
        describe(whole(), (), "0_7")


def test_text_has_what_is_there_and_times_as_dates() -> None:
    text = nested_text(describe(whole(), (), "0_0"))

    assert "  - instance: a\n" in text
    assert "    source_offset: 57\n" in text
    assert "None" not in text
    assert (
        nested_text({"at_ms": 86_400_000, "paused": False}) == "at_ms: 86400000 (1970-01-02 00:00:00 UTC)\npaused: no"
    )


def test_text_has_what_is_nested_too_and_nothing_that_is_empty() -> None:
    known = {"status": {"process": {"host": "h1", "pid": None}, "tasks": [], "error": {}}, "conf": {}}

    assert nested_text(known).splitlines() == ["status:", "  process:", "    host: h1"]
