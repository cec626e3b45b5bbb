"""The operators on a real broker, with instances that speak the control protocol and run no Spark."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider.control.publisher import AssignmentPublisher
from airflow_provider.control.status import InstanceState, InstanceStatus
from airflow_provider.errors import (
    AssignmentError,
    ConfigurationError,
    DeadlineError,
    InstanceError,
    TopicMismatchError,
    TopicMissingError,
)
from airflow_provider.operators.changelog_replay import ReplayChangelogOperator
from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.operators.failover_report import ReportFailOverOperator
from airflow_provider.operators.fault_injection import InjectFaultOperator
from airflow_provider.operators.instance_deployment import DeployInstanceOperator
from airflow_provider.operators.instance_stop import StopInstanceOperator
from airflow_provider.operators.promotion import PromoteStandbyOperator
from airflow_provider.operators.recovery_check import CheckRecoveryOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.incident_resolution import IncidentResolutionSensor
from airflow_provider.sensors.instance_state import InstanceStateSensor
from airflow_provider.sensors.standby_lag import StandbyLagSensor
from airflow_provider.sensors.task_state import TaskStateSensor
from airflow_provider.topics import TopicAdmin
from airflow_provider.triggers.control import ControlTrigger
from airflow_provider.triggers.incident import IncidentTrigger
from tests.builders import active, assigned, placed, standby
from tests.integration.airflow.conftest import FAKE_INSTANCE, Application
from tests.integration.airflow.running import context, deferral, run, wait
from tests.waiting import wait_until

Deploy = Callable[..., DeployInstanceOperator]


@pytest.fixture
def deploy(application: Application, spark_submit: Path, tmp_path: Path) -> Deploy:
    def make(instance: str, **more: Any) -> DeployInstanceOperator:
        arguments: dict[str, Any] = {
            "application": str(FAKE_INSTANCE),
            "state_dir": str(tmp_path / instance),
            "run_dir": str(spark_submit),
            "conf": {"spark.jars": "none.jar"},
            "start_timeout_s": 30.0,
        } | more
        return DeployInstanceOperator(task_id="deploy", application_id=application.id, instance=instance, **arguments)

    return make


@pytest.fixture
def pair(application: Application, deploy: Deploy) -> list[dict[str, Any]]:
    """Topics, two running instances, and the first assignment."""
    create: dict[str, Any] = {"source_topics": f"{application.id}-source", "application_id": application.id}
    CreateChangelogTopicsOperator(task_id="topics", **create).execute(context())
    handles = [run(deploy(name)) for name in ("a", "b")]
    run(AssignTasksOperator(task_id="assign", application_id=application.id))
    run(StandbyLagSensor(task_id="warm", application_id=application.id))
    return handles


def kill(handle: dict[str, Any]) -> None:
    os.killpg(os.getpgid(handle["pid"]), signal.SIGKILL)


def incident_of(application: Application) -> dict[str, Any]:
    """What the watcher of the application fires first."""

    async def first() -> dict[str, Any]:
        async for event in IncidentTrigger(application.id).run():
            payload: dict[str, Any] = event.payload
            return payload
        raise AssertionError("the watch ended")

    return asyncio.run(asyncio.wait_for(first(), 20.0))


def caused_by(*payloads: dict[str, Any], run_id: str = "failover-1") -> Any:
    """The context of a run that these events started."""
    events = [SimpleNamespace(extra={"from_trigger": True, "payload": payload}) for payload in payloads]
    return context(run_id, triggering_asset_events={"asset": events})


class TestCreateChangelogTopics:
    def make(self, application: Application, **more: Any) -> CreateChangelogTopicsOperator:
        given: dict[str, Any] = {"source_topics": f"{application.id}-source", **more}
        return CreateChangelogTopicsOperator(task_id="topics", application_id=application.id, **given)

    def test_changelog_has_the_sources_partitions_and_is_compacted(self, application: Application) -> None:
        made = self.make(application).execute(context())

        found = TopicAdmin(application.connection).describe(f"{application.id}-state-changelog")
        assert found is not None
        assert (found.partitions, found.config["cleanup.policy"]) == (2, "compact")
        assert (made["partitions"], made["created"]) == (2, [f"{application.id}-state-changelog"])

    def test_second_time_verifies(self, application: Application) -> None:
        self.make(application).execute(context())

        assert self.make(application).execute(context())["created"] == []

    def test_missing_source_is_refused(self, application: Application) -> None:
        with pytest.raises(TopicMissingError, match="absent"):
            self.make(application, source_topics="absent").execute(context())

    def test_sources_of_different_partitions_are_refused(self, application: Application) -> None:
        sources = [f"{application.id}-source", f"{application.id}-status"]

        with pytest.raises(TopicMismatchError, match="different numbers of partitions"):
            self.make(application, source_topics=sources).execute(context())


class TestDeployInstance:
    def test_handle_names_the_running_process(self, application: Application, deploy: Deploy) -> None:
        handle = run(deploy("a"))

        assert Path(f"/proc/{handle['pid']}").exists()
        assert Path(handle["log_file"]).exists()
        status = application.view().statuses["a"]
        assert (status.state, status.incarnation) == (InstanceState.RUNNING, handle["incarnation"])

    def test_second_deployment_attaches(self, deploy: Deploy) -> None:
        assert run(deploy("a")) == run(deploy("a"))

    def test_retry_while_it_starts_attaches(self, deploy: Deploy) -> None:
        first = deferral(deploy("a"), context())
        second = deferral(deploy("a"), context())

        assert first.trigger.condition == second.trigger.condition

    def test_two_at_once_start_one(self, application: Application, deploy: Deploy) -> None:
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(deferral(deploy("a"), context()))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len({deferred.trigger.condition for deferred in found}) == 1
        assert wait(found[0])["outcome"] == "met"

    def test_dead_instance_is_started_anew_from_its_record(self, application: Application, deploy: Deploy) -> None:
        first = run(deploy("a"))
        kill(first)
        run(InstanceStateSensor(task_id="gone", application_id=application.id, instance="a", states="ended"))

        again = run(DeployInstanceOperator(task_id="again", application_id=application.id, instance="a"))

        assert again["incarnation"] > first["incarnation"]

    def test_without_a_record_the_job_has_to_be_named(self, application: Application) -> None:
        with pytest.raises(ConfigurationError, match="No deployment of 'a'"):
            DeployInstanceOperator(task_id="t", application_id=application.id, instance="a").execute(context())

    def test_missing_file_is_refused_before_anything_starts(self, application: Application, deploy: Deploy) -> None:
        with pytest.raises(ConfigurationError, match="no job's file"):
            deploy("a", application="/absent.py").execute(context())

        assert not application.view().statuses

    def test_folder_that_cannot_be_made_is_told_and_blocks_nothing(
        self, application: Application, deploy: Deploy, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")

        with pytest.raises(ConfigurationError, match="run_dir"):
            deploy("a", run_dir=str(tmp_path / "file" / "run")).execute(context())

        assert run(deploy("a"))["instance"] == "a"

    def test_job_that_ends_at_once_fails_with_where_its_log_is(
        self, deploy: Deploy, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        job = tmp_path / "job.py"
        job.write_text("raise SystemExit('no such column')")

        with pytest.raises(InstanceError, match=r"without a goodbye.*instance\.log"):
            run(deploy("a", application=str(job)))

    def test_until_ended_succeeds_on_a_goodbye(self, application: Application, deploy: Deploy) -> None:
        operator = deploy("a", until="ended")
        waiting = deferral(operator, context())
        run(deploy("a"))
        run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

        assert operator.execute_complete(context(), wait(waiting))["instance"] == "a"

    def test_until_ended_fails_when_it_is_killed(self, deploy: Deploy) -> None:
        operator = deploy("a", until="ended")
        waiting = deferral(operator, context())
        kill(run(deploy("a")))

        with pytest.raises(InstanceError, match="without a goodbye"):
            operator.execute_complete(context(), wait(waiting))

    def test_person_who_kills_the_waiting_task_stops_the_instance(
        self, application: Application, deploy: Deploy
    ) -> None:
        trigger = deferral(deploy("a", until="ended"), context()).trigger
        run(deploy("a"))

        asyncio.run(ControlTrigger(**trigger.serialize()[1]).on_kill())

        run(InstanceStateSensor(task_id="gone", application_id=application.id, instance="a", states="stopped"))

    def test_end_of_the_trigger_leaves_the_instance_alone(self, application: Application, deploy: Deploy) -> None:
        trigger = deferral(deploy("a", until="ended"), context()).trigger

        asyncio.run(ControlTrigger(**trigger.serialize()[1]).cleanup())

        assert run(deploy("a"))["incarnation"] == trigger.condition.incarnation
        assert not application.view().commands

    def test_cleared_task_starts_anew_after_the_goodbye(self, application: Application, deploy: Deploy) -> None:
        trigger = deferral(deploy("a", until="ended"), context()).trigger
        first = run(deploy("a"))
        asyncio.run(ControlTrigger(**trigger.serialize()[1]).on_kill())

        assert run(deploy("a"))["incarnation"] > first["incarnation"]


class TestAssignTasks:
    def test_tasks_are_shared_among_the_running(self, application: Application, pair: list[dict[str, Any]]) -> None:
        view = application.view()

        assert view.assignment is not None
        assert placed(view.assignment) == ["a b", "b a"]

    def test_nothing_is_published_when_nothing_changes(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        again = run(AssignTasksOperator(task_id="assign", application_id=application.id))

        assert (again["generation"], again["changed"]) == (1, False)

    def test_nobody_to_assign_to_is_an_error(self, application: Application) -> None:
        create: dict[str, Any] = {"source_topics": f"{application.id}-source", "application_id": application.id}
        CreateChangelogTopicsOperator(task_id="topics", **create).execute(context())

        with pytest.raises(AssignmentError, match="No instance"):
            AssignTasksOperator(task_id="assign", application_id=application.id).execute(context())


class TestPromoteStandby:
    def test_standby_runs_the_task(self, application: Application, pair: list[dict[str, Any]]) -> None:
        promote = PromoteStandbyOperator(task_id="promote", application_id=application.id, tasks=0, to="b")

        assert run(promote) == {"generation": 2, "active": {"0": "b"}}

    def test_retry_waits_for_the_same_promotion(self, application: Application, pair: list[dict[str, Any]]) -> None:
        promote = PromoteStandbyOperator(task_id="promote", application_id=application.id, tasks=0)
        deferral(promote, context())

        assert run(promote) == {"generation": 2, "active": {"0": "b"}}

    def test_before_the_first_assignment_it_is_refused(self, application: Application) -> None:
        with pytest.raises(AssignmentError, match="assigned yet"):
            PromoteStandbyOperator(task_id="t", application_id=application.id, tasks=0).execute(context())


class TestReplayChangelog:
    def test_restored_records_are_told(self, application: Application, pair: list[dict[str, Any]]) -> None:
        replay = ReplayChangelogOperator(
            task_id="replay", application_id=application.id, instance="a", tasks=[0, 1], deadline_s=20.0
        )

        told = run(replay)

        assert [set(told[figure]) for figure in ("restored_records", "restored_bytes", "restore_s")] == [{"0", "1"}] * 3

    def test_task_without_a_copy_there_is_refused(self, application: Application, pair: list[dict[str, Any]]) -> None:
        with pytest.raises(AssignmentError, match="holds no copy of"):
            ReplayChangelogOperator(task_id="replay", application_id=application.id, instance="a", tasks=[5]).execute(
                context()
            )


class TestStopInstance:
    def test_goodbye_ends_the_process(self, application: Application, pair: list[dict[str, Any]]) -> None:
        run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

        wait_until(lambda: not Path(f"/proc/{pair[0]['pid']}").exists(), 5.0, "the process to end")
        assert application.view().statuses["a"].exit_code is None

    def test_its_tasks_are_handed_over_first(self, application: Application, pair: list[dict[str, Any]]) -> None:
        run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

        view = application.view()
        assert view.assignment is not None
        assert placed(view.assignment) == ["b", "b"]

    def test_without_a_hand_over_the_assignment_stays(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a", hand_over=False))

        view = application.view()
        assert view.assignment is not None
        assert placed(view.assignment) == ["a b", "b a"]

    def test_stopped_instance_may_be_stopped_again(self, application: Application, deploy: Deploy) -> None:
        run(deploy("a"))
        for _ in range(2):
            run(StopInstanceOperator(task_id="stop", application_id=application.id, instance="a"))

    def test_unknown_instance_is_an_error(self, application: Application) -> None:
        with pytest.raises(InstanceError, match="Nothing was ever heard"):
            StopInstanceOperator(task_id="stop", application_id=application.id, instance="z").execute(context())


class TestFailOver:
    def test_warm_standby_takes_over_and_the_record_says_why(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        kill(pair[0])
        given = caused_by(incident_of(application))

        (answer,) = run(FailOverOperator(task_id="fail_over"), given)

        view = application.view()
        assert view.assignment is not None
        assert placed(view.assignment) == ["b", "b"]
        record = view.incidents[answer["incident_id"]]
        assert (record.generation, record.answered_by) == (2, "failover-1")
        assert answer["moved"] == {"0": "b"}
        assert answer["replace"]
        assert record.failed_at_ms is not None
        assert record.failed_at_ms <= record.decided_at_ms

    def test_second_run_finds_it_answered_and_a_retry_knows_its_own(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        kill(pair[0])
        payload = incident_of(application)
        first = run(FailOverOperator(task_id="fail_over"), caused_by(payload))

        assert run(FailOverOperator(task_id="fail_over"), caused_by(payload, run_id="other")) == []
        (retried,) = run(FailOverOperator(task_id="fail_over"), caused_by(payload))
        assert retried["generation"] == first[0]["generation"]

    def test_two_runs_at_once_publish_one_answer(self, application: Application, pair: list[dict[str, Any]]) -> None:
        kill(pair[0])
        payload = incident_of(application)
        answers: list[Any] = []

        def answer(run_id: str) -> None:
            answers.extend(run(FailOverOperator(task_id="fail_over"), caused_by(payload, run_id=run_id)))

        threads = [threading.Thread(target=answer, args=(f"run-{number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        view = application.view()
        assert len(answers) == 1
        assert view.assignment is not None
        assert view.assignment.generation == 2

    def test_fenced_run_reads_again(
        self, application: Application, pair: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kill(pair[0])
        payload = incident_of(application)
        opened: list[AssignmentPublisher] = []
        publish = AssignmentPublisher.publish

        def interrupted(self: AssignmentPublisher, *values: Any) -> None:
            if not opened:
                opened.append(AssignmentPublisher(application.connection, application.id))
            publish(self, *values)

        monkeypatch.setattr(AssignmentPublisher, "publish", interrupted)

        (answer,) = run(FailOverOperator(task_id="fail_over"), caused_by(payload))

        assert answer["generation"] == 2

    def test_two_deaths_are_answered_together(self, application: Application, pair: list[dict[str, Any]]) -> None:
        payloads = []
        for handle in pair:
            kill(handle)
            run(
                InstanceStateSensor(
                    task_id="gone", application_id=application.id, instance=handle["instance"], states="ended"
                )
            )

        async def both() -> None:
            async for event in IncidentTrigger(application.id).run():
                payloads.append(event.payload)
                if len(payloads) == 2:
                    return

        asyncio.run(asyncio.wait_for(both(), 20.0))
        answers = run(FailOverOperator(task_id="fail_over"), caused_by(*payloads))

        view = application.view()
        assert view.assignment is not None
        assert placed(view.assignment) == ["-", "-"]
        assert [answer["instance"] for answer in answers] == ["a", "b"]

    def test_run_by_hand_answers_what_is_wrong(self, application: Application, pair: list[dict[str, Any]]) -> None:
        kill(pair[1])
        run(InstanceStateSensor(task_id="gone", application_id=application.id, instance="b", states="ended"))

        (answer,) = run(FailOverOperator(task_id="fail_over", application_id=application.id))

        assert (answer["instance"], answer["kind"]) == ("b", "instance_ended")

    def test_run_by_hand_moves_everything_off_a_healthy_instance(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        (answer,) = run(FailOverOperator(task_id="fail_over", application_id=application.id, instance="a"))

        assert (answer["kind"], answer["moved"], answer["replace"]) == ("by_hand", {"0": "b"}, False)

    def test_run_by_hand_with_nothing_wrong_does_nothing(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        assert run(FailOverOperator(task_id="fail_over", application_id=application.id)) == []

    def test_run_that_names_nothing_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="names no application"):
            FailOverOperator(task_id="fail_over").execute(context())


def test_drill_kills_checks_and_reports(application: Application, pair: list[dict[str, Any]]) -> None:
    fault = run(InjectFaultOperator(task_id="fault", application_id=application.id))
    (answer,) = run(FailOverOperator(task_id="fail_over"), caused_by(incident_of(application)))
    run(DeployInstanceOperator(task_id="again", application_id=application.id, instance=answer["instance"]))
    run(AssignTasksOperator(task_id="assign", application_id=application.id))
    run(StandbyLagSensor(task_id="warm", application_id=application.id))
    run(ReportFailOverOperator(task_id="report", application_id=application.id, incident_id=answer["incident_id"]))
    run(
        IncidentResolutionSensor(
            task_id="resolved",
            application_id=application.id,
            instance=fault["instance"],
            incarnation=fault["incarnation"],
        )
    )

    told = run(CheckRecoveryOperator(task_id="check", application_id=application.id, fault=fault))

    assert fault["instance"] == "a"
    assert told["progress"]["0"] > 0
    assert told["failover"]["rto_ms"] > 0
    assert told["failover"]["resolved_at_ms"] >= told["failover"]["decided_at_ms"]


class TestSensors:
    def test_state_reached_before_the_sensor_began_is_seen(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        found = run(TaskStateSensor(task_id="task", application_id=application.id, task_number=1))

        assert found == {"task": 1, "instance": "b", "state": "running"}

    def test_deadline_says_what_was_waited_for_and_seen(
        self, application: Application, pair: list[dict[str, Any]]
    ) -> None:
        sensor = StandbyLagSensor(task_id="warm", application_id=application.id, num_standby_replicas=2, deadline_s=2.0)

        with pytest.raises(DeadlineError, match=r"2 warm standby.*task 0 has 1 of 2 standbys"):
            run(sensor)

    def test_words_of_dead_instances_are_not_taken_for_life(self, application: Application) -> None:
        application.publish(assigned("a b", application_id=application.id))
        application.write(
            InstanceStatus(application.id, "a", 1, InstanceState.RUNNING, tasks=(active(0),)),
            InstanceStatus(application.id, "b", 1, InstanceState.RUNNING, tasks=(standby(0),)),
        )

        with pytest.raises(DeadlineError):
            run(StandbyLagSensor(task_id="warm", application_id=application.id, deadline_s=2.0))

    def test_soft_fail_skips(self, application: Application) -> None:
        sensor = InstanceStateSensor(
            task_id="state", application_id=application.id, instance="z", deadline_s=1.0, soft_fail=True
        )

        with pytest.raises(AirflowSkipException):
            run(sensor)
