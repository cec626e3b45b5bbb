"""Deploying, attaching to and stopping by hand an instance that speaks the control protocol and runs no Spark."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider.control.records.status import InstanceState
from airflow_provider.errors import (
    ConfigurationError,
    InstanceError,
)
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.links import InstanceLogLink, SparkUiLink
from airflow_provider.operators.instance_commands import StopInstanceOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.repair import HistoryOperator
from airflow_provider.sensors.states import InstanceStateSensor
from airflow_provider.triggers import ControlTrigger
from tests.integration.airflow.conftest import Deploy
from tests.integration.airflow.running import context, deferral, kill, run, wait
from tests.integration.launch.application import FAKE_INSTANCE, Application

NO_KEY: Any = None


def test_handle_names_the_running_process(application: Application, deploy: Deploy) -> None:
    handle = run(deploy("a"))

    assert Path(f"/proc/{handle['pid']}").exists()
    assert Path(handle["log_file"]).exists()
    status = application.view().statuses["a"]
    assert (status.state, status.incarnation) == (InstanceState.RUNNING, handle["incarnation"])


def test_task_leads_to_the_log_and_the_ui_of_its_instance(
    application: Application, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__STATEFUL_STREAMS__LOG_URL", "https://logs/{host}{log_file}")
    deploying = deploy("a", env_vars={"UI_URL": "http://h1:4040"})
    handle = run(deploying)
    stopping = StopInstanceOperator(task_id="stop", application_id=application.id, instance="a")
    run(stopping)

    logs = [InstanceLogLink().get_link(task, ti_key=NO_KEY) for task in (deploying, stopping)]

    assert logs == [f"https://logs/{handle['host']}{quote(handle['log_file'])}"] * 2
    assert SparkUiLink().get_link(deploying, ti_key=NO_KEY) == "http://h1:4040"


def test_limits_of_run_folders_and_logs_are_the_deployments_and_its_replacements(
    application: Application, deploy: Deploy
) -> None:
    def limits(handle: dict[str, Any]) -> tuple[int, int]:
        settings = InstanceSettings.read(Path(handle["log_file"]).with_name("instance.json"))
        return settings.run_max_folders, settings.log_max_bytes

    first = run(deploy("a", run_max_folders="3", log_max_bytes=2 << 20))
    assert limits(first) == (3, 2 << 20)

    kill(first)
    run(InstanceStateSensor(task_id="gone", application_id=application.id, instance="a", states="ended"))
    assert limits(run(deploy("a", application=None))) == (3, 2 << 20)


def test_limit_that_is_none_is_refused(deploy: Deploy) -> None:
    with pytest.raises(ConfigurationError, match="log_max_bytes is 12: use a whole number of 1048576 or more"):
        run(deploy("a", log_max_bytes=12))


def test_second_deployment_attaches(deploy: Deploy) -> None:
    assert run(deploy("a")) == run(deploy("a"))


def test_task_that_finds_its_instance_running_needs_no_triggerer(deploy: Deploy) -> None:
    handle = run(deploy("a"))

    assert deploy("a").execute(context()) == handle


def test_retry_while_it_starts_attaches(application: Application, deploy: Deploy, spark_submit: Path) -> None:
    with contextlib.suppress(TaskDeferred):  # it ends here, without its event
        deploy("a").execute(context())

    handle = run(deploy("a"))

    assert [path.name for path in spark_submit.glob(f"{application.id}-a-*")] == [
        f"{application.id}-a-{handle['incarnation']}"
    ]


def test_two_at_once_start_one(application: Application, deploy: Deploy) -> None:
    found: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: found.append(run(deploy("a")))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 2
    assert found[0] == found[1]


def test_dead_instance_is_started_anew_from_its_record(application: Application, deploy: Deploy) -> None:
    first = run(deploy("a"))
    kill(first)
    run(InstanceStateSensor(task_id="gone", application_id=application.id, instance="a", states="ended"))

    again = run(DeployInstanceOperator(task_id="again", application_id=application.id, instance="a"))

    assert again["incarnation"] > first["incarnation"]


def test_without_a_record_the_job_has_to_be_named(application: Application) -> None:
    with pytest.raises(ConfigurationError, match="No deployment of 'a'"):
        DeployInstanceOperator(task_id="t", application_id=application.id, instance="a").execute(context())


def test_missing_file_is_refused_before_anything_starts(application: Application, deploy: Deploy) -> None:
    with pytest.raises(ConfigurationError, match="no job file"):
        deploy("a", application="/absent.py").execute(context())

    assert not application.view().statuses


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("def broken(:", "does not compile", id="syntax"),
        pytest.param("StatefulJob('another')", "is the job of 'another'", id="application-id"),
    ],
)
def test_job_file_that_cannot_work_is_refused_before_anything_starts(
    application: Application, deploy: Deploy, tmp_path: Path, text: str, why: str
) -> None:
    job = tmp_path / "job.py"
    job.write_text(text)

    with pytest.raises(ConfigurationError, match=why):
        deploy("a", application=str(job)).execute(context())

    assert not application.view().statuses


@pytest.mark.parametrize("wrong", ["file", "shared"])
def test_folder_that_cannot_be_made_or_trusted_is_reported_and_blocks_nothing(
    application: Application, deploy: Deploy, tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)

    with pytest.raises(ConfigurationError, match="look at the run folder"):
        deploy("a", run_dir=str(tmp_path / wrong / "run")).execute(context())

    assert application.view().statuses["a"].state is InstanceState.ENDED
    assert run(deploy("a"))["instance"] == "a"


def test_job_that_ends_at_once_fails_with_where_its_log_is(
    deploy: Deploy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = tmp_path / "job.py"
    job.write_text("raise SystemExit('no such column')")

    with pytest.raises(InstanceError, match=r"without a clean shutdown.*instance\.log"):
        run(deploy("a", application=str(job)))


OTHER_ID = """
from airflow_provider.streaming import StatefulJob, functions as F, run, stream
another = "another"  # what a job names that is made when it runs cannot be seen before
run(StatefulJob(another, stream("in").group_by("key").aggregate(F.count()).sink("out")))
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'", id="import"),
        pytest.param(OTHER_ID, "ConfigurationError: The job's application id is 'another'", id="application-id"),
    ],
)
def test_mistake_in_the_job_file_is_not_tried_again_and_named_in_the_error(
    text: str, line: str, deploy: Deploy, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text(text)

    deploying = deploy("a", application=str(job))
    with pytest.raises(AirflowFailException, match=f"a is ended: {line}"):
        run(deploying)
    # The task that failed leads to the log of what failed.
    assert deploying.linked_instance is not None
    assert line.split(":")[0] in Path(str(deploying.linked_instance.log_file)).read_text()


MISSING_SINK = """
from airflow_provider.streaming import StatefulJob, functions as F, run, stream
counts = stream("{id}-source").group_by("key").aggregate(F.count().alias("n"), name="state")
run(StatefulJob({id!r}, counts.sink("{id}-sink")))
"""


def test_missing_sink_fails_the_deploying_task_for_good(
    application: Application, deploy: Deploy, tmp_path: Path
) -> None:
    TopicAdmin(application.connection).ensure([changelog_spec(application.id, "state", 2)])
    job = tmp_path / "job.py"
    job.write_text(MISSING_SINK.format(id=application.id))

    with pytest.raises(AirflowFailException, match=f"a is ended: TopicMissingError: .*'{application.id}-sink'"):
        run(deploy("a", application=str(job)))


def test_until_ended_succeeds_on_a_clean_shutdown(application: Application, deploy: Deploy) -> None:
    operator = deploy("a", until="ended")
    waiting = deferral(operator, context())
    run(deploy("a"))
    run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

    assert operator.execute_complete(context(), wait(waiting))["instance"] == "a"


def test_until_ended_fails_when_it_is_killed(deploy: Deploy) -> None:
    operator = deploy("a", until="ended")
    waiting = deferral(operator, context())
    kill(run(deploy("a")))

    with pytest.raises(InstanceError, match="without a clean shutdown"):
        operator.execute_complete(context(), wait(waiting))


def test_person_who_kills_the_waiting_task_stops_the_instance(application: Application, deploy: Deploy) -> None:
    trigger = deferral(deploy("a", until="ended"), context()).trigger
    run(deploy("a"))

    asyncio.run(ControlTrigger(**trigger.serialize()[1]).on_kill())

    run(InstanceStateSensor(task_id="gone", application_id=application.id, instance="a", states="stopped"))


def test_end_of_the_trigger_leaves_the_instance_alone(application: Application, deploy: Deploy) -> None:
    trigger = deferral(deploy("a", until="ended"), context()).trigger

    asyncio.run(ControlTrigger(**trigger.serialize()[1]).cleanup())

    assert run(deploy("a"))["incarnation"] == trigger.condition.incarnation
    assert not application.view().commands


def test_cleared_task_starts_anew_after_the_clean_shutdown(application: Application, deploy: Deploy) -> None:
    trigger = deferral(deploy("a", until="ended"), context()).trigger
    first = run(deploy("a"))
    asyncio.run(ControlTrigger(**trigger.serialize()[1]).on_kill())

    assert run(deploy("a"))["incarnation"] > first["incarnation"]


def test_changed_deployment_of_a_living_instance_is_reported_and_leaves_it_alone(
    application: Application, deploy: Deploy, tmp_path: Path
) -> None:
    job = tmp_path / "job.py"
    job.write_text(FAKE_INSTANCE.read_text())
    first = run(deploy("a", application=str(job)))
    job.write_text(FAKE_INSTANCE.read_text() + "# changed\n")

    with pytest.raises(ConfigurationError, match=r"otherwise: conf\['spark.x'\], the content of the job file"):
        run(deploy("a", application=str(job), conf={"spark.jars": "none.jar", "spark.x": "1"}))

    assert run(deploy("a", application=str(job), on_change="attach"))["incarnation"] == first["incarnation"]


def test_changed_deployment_restarts_the_instance_where_that_is_asked_for(
    application: Application, deploy: Deploy
) -> None:
    first = run(deploy("a"))
    changed: dict[str, Any] = {"conf": {"spark.jars": "none.jar", "spark.x": "1"}, "on_change": "restart"}

    again = run(deploy("a", **changed))
    same = run(deploy("a", **changed))

    assert again["incarnation"] > first["incarnation"]
    assert same["incarnation"] == again["incarnation"]
    assert application.view().deployments["a"].conf["spark.x"] == "1"
    (upgrade,) = run(HistoryOperator(task_id="history", application_id=application.id))
    assert (upgrade["kind"], upgrade["outcome"], upgrade["instances"]) == ("upgrade", "passed", ["a"])
    assert "conf" in upgrade["evidence"]
    assert upgrade["ended_at_ms"] > upgrade["at_ms"]
