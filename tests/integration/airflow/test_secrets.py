"""An instance that logs in as a user of its own, and where the passwords of both users are."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from airflow_provider.control.application.rights import Role
from airflow_provider.control.records.status import InstanceState
from airflow_provider.kafka.names import assignment_topic, status_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from airflow_provider.operators.instance_commands import StopInstanceOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.integration.airflow.running import run
from tests.integration.guarded_broker import GuardedBroker
from tests.integration.launch.application import Application
from tests.integration.streaming.committed import records_of
from tests.secret_scan import arguments_with, environments_with, files_with, holds
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("guarded")


@pytest.fixture
def application(guarded: GuardedBroker, application_id: str, monkeypatch: pytest.MonkeyPatch) -> Application:
    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(guarded.user))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_OF_INSTANCES", airflow_connection(guarded.another))
    made = Application.create(guarded.bootstrap_servers, application_id)
    TopicAdmin(made.connection).ensure([changelog_spec(application_id, "state", 2)])
    source, sink = f"{application_id}-source", f"{application_id}-sink"
    guarded.grant(application_id, Role.AIRFLOW, source=source, sink=sink)
    guarded.grant(application_id, Role.INSTANCE, source=source, sink=sink, user=guarded.another)
    return made


def launcher_of(run_dir: Path) -> psutil.Process:
    """The process that was given the folder of a launch."""
    for process in psutil.process_iter():
        try:
            if process.cmdline()[-1:] == [str(run_dir)]:
                return process
        except psutil.Error:
            continue
    raise AssertionError(f"no process was launched in {run_dir}")


def test_instance_logs_in_as_a_user_of_its_own_and_no_password_is_seen(
    application: Application, guarded: GuardedBroker, deploy: Callable[..., DeployInstanceOperator], tmp_path: Path
) -> None:
    secrets = [str(guarded.user.sasl_password), str(guarded.another.sasl_password)]
    operator = deploy("a", instance_kafka_conn_id="kafka_of_instances")

    handle = run(operator)

    (settings,) = tmp_path.rglob("instance.json")
    launcher = launcher_of(settings.parent)
    assert handle["instance"] == "a"
    assert not holds(json.dumps(handle), secrets), "the result of the task, which is its XCom"
    rendered = {name: str(getattr(operator, name)) for name in operator.template_fields}
    assert not holds(json.dumps(rendered), secrets), "what Airflow shows of the task"
    assert arguments_with(secrets) == []
    assert environments_with(secrets, [launcher, *launcher.children(recursive=True)]) == []
    assert files_with(secrets, tmp_path) == [settings], "the instance's own file alone"
    assert json.loads(settings.read_bytes())["connection"]["sasl_username"] == guarded.another.sasl_username
    assert (stat.S_IMODE(settings.stat().st_mode), stat.S_IMODE(settings.parent.stat().st_mode)) == (0o600, 0o700)
    for topic in (assignment_topic(application.id), status_topic(application.id)):
        assert not holds(str(records_of(guarded.bootstrap_servers, topic)), secrets)

    run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

    assert application.view().statuses["a"].state is InstanceState.STOPPED
    wait_until(lambda: not settings.exists(), 60.0, "the launcher to remove the instance's file")
    assert files_with(secrets, tmp_path) == []
