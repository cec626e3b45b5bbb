"""A whole Airflow with two applications of instances that run no Spark, the broker, and who uses it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

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
from tests.builders import placed
from tests.dags.real_airflow import Home, Service, end_of_run
from tests.spark_submit_stub import spark_submit_stub
from tests.waiting import wait_until

__all__ = ["ORDERS", "SURVIVOR", "HomeWithRoles", "RoleClient", "Stage", "run_stage"]

ORDERS: Final = "orders"
"""Three instances, a drill, an objective."""
SURVIVOR: Final = "survivor"
"""Two instances, that do not come up while there is a gate."""

_ROOT: Final = Path(__file__).parents[2]
_ROLES: Final = ("admin", "op", "user", "viewer")
_DAGS: Final = ("deploy", "failover", "repair")
"""That have to be read before anything is done."""
_ORDERS_FILE: Final = """
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
_SURVIVOR_FILE: Final = """
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
_SURVIVOR_JOB: Final = """
import runpy, sys, time
from pathlib import Path
while Path({gate!r}).exists():
    time.sleep(0.05)
sys.argv = [{fake!r}]
runpy.run_path({fake!r}, run_name="__main__")
"""


class HomeWithRoles(Home):
    """An Airflow with a user of each role, whose password is its name."""

    def _settings(self) -> dict[str, str]:
        passwords = self.root / "passwords.json"
        passwords.parent.mkdir(parents=True, exist_ok=True)
        passwords.write_text(json.dumps({name: name for name in _ROLES}))
        return {
            **super()._settings(),
            "core__simple_auth_manager_all_admins": "False",
            "core__simple_auth_manager_users": ",".join(f"{name}:{name}" for name in _ROLES),
            "core__simple_auth_manager_passwords_file": str(passwords),
        }


class RoleClient(UserClient):
    """Logs in as the user that is called as its role."""

    def __init__(self, address: str, role: str) -> None:
        super().__init__(address, patience_s=180.0)
        self.role = role

    def connections(self) -> list[str]:
        """The ids of those that Airflow's own database keeps."""
        return [one["connection_id"] for one in self._call("GET", "/api/v2/connections")["connections"]]

    def _call(self, method: str, path: str, body: Any = None, exists: int | None = None) -> Any:
        if self._token is None:
            asked = {"username": self.role, "password": self.role}
            self._token = str(self._ask("POST", "/auth/token", asked)["access_token"])
        return super()._call(method, path, body, exists)


@dataclass
class Stage:
    """A broker, the DAGs of two applications, an Airflow that watches them, and who uses it.

    Args:
        id: of the application that is looked at.
        gate: while this file is there no instance of `SURVIVOR` comes up.
    """

    id: str
    service: Service
    broker: EmbeddedBroker
    connection: KafkaConnection
    as_role: Callable[[str], RoleClient]
    gate: Path

    @cached_property
    def client(self) -> RoleClient:
        """An operator's."""
        return self.as_role("op")

    def view(self) -> ControlView:
        with ControlReader(self.connection, self.id) as reader:
            return reader.read_to_end()

    def running(self) -> list[str]:
        return sorted(n for n, s in self.view().statuses.items() if s.state is InstanceState.RUNNING)

    def places(self) -> list[str]:
        assignment = self.view().assignment
        assert assignment is not None
        return sorted(placed(assignment))

    def actives(self) -> set[str | None]:
        assignment = self.view().assignment
        return {task.active for task in assignment.tasks.values()} if assignment else set()

    def is_whole(self) -> bool:
        """Every instance runs, every task has its standbys, and every incident is resolved."""
        view = self.view()
        return (
            view.assignment is not None
            and all(status.state is InstanceState.RUNNING for status in view.statuses.values())
            and all(task.active and task.standbys for task in view.assignment.tasks.values())
            and all(record.resolved_at_ms is not None for record in view.incidents.values())
        )

    def kill_instance(self, name: str) -> None:
        os.killpg(os.getpgid(self.view().statuses[name].process.pid), signal.SIGKILL)
        wait_until(lambda: self.view().statuses[name].state is InstanceState.ENDED, 60, "the launcher to tell the end")

    def run(self, role: str, name: str, expected: str = "success", **form: Any) -> dict[str, dict[str, Any]]:
        """As somebody presses *Trigger*; the task instances at its end."""
        client, dag_id = self.as_role(role), f"{self.id}_{name}"
        run_id = f"{role}-{len(client.runs(dag_id))}"
        client.trigger(dag_id, run_id, form)
        state = end_of_run(client, dag_id, run_id, 600)
        assert state == expected, client.task_lines(dag_id, run_id)
        return {task["task_id"]: task for task in client.tasks(dag_id, run_id)}

    def outcome_of_newest(self, dag: str, task_id: str) -> str:
        """What the column *Map Index* has for a task of the newest run."""
        client, dag_id = self.as_role("viewer"), f"{self.id}_{dag}"
        run_id = client.runs(dag_id)[-1]["dag_run_id"]
        (task,) = [task for task in client.tasks(dag_id, run_id) if task["task_id"] == task_id]
        return str(task["rendered_map_index"])

    def fail_over(self, run_id: str) -> dict[str, Any]:
        """The task of a failover's run."""
        (task,) = self.client.tasks(f"{self.id}_failover", run_id)
        return dict(task)

    def states(self, dag: str, task_id: str) -> dict[str, str | None]:
        """By run of a DAG, the state of one of its tasks."""
        client, dag_id = self.client, f"{self.id}_{dag}"
        return {
            run["dag_run_id"]: task["state"]
            for run in client.runs(dag_id)
            for task in client.tasks(dag_id, run["dag_run_id"])
            if task["task_id"] == task_id
        }

    def run_states(self, *dags: str) -> list[str]:
        """Of every run of these DAGs."""
        return [run["state"] for dag in dags for run in self.client.runs(f"{self.id}_{dag}")]

    def ended(self, dag: str) -> bool:
        """Whether each run of it ended, and at least one was."""
        states = self.run_states(dag)
        return bool(states) and set(states) <= {"success", "failed"}


@contextmanager
def run_stage(folder: Path, home_of: type[HomeWithRoles] = HomeWithRoles) -> Iterator[Stage]:
    """Start it, with neither application deployed, and end all of it with the block."""
    port, *_ = free_ports(1)
    dags, gate = folder / "dags", folder / "gate"
    dags.mkdir()
    (dags / ".airflowignore").write_text("fake_instance.py")
    fake = dags / "fake_instance.py"
    fake.write_text((_ROOT / "tests" / "integration" / "airflow" / "fake_instance.py").read_text())
    job = folder / "job.py"
    job.write_text(_SURVIVOR_JOB.format(gate=str(gate), fake=str(fake)))
    with (
        EmbeddedBroker(settings_of_broker(folder / "kafka")) as broker,
        pytest.MonkeyPatch.context() as monkeypatch,
        spark_submit_stub(folder, monkeypatch) as run_dir,
    ):
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        connection = KafkaConnection(broker.bootstrap_servers)
        sources = (ORDERS, f"{SURVIVOR}-source")
        TopicAdmin(connection).ensure([TopicSpec(name=name, partitions=2) for name in sources])
        at = {"state_dir": str(folder / "state"), "run_dir": str(run_dir)}
        (dags / "orders_dags.py").write_text(_ORDERS_FILE.format(**at))
        (dags / "survivor_dags.py").write_text(_SURVIVOR_FILE.format(job=str(job), **at))
        home = home_of(folder / "airflow", dags, port, broker.bootstrap_servers, "local[1]")
        service = Service(home, folder / "logs")
        service.client = RoleClient(home.address, "admin")
        try:
            service.prepare(300.0)
            service.start()
            wanted = [f"{ORDERS}_drill_crash", *(f"{id_}_{dag}" for id_ in (ORDERS, SURVIVOR) for dag in _DAGS)]
            service.wait_until_ready(wanted, 600.0)
            yield Stage(ORDERS, service, broker, connection, lambda role: RoleClient(home.address, role), gate)
        finally:
            service.stop(10.0)
