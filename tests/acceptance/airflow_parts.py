"""A fresh Airflow with two workers on two queues, each of its parts a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from airflow_provider.demo.airflow_service import AirflowHome
from airflow_provider.kit.ports import free_ports
from airflow_provider.kit.process import Child, end_groups
from tests.acceptance.airflow_client import UserClient
from tests.acceptance.errors import AcceptanceError
from tests.acceptance.installation import plain_environment

__all__ = ["QUEUES", "AirflowParts"]

QUEUES: Final = ("streams-1", "streams-2")
"""The queue of each worker. What names no queue, the first takes.

No queue has two workers: SQLite cannot lock rows, so two that ask at the same moment would take the same task.
"""

_DB_S: Final = 180.0
_START_S: Final = 240.0
_END_S: Final = 15.0
_POLL_S: Final = 1.0


class AirflowParts:
    """An Airflow in the environment where the wheel was installed.

    Args:
        folder: for its home, its DAGs and its logs.
        python: of that environment.
        bootstrap_servers: of the brokers.
    """

    def __init__(self, folder: Path, python: Path, bootstrap_servers: str) -> None:
        self._folder, self._python = folder, python
        self.dags = folder / "dags"
        (port,) = free_ports(1)
        home = AirflowHome(folder / "airflow", self.dags, port, bootstrap_servers, "local[1]")
        self.client = UserClient(home.address)
        self.address = home.address
        self._environment = home.to_environment(plain_environment()) | self._settings(python)
        # As a new installation has it: each DAG is unpaused by a person.
        del self._environment["AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"]
        self._commands: dict[str, tuple[str, ...]] = {
            "api-server": ("api-server",),
            "scheduler": ("scheduler", "--skip-serve-logs"),
            "triggerer": ("triggerer", "--skip-serve-logs"),
            "dag-processor": ("dag-processor",),
            **{f"worker-{number}": self._worker(number, queue) for number, queue in enumerate(QUEUES, 1)},
        }
        self._children: dict[str, Child] = {}

    def start(self) -> None:
        """Make its database, start every part, and return when all are healthy.

        Raises:
            AcceptanceError: a part ended, or it took too long.
        """
        self.dags.mkdir(parents=True, exist_ok=True)
        migration = self._child("airflow-db", ("db", "migrate"))
        if (status := migration.wait(_DB_S)) != 0:
            migration.end(1.0)
            raise AcceptanceError(f"'airflow db migrate' ended with {status}; see {migration.log_file}")
        migration.end(1.0)
        # Workers that find no server try again ever more seldom.
        self.start_part("api-server")
        self._wait_for_api_server()
        for name in self._commands:
            if name not in self._children:
                self.start_part(name)
        self._wait_until(self.client.unhealthy)

    def start_part(self, name: str) -> None:
        """As a supervisor starts one that is not there."""
        self._children[name] = self._child(name, self._commands[name])

    def kill_part(self, name: str) -> None:
        """End one and all of its processes with SIGKILL, as the loss of its host would."""
        self._children.pop(name).end(0.0)

    def end_part(self, name: str) -> None:
        """Ask one to end, and wait for it."""
        self._children.pop(name).end(_END_S)

    def check(self) -> None:
        """Return when every part that was started still runs.

        Raises:
            AcceptanceError: one ended by itself.
        """
        for name, child in self._children.items():
            if child.exit_status is not None:
                raise AcceptanceError(f"Airflow's {name} ended with {child.exit_status}; see {child.log_file}")

    def stop(self) -> None:
        """End all of it."""
        end_groups([child.leader for child in self._children.values()], _END_S)
        for child in self._children.values():
            child.reap()
        self._children.clear()

    def _wait_for_api_server(self) -> None:
        """Its task interface is built by the first request for it."""
        self._wait_until(lambda: [] if self.client.serves_tasks() else ["api-server"])

    def _wait_until(self, missing: Callable[[], list[str]]) -> None:
        deadline = time.monotonic() + _START_S
        while found := missing():
            self.check()
            if time.monotonic() > deadline:
                raise AcceptanceError(f"No healthy {', '.join(found)} within {_START_S:g} s.")
            time.sleep(_POLL_S)

    def _child(self, name: str, arguments: tuple[str, ...]) -> Child:
        command = [str(self._python), "-m", "airflow", *arguments]
        return Child(name, command, self._folder / "logs" / f"{name}.log", self._environment)

    def _worker(self, number: int, queue: str) -> tuple[str, ...]:
        name = f"worker-{number}"
        pid_file = str(self._folder / f"{name}.pid")
        queues = f"default,{queue}" if number == 1 else queue
        return ("edge", "worker", "-q", queues, "-H", name, "-c", "8", "--pid", pid_file)

    def _settings(self, python: Path) -> dict[str, str]:
        settings = {
            "core__executor": "airflow.providers.edge3.executors.EdgeExecutor",
            "core__parallelism": "32",
            "database__external_db_managers": "airflow.providers.edge3.models.db.EdgeDBManager",
            "edge__api_enabled": "True",
            "edge__api_url": f"{self.address}/edge_worker/v1/rpcapi",
            "edge__job_poll_interval": "1",
            "edge__heartbeat_interval": "5",
            # A request that is tried again is as old as its token: too old, a worker ends.
            "api_auth__jwt_leeway": "300",
            # docs/airflow.md, "Settings of Airflow that matter".
            "scheduler__task_instance_heartbeat_timeout": "30",
            "triggerer__triggerer_health_check_threshold": "10",
            "triggerer__job_heartbeat_sec": "2",
            "dag_processor__refresh_interval": "5",
            "dag_processor__min_file_process_interval": "10",
            "dag_processor__bundle_refresh_check_interval": "5",
            "dag_processor__stale_dag_threshold": "60",
        }
        return {
            **{f"AIRFLOW__{name.upper()}": value for name, value in settings.items()},
            "PATH": f"{python.parent}:{plain_environment()['PATH']}",
            # Java that lives for minutes need not be compiled twice.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
