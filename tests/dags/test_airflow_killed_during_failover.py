"""A real Airflow, of which a part is killed in the middle of a failover: the run goes on, and comes to the same end."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.control.records.incident import IncidentKind
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import free_ports
from tests.acceptance.airflow_client import UserClient
from tests.brokers import settings_of_broker
from tests.dags.real_airflow import Home, Service, end_of_run, running
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("airflow")]

ROOT = Path(__file__).parents[2]
ID = "survivor"
DEPLOY, FAILOVER, REPAIR = f"{ID}_deploy", f"{ID}_failover", f"{ID}_repair"
FILE = """
from airflow_provider import Instance, stream_dags

stream_dags(
    "survivor",
    job={job!r},
    source_topics=["survivor-source"],
    instances=[Instance("a"), Instance("b")],
    state_dir={state_dir!r},
    run_dir={run_dir!r},
    conf={{"spark.jars": "none.jar"}},
    monitor_schedule=None,
)
"""

JOB = """
import runpy, sys, time
from pathlib import Path
while Path({gate!r}).exists():
    time.sleep(0.05)
sys.argv = [{fake!r}]
runpy.run_path({fake!r}, run_name="__main__")
"""
"""An instance without Spark that does not come up while there is a gate."""


@dataclasses.dataclass
class Stage:
    """An application of two fake instances, a broker, and an Airflow that watches it."""

    service: Service
    client: UserClient
    broker: EmbeddedBroker
    connection: KafkaConnection
    gate: Path

    def view(self) -> ControlView:
        with ControlReader(self.connection, ID) as reader:
            return reader.read_to_end()

    def kill_instance(self, name: str) -> None:
        os.killpg(os.getpgid(self.view().statuses[name].process.pid), signal.SIGKILL)
        wait_until(lambda: self.view().statuses[name].state is InstanceState.ENDED, 60, "the launcher to tell the end")

    def actives(self) -> set[str | None]:
        assignment = self.view().assignment
        return {task.active for task in assignment.tasks.values()} if assignment else set()

    def states(self, dag_id: str, task_id: str) -> dict[str, str | None]:
        """By run of a DAG, the state of one of its tasks."""
        return {
            run["dag_run_id"]: task["state"]
            for run in self.client.runs(dag_id)
            for task in self.client.tasks(dag_id, run["dag_run_id"])
            if task["task_id"] == task_id
        }

    def run_states(self) -> list[str]:
        """Of every failover and of every repair."""
        return [run["state"] for dag_id in (FAILOVER, REPAIR) for run in self.client.runs(dag_id)]

    def wait_until_answered(self, instance: str, deadline_s: float = 420.0) -> None:
        """Every run ended well, one record answers the incident, and the application is whole."""

        def over() -> bool:
            return all(state in ("success", "failed") for state in self.run_states())

        wait_until(lambda: whole(self) and over(), deadline_s, f"the failover of {instance} to end", poll_s=0.5)
        assert set(self.run_states()) == {"success"}
        reported = [r for r in self.view().incidents.values() if r.incident.instance == instance]
        assert [record.incident.kind for record in reported] == [IncidentKind.INSTANCE_ENDED]


def whole(stage: Stage) -> bool:
    """Every instance runs, every task has its standbys, and every incident is resolved."""
    view = stage.view()
    return (
        view.assignment is not None
        and all(status.state is InstanceState.RUNNING for status in view.statuses.values())
        and all(task.active and task.standbys for task in view.assignment.tasks.values())
        and all(record.resolved_at_ms is not None for record in view.incidents.values())
    )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    port, *_ = free_ports(1)
    gate, job, dags = folder / "gate", folder / "job.py", folder / "dags"
    job.write_text(
        JOB.format(gate=str(gate), fake=str(ROOT / "tests" / "integration" / "airflow" / "fake_instance.py"))
    )
    with (
        EmbeddedBroker(settings_of_broker(folder / "kafka")) as broker,
        pytest.MonkeyPatch.context() as monkeypatch,
        spark_submit_stub(folder, monkeypatch) as run_dir,
    ):
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        connection = KafkaConnection(broker.bootstrap_servers)
        TopicAdmin(connection).ensure([TopicSpec(name=f"{ID}-source", partitions=2)])
        dags.mkdir()
        text = FILE.format(job=str(job), state_dir=str(folder / "state"), run_dir=str(run_dir))
        (dags / "survivor_dags.py").write_text(text)
        home = Home(folder / "airflow", dags, port, broker.bootstrap_servers, "local[1]")
        with running(home, folder / "logs", [DEPLOY, FAILOVER, REPAIR]) as (service, client):
            client.trigger(DEPLOY, "deploy", {})
            assert end_of_run(client, DEPLOY, "deploy", 600) == "success"
            yield Stage(service, client, broker, connection, gate)


def wait_for_deferred(stage: Stage, instance: str, runs_before: set[str]) -> str:
    """The run that waits, without a worker, until the replacement is up."""

    def look() -> str | None:
        waiting = {run for run, state in stage.states(REPAIR, f"replace_{instance}").items() if state == "deferred"}
        return next(iter(waiting - runs_before), None)

    run = wait_until(look, 240, "the repair to wait for the replacement", poll_s=0.3)
    assert run is not None
    return run


@pytest.mark.parametrize(("component", "instance", "other"), [("triggerer", "a", "b"), ("scheduler", "b", "a")])
def test_run_goes_on_after_a_component_was_killed(stage: Stage, component: str, instance: str, other: str) -> None:
    before = set(stage.states(REPAIR, "list_repairs"))
    stage.gate.touch()
    stage.kill_instance(instance)
    wait_for_deferred(stage, instance, before)
    assert stage.actives() == {other}

    stage.service.kill(component)
    stage.gate.unlink()
    stage.service.start_again(component)

    stage.wait_until_answered(instance)


def test_killed_worker_and_a_second_run_come_to_one_answer(stage: Stage) -> None:
    tenant = stage.broker.folder.living_tenant()
    assert tenant is not None
    # Nobody can decide while the brokers stand still: so the task is sure to be in the middle.
    pid = stage.view().statuses["a"].process.pid
    tenant.leader.signal_group(signal.SIGSTOP)
    try:
        os.killpg(os.getpgid(pid), signal.SIGKILL)
        stage.client.trigger(FAILOVER, "by-hand", {})
        wait_until(
            lambda: stage.states(FAILOVER, "fail_over").get("by-hand") == "running", 180, "the task to run", poll_s=0.2
        )
        stage.service.kill_busy_workers()
    finally:
        tenant.leader.signal_group(signal.SIGCONT)

    def watched() -> bool:
        return len([r for r in stage.view().incidents.values() if r.incident.instance == "a"]) == 2

    wait_until(watched, 240, "the second end of the instance to be answered", poll_s=0.5)
    wait_until(
        lambda: all(state in ("success", "failed") for state in stage.run_states()) and whole(stage),
        420,
        "all runs to end",
        poll_s=0.5,
    )
    assert set(stage.run_states()) == {"success"}
    tries = {t["task_id"]: t["try_number"] for t in stage.client.tasks(FAILOVER, "by-hand")}
    assert tries["fail_over"] > 1, "the worker was not lost"
    view = stage.view()
    assert view.assignment is not None
    assert all(task.active and task.standbys for task in view.assignment.tasks.values())
    answered = [r for r in view.incidents.values() if r.incident.instance == "a"]
    assert len({record.incident.incarnation for record in answered}) == 2, "one end was answered twice"
