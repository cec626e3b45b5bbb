"""The DAGs of one application in a real Airflow, started as people do: with a form, by the API, in a role."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.demo.errors import DemoError
from airflow_provider.errors import BrokerUnreachableError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.ports import free_ports
from tests.acceptance.airflow_client import UserClient
from tests.brokers import settings_of_broker
from tests.builders import placed
from tests.dags.real_airflow import Home, Service, end_of_run
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("airflow")]

ROOT = Path(__file__).parents[2]
ID = "orders"
ROLES = ("admin", "op", "user", "viewer")
FILE = """
from airflow_provider import Drill, Instance, Slo, stream_dags

stream_dags(
    "orders",
    job="fake_instance.py",
    source_topics=["orders"],
    output_topics=["totals"],
    instances=[Instance("a"), Instance("b"), Instance("c")],
    slo=Slo(rto_s=600),
    drills=[Drill("crash")],
    state_dir={state_dir!r},
    run_dir={run_dir!r},
    conf={{"spark.jars": "none.jar"}},
    env_vars={{"VERSION": "1"}},
    monitor_schedule=None,
)
"""


class HomeWithRoles(Home):
    """An Airflow with a user of each role, whose password is its name."""

    def _settings(self) -> dict[str, str]:
        passwords = self.root / "passwords.json"
        passwords.parent.mkdir(parents=True, exist_ok=True)
        passwords.write_text(json.dumps({name: name for name in ROLES}))
        return {
            **super()._settings(),
            "core__simple_auth_manager_all_admins": "False",
            "core__simple_auth_manager_users": ",".join(f"{name}:{name}" for name in ROLES),
            "core__simple_auth_manager_passwords_file": str(passwords),
        }


class RoleClient(UserClient):
    """Logs in as the user that is called as its role."""

    def __init__(self, address: str, role: str) -> None:
        super().__init__(address, patience_s=180.0)
        self.role = role

    def _call(self, method: str, path: str, body: Any = None, exists: int | None = None) -> Any:
        if self._token is None:
            asked = {"username": self.role, "password": self.role}
            self._token = str(self._ask("POST", "/auth/token", asked)["access_token"])
        return super()._call(method, path, body, exists)


@dataclass
class Stage:
    """A broker, an application's DAGs, an Airflow that watches it, and who uses it."""

    service: Service
    broker: EmbeddedBroker
    connection: KafkaConnection
    as_role: Callable[[str], RoleClient]

    def view(self) -> ControlView:
        with ControlReader(self.connection, ID) as reader:
            return reader.read_to_end()

    def running(self) -> list[str]:
        return sorted(n for n, s in self.view().statuses.items() if s.state is InstanceState.RUNNING)

    def places(self) -> list[str]:
        assignment = self.view().assignment
        assert assignment is not None
        return sorted(placed(assignment))

    def run(self, role: str, name: str, expected: str = "success", **form: Any) -> dict[str, dict[str, Any]]:
        """As somebody presses *Trigger*; the task instances at its end."""
        client, dag_id = self.as_role(role), f"{ID}_{name}"
        run_id = f"{role}-{len(client.runs(dag_id))}"
        client.trigger(dag_id, run_id, form)
        state = end_of_run(client, dag_id, run_id, 400)
        assert state == expected, client.task_lines(dag_id, run_id)
        return {task["task_id"]: task for task in client.tasks(dag_id, run_id)}

    def outcome_of_newest(self, dag: str, task_id: str) -> str:
        """What the column *Map Index* has for a task of the newest run."""
        client, dag_id = self.as_role("viewer"), f"{ID}_{dag}"
        run_id = client.runs(dag_id)[-1]["dag_run_id"]
        (task,) = [task for task in client.tasks(dag_id, run_id) if task["task_id"] == task_id]
        return str(task["rendered_map_index"])

    def fail_over(self, run_id: str) -> dict[str, Any]:
        """The task of a failover's run."""
        (task,) = self.as_role("op").tasks(f"{ID}_failover", run_id)
        return dict(task)

    def ended(self, dag: str) -> bool:
        """Whether each run of it ended, and at least one was."""
        states = [run["state"] for run in self.as_role("viewer").runs(f"{ID}_{dag}")]
        return bool(states) and set(states) <= {"success", "failed"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    port, *_ = free_ports(1)
    dags = folder / "dags"
    dags.mkdir()
    (dags / ".airflowignore").write_text("fake_instance.py")
    fake = ROOT / "tests" / "integration" / "airflow" / "fake_instance.py"
    (dags / "fake_instance.py").write_text(fake.read_text())
    with (
        EmbeddedBroker(settings_of_broker(folder / "kafka")) as broker,
        pytest.MonkeyPatch.context() as monkeypatch,
        spark_submit_stub(folder, monkeypatch) as run_dir,
    ):
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        connection = KafkaConnection(broker.bootstrap_servers)
        TopicAdmin(connection).ensure([TopicSpec(name=ID, partitions=2)])
        (dags / "orders_dags.py").write_text(FILE.format(state_dir=str(folder / "state"), run_dir=str(run_dir)))
        home = HomeWithRoles(folder / "airflow", dags, port, broker.bootstrap_servers, "local[1]")
        service = Service(home, folder / "logs")
        service.client = RoleClient(home.address, "admin")
        try:
            service.prepare(300.0)
            service.start()
            service.wait_until_ready([f"{ID}_deploy", f"{ID}_failover", f"{ID}_drill_crash"], 600.0)
            yield Stage(service, broker, connection, lambda role: RoleClient(home.address, role))
        finally:
            service.stop(10.0)


@pytest.mark.parametrize(
    "name", ["deploy", "drill_crash", "upgrade", "scale", "operate", "reset", "failover", "repair"]
)
def test_viewer_starts_nothing(stage: Stage, name: str) -> None:
    viewer = stage.as_role("viewer")
    before = viewer.runs(f"{ID}_{name}")

    with pytest.raises(DemoError, match="answered 403"):
        viewer.trigger(f"{ID}_{name}", "viewers", {})

    assert viewer.runs(f"{ID}_{name}") == before


@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param("scale", {"instances": ["z"]}, id="scale-to-an-unknown-instance"),
        pytest.param("operate", {"action": "stop", "instances": []}, id="stop-none"),
        pytest.param("operate", {"action": "delete"}, id="unknown-action"),
        pytest.param("upgrade", {"dry_run": "perhaps"}, id="no-flag"),
        pytest.param("drill_crash", {"instance": "z"}, id="drill-of-an-unknown-instance"),
        pytest.param("deploy", {"start_timeout_s": 0}, id="no-time"),
    ],
)
def test_form_that_cannot_be_meant_is_refused_by_the_api(stage: Stage, name: str, form: dict[str, Any]) -> None:
    with pytest.raises(DemoError, match="answered 400"):
        stage.as_role("op").trigger(f"{ID}_{name}", "wrong", form)


def test_monitor_is_skipped_before_the_first_deployment(stage: Stage) -> None:
    tasks = stage.run("user", "monitor")

    assert {task["state"] for task in tasks.values()} == {"skipped"}


def test_user_and_operator_lead_an_application_through_its_life(stage: Stage) -> None:
    stage.run("user", "deploy")
    assert stage.running() == ["a", "b", "c"]
    again = stage.run("op", "deploy")
    assert {task["try_number"] for task in again.values()} == {1}
    stage.run("op", "scale", instances=["a", "b"])
    assert (stage.running(), stage.places()) == (["a", "b"], ["a b", "b a"])

    # A list that was cleared in the browser is null.
    stage.run("op", "drill_crash", instance="a", blackout=None)
    wait_until(lambda: stage.ended("repair"), 300, "the repair to end", poll_s=0.5)
    assert {run["state"] for dag in ("failover", "repair") for run in stage.as_role("op").runs(f"{ID}_{dag}")} == {
        "success"
    }
    assert stage.outcome_of_newest("failover", "fail_over").startswith("a instance_ended: 1 to b, decided after ")
    assert stage.outcome_of_newest("repair", "report").startswith("a instance_ended: output again after ")
    drills = [one.outcome for one in read_history(stage.connection, ID) if one.kind is HistoryKind.DRILL]
    assert drills == [HistoryOutcome.PASSED]
    stage.run("user", "monitor")

    stage.run("user", "operate", action="certify_standbys", tasks=None)

    dry = stage.run("user", "upgrade", dry_run=True)
    assert {task["state"] for name, task in dry.items() if name.startswith("upgrade_")} == {"success"}
    stage.run("op", "upgrade")
    stage.run("op", "operate", action="stop", instances=["b"])
    assert stage.running() == ["a"]
    stage.run("op", "reset", "failed", confirm=ID)
    stage.run("op", "operate", action="stop")
    stage.run("op", "reset", "failed", confirm="another")
    listed = stage.run("user", "reset")
    assert listed["delete_topics"]["state"] == "skipped"
    stage.run("op", "reset", confirm=ID)
    assert {name for name in TopicAdmin(stage.connection).names() if name.startswith(f"{ID}-")} == {f"{ID}-history"}
    stage.run("user", "monitor")


@pytest.mark.parametrize("parts", [("scheduler", "triggerer")], ids=["scheduler-and-triggerer"])
def test_restart_in_the_middle_of_a_failover_changes_nothing(stage: Stage, parts: tuple[str, ...]) -> None:
    stage.run("op", "deploy")
    before = stage.view().statuses["a"]
    tenant = stage.broker.folder.living_tenant()
    assert tenant is not None
    # Nobody can decide while the brokers stand still: so the task is sure to be in its middle.
    tenant.leader.signal_group(signal.SIGSTOP)
    try:
        os.killpg(os.getpgid(before.process.pid), signal.SIGKILL)
        stage.as_role("op").trigger(f"{ID}_failover", "in-the-middle", {})
        wait_until(lambda: stage.fail_over("in-the-middle")["state"] == "running", 240, "it to decide", poll_s=0.2)
        for part in parts:
            stage.service.kill(part)
    finally:
        tenant.leader.signal_group(signal.SIGCONT)
    for part in parts:
        stage.service.start_again(part)

    def whole() -> bool:
        try:
            view = stage.view()
        except BrokerUnreachableError:  # what stood still is fenced for a moment
            return False
        return (
            view.assignment is not None
            and view.statuses["a"].incarnation > before.incarnation
            and all(task.active and task.standbys for task in view.assignment.tasks.values())
            and all(record.resolved_at_ms is not None for record in view.incidents.values())
        )

    wait_until(whole, 400, "the application to be whole again", poll_s=0.5)
    wait_until(lambda: stage.ended("failover") and stage.ended("repair"), 300, "all runs to end", poll_s=0.5)
    assert stage.as_role("op").run_state(f"{ID}_failover", "in-the-middle") == "success"
    assert stage.fail_over("in-the-middle")["try_number"] > 1, "the task was not lost"
    assert stage.as_role("op").runs(f"{ID}_repair")[-1]["state"] == "success"
    answers = [
        one
        for one in stage.view().incidents.values()
        if (one.incident.instance, one.incident.incarnation) == ("a", before.incarnation)
    ]
    assert len(answers) == 1
