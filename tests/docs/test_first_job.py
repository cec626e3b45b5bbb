"""The files and commands of the first job fit together."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from airflow.configuration import conf

from airflow_provider.kit.records import parse_line
from airflow_provider.streaming import StatefulJob
from tests.docs.commands import ROOT
from tests.docs.fences import fences_of

PAGE = ROOT / "docs" / "first-job.md"
TEXT = PAGE.read_text(encoding="utf-8")


def run_file(name: str) -> dict[str, Any]:
    (fence,) = [fence for fence in fences_of(PAGE) if fence.file == name]
    values: dict[str, Any] = {"__name__": "page"}
    exec(compile(fence.text, name, "exec"), values)
    return values


@pytest.fixture
def job() -> StatefulJob:
    found = run_file("job.py")["job"]
    assert isinstance(found, StatefulJob)
    return found


def test_orders_are_lines_that_the_kit_writes_with_the_job_s_key(job: StatefulJob) -> None:
    (stage,) = job.stages
    for number, line in enumerate(islice(run_file("orders.py")["orders"](), 20), start=1):
        record = parse_line(line, number)

        assert record is not None
        assert record.value is not None
        value = json.loads(record.value)
        assert value[stage.key] == record.key
        assert stage.schema is not None
        assert set(value) == {field.split()[0] for field in stage.schema.split(",")}


def test_broker_has_the_topics_of_the_job(job: StatefulJob) -> None:
    topics = dict(re.findall(r"--topic (\S+):(\d+)", TEXT))

    (stage,) = job.stages
    assert set(topics) == {stage.source_topic, stage.output_topic}


def test_deployed_is_the_job_of_the_page(job: StatefulJob) -> None:
    made = run_file("dags/customer_totals.py")["totals"].stream

    assert made.application_id == job.application_id
    assert made.job == "/tmp/first-job/job.py"
    assert (made.state_dir, made.run_dir) == ("/tmp/first-job/state", "/tmp/first-job/run")
    assert f"dags trigger {job.application_id}_deploy" in TEXT
    assert "stateful_streams_" not in TEXT, "one way is taught"


def test_airflow_that_asks_for_no_password_listens_on_this_machine_alone() -> None:
    (environment,) = [fence.text for fence in fences_of(PAGE) if fence.file == "env.sh"]

    assert "SIMPLE_AUTH_MANAGER_ALL_ADMINS=True" in environment
    assert "export AIRFLOW__API__HOST=127.0.0.1\n" in environment


def test_other_ports_are_given_to_every_command_and_the_ports_of_airflow_are_its_own() -> None:
    paragraph = TEXT.partition("**Other ports.**")[2].partition("\n\n")[0]
    ports = dict(re.findall(r"`AIRFLOW__LOGGING__(\w+_PORT)`\s\((\d+)\)", paragraph))

    used = set(re.findall(r"^python -m airflow_provider ([a-z]+)", TEXT, re.MULTILINE))
    assert used <= set(re.findall(r"`(?:python -m airflow_provider )?([a-z]+)`", paragraph))
    assert set(ports) == {"WORKER_LOG_SERVER_PORT", "TRIGGER_LOG_SERVER_PORT"}
    assert ports == {name: str(conf.get_default_value("logging", name.lower())) for name in ports}


def test_crash_is_of_the_newest_launch_however_often_it_is_tried(tmp_path: Path) -> None:
    (crash,) = [fence.text for fence in fences_of(PAGE) if "kill -9" in fence.text]
    for launch, group in (("customer-totals-a-1795322618334", 111), ("customer-totals-a-1795322751552", 222)):
        (tmp_path / "run" / launch).mkdir(parents=True)
        (tmp_path / "run" / launch / "process_group").write_text(str(group))

    shown = crash.replace("kill -9", "echo kill -9").replace("/tmp/first-job", str(tmp_path))
    said = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, timeout=30, check=True).stdout

    assert said == "kill -9 -- -222\n"


def test_instances_are_stopped_by_commands_that_no_failover_answers() -> None:
    made = run_file("dags/customer_totals.py")["totals"].stream
    stopped = re.findall(r"^python -m airflow_provider stop (\S+) (\S+)( --no-hand-over)?$", TEXT, re.MULTILINE)

    assert [(application, instance) for application, instance, _ in stopped] == [
        (made.application_id, instance.name) for instance in made.instances
    ]
    assert [bool(last) for *_, last in stopped] == [False] * (len(stopped) - 1) + [True]
    assert "kill $(" not in TEXT
