"""What Airflow does about an instance that another starts: a parent stands for its supervisor, no Spark runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.control.records.status import InstanceState
from airflow_provider.errors import ConfigurationError, DeadlineError
from airflow_provider.operators.application_reset import RemoveStateOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from tests.integration.airflow.running import context, run
from tests.integration.launch.application import FAKE_INSTANCE, Application
from tests.plain_supervisor import PlainSupervisor
from tests.waiting import wait_until


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Its own, so that it can change."""
    file = tmp_path / "job.py"
    file.write_text(FAKE_INSTANCE.read_text())
    return file


@pytest.fixture
def supervisor(application: Application, job: Path, tmp_path: Path, spark_submit: Path) -> Iterator[PlainSupervisor]:
    servers = application.connection.bootstrap_servers
    options = ("--bootstrap-servers", servers, "--state-dir", str(tmp_path / "a"), "--conf", "spark.jars=none.jar")
    made = PlainSupervisor(application.id, "a", job, spark_submit, *options)
    yield made
    made.stop()


Await = Callable[..., DeployInstanceOperator]


@pytest.fixture
def awaiting(application: Application, job: Path) -> Await:
    def make(**more: Any) -> DeployInstanceOperator:
        given: dict[str, Any] = {"application": str(job), "placement": "supervised", "start_timeout_s": 120.0}
        arguments = given | more
        return DeployInstanceOperator(task_id="deploy", application_id=application.id, instance="a", **arguments)

    return make


def test_deployment_launches_nothing_and_says_who_has_to(
    application: Application, awaiting: Await, supervisor: PlainSupervisor
) -> None:
    with pytest.raises(DeadlineError, match="its supervisor has to start it"):
        run(awaiting(start_timeout_s=3.0))

    assert not application.view().statuses


def test_deployment_waits_for_the_supervisor_and_so_does_a_replacement_of_no_dag_in_particular(
    application: Application, awaiting: Await, supervisor: PlainSupervisor
) -> None:
    supervisor.start()
    first = run(awaiting())
    assert application.view().statuses["a"].state is InstanceState.RUNNING

    os.killpg(os.getpgid(first["pid"]), signal.SIGKILL)
    again = run(awaiting(application=None, placement=None))

    assert again["incarnation"] > first["incarnation"]
    assert supervisor.statuses == [ExitStatus.ERROR]


def test_upgrade_has_the_supervisor_start_the_new_job_file(
    application: Application, awaiting: Await, supervisor: PlainSupervisor, job: Path
) -> None:
    supervisor.start()
    first = run(awaiting())
    job.write_text(f"{job.read_text()}# changed\n")

    with pytest.raises(ConfigurationError, match="runs another job file"):
        awaiting().execute(context())
    report = awaiting(on_change="report").execute(context())
    assert report["runs"]
    assert "the content of the job file" in report["changed"][0]
    again = run(awaiting(on_change="upgrade"), context("upgrade-1"))

    assert again["incarnation"] > first["incarnation"]
    assert supervisor.statuses == [ExitStatus.RESTART]
    assert awaiting(on_change="report").execute(context())["changed"] == []


def test_upgrade_ends_where_the_host_still_has_the_old_file(
    awaiting: Await, supervisor: PlainSupervisor, tmp_path: Path
) -> None:
    supervisor.start()
    run(awaiting())
    elsewhere = tmp_path / "workers_job.py"
    elsewhere.write_text(f"{FAKE_INSTANCE.read_text()}# changed\n")

    with pytest.raises(ConfigurationError, match="has restarted it, and still runs another job file"):
        run(awaiting(on_change="upgrade", application=str(elsewhere)), context("upgrade-1"))

    assert supervisor.statuses == [ExitStatus.RESTART]


def test_error_that_a_restart_would_meet_ends_the_wait(awaiting: Await, supervisor: PlainSupervisor, job: Path) -> None:
    job.write_text("raise AttributeError('no such column')\n")
    task = awaiting()
    threading.Timer(1.0, supervisor.start).start()

    with pytest.raises(Exception, match="no such column"):
        run(task)

    wait_until(lambda: supervisor.statuses == [ExitStatus.PERMANENT], 60.0, "the supervisor to leave it down")


def test_stores_of_a_reset_are_left_to_a_person(application: Application, supervisor: PlainSupervisor) -> None:
    remove = RemoveStateOperator(
        task_id="remove",
        application_id=application.id,
        instance="a",
        state_dir="/data/a",
        confirm=application.id,
        placement="supervised",
    )

    assert remove.execute(context()) == {"folder": f"/data/a/{application.id}", "tasks": [], "removed": False}
