"""The demo's own Airflow: its settings as environment variables, a client of its REST API, and its components."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from airflow_provider.demo.errors import DemoError
from airflow_provider.kit.process import Child, end_groups

# The settings of another Airflow on this machine must not reach the demo's.
_FOREIGN: Final = ("AIRFLOW", "_AIRFLOW")


@dataclass(frozen=True)
class AirflowHome:
    """An Airflow for one machine and one user, with nothing in it but the DAGs of one folder.

    Args:
        port: of its API server, on loopback.
        bootstrap_servers: of the Kafka cluster, which becomes the connection ``kafka_streams_default``.
    """

    root: Path
    dags: Path
    port: int
    bootstrap_servers: str
    spark_master: str

    @property
    def address(self) -> str:
        """Of its pages and its API."""
        return f"http://127.0.0.1:{self.port}"

    def to_environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of its components.

        Its secrets are new with every call, so all components must share one.
        """
        kept = {name: value for name, value in inherited.items() if not name.startswith(_FOREIGN)}
        host, _, port = self.bootstrap_servers.partition(":")
        connections = {
            "KAFKA_STREAMS_DEFAULT": {"conn_type": "kafkastreams", "host": host, "port": int(port)},
            "SPARK_DEFAULT": {"conn_type": "spark", "host": self.spark_master},
        }
        return {
            **kept,
            **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
            **{f"AIRFLOW__{name.upper()}": value for name, value in self._settings().items()},
            "AIRFLOW_HOME": str(self.root),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "NO_PROXY": ",".join(filter(None, ("127.0.0.1", "localhost", kept.get("NO_PROXY")))),
            "no_proxy": ",".join(filter(None, ("127.0.0.1", "localhost", kept.get("no_proxy")))),
            "PYTHONUNBUFFERED": "1",
        }

    def _settings(self) -> dict[str, str]:
        return {
            "core__dags_folder": str(self.dags),
            "core__load_examples": "False",
            "core__executor": "LocalExecutor",
            "core__parallelism": "4",
            "core__dags_are_paused_at_creation": "False",
            "core__simple_auth_manager_all_admins": "True",
            "core__fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "core__execution_api_server_url": f"{self.address}/execution/",
            "core__hostname_callable": "socket.gethostname",
            "database__sql_alchemy_conn": f"sqlite:///{self.root / 'airflow.db'}",
            "api__host": "127.0.0.1",
            "api__port": str(self.port),
            "api__base_url": self.address,
            "api__workers": "1",
            "api__secret_key": secrets.token_urlsafe(32),
            "api_auth__jwt_secret": secrets.token_urlsafe(64),
            # Two cores: what happens seldom may take its time, what a failover waits for may not.
            "scheduler__scheduler_idle_sleep_time": "0.2",
            "scheduler__enable_health_check": "False",
            "scheduler__pool_metrics_interval": "60",
            "scheduler__parsing_cleanup_interval": "300",
            "scheduler__trigger_timeout_check_interval": "60",
            # Against the loss of a deferral's exit behind its own event.
            "workers__min_heartbeat_interval": "1",
            # The DAGs do not change: read them once.
            "dag_processor__parsing_processes": "1",
            "dag_processor__min_file_process_interval": "3600",
            "dag_processor__refresh_interval": "3600",
            "dag_processor__stale_dag_threshold": "7200",
            "dag_processor__print_stats_interval": "0",
            "dag_processor__bundle_refresh_check_interval": "60",
            "logging__base_log_folder": str(self.root / "logs"),
            "logging__colored_console_log": "False",
            "usage_data_collection__enabled": "False",
        }


_TIMEOUT_S: Final = 15.0
_PATIENCE_S: Final = 45.0
_PAUSE_S: Final = 0.5


class AirflowClient:
    """A client of the public API of an Airflow whose users are all admins.

    A busy machine may leave a request unanswered for long. So every request is repeated for a while; one that starts
    something gives it a name first, by which a repeated request recognises it.

    Args:
        patience_s: for how long a request is repeated.
    """

    def __init__(self, address: str, patience_s: float = _PATIENCE_S) -> None:
        self.address, self._patience_s = address, patience_s
        self._token: str | None = None
        # Loopback is reached directly, whatever the environment says of proxies. A kept connection may be closed by the
        # server at the very moment of its next request, so none is kept.
        self._http = httpx.Client(
            base_url=address, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0), timeout=_TIMEOUT_S
        )

    def unhealthy(self) -> list[str]:
        """Return the components that are not healthy; the API server alone when nothing answers."""
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        try:
            health = self._ask("GET", "/api/v2/monitor/health")
        except (httpx.HTTPError, ValueError):
            return ["api-server"]
        return [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]

    def serves_tasks(self) -> bool:
        """Return whether the API that tasks use answers.

        It is built by its first request, which takes seconds, and all other requests wait until it is built.
        """
        try:
            self._ask("GET", "/execution/health", timeout_s=60.0)
        except (httpx.HTTPError, ValueError):
            return False
        return True

    def dags(self) -> set[str]:
        """Return the ids of the DAGs that were read."""
        return {dag["dag_id"] for dag in self._call("GET", "/api/v2/dags?limit=100")["dags"]}

    def import_errors(self) -> list[str]:
        """Return why DAG files could not be read, a line each."""
        found = self._call("GET", "/api/v2/importErrors?limit=100")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in found]

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> None:
        """Start a run, once however often it is asked for."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body, exists=409)

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return ``queued``, ``running``, ``success`` or ``failed``."""
        return str(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
        found: list[dict[str, Any]] = self._call("GET", path)["task_instances"]
        return found

    def _call(self, method: str, path: str, body: Any = None, exists: int | None = None) -> Any:
        """Ask until there is an answer; `exists` is the status that means: done by an earlier request."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                if self._token is None:
                    self._token = str(self._ask("GET", "/auth/token")["access_token"])
                return self._ask(method, path, body)
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status == exists:
                    return None
                why, may_pass = f"answered {status} to {method} {path}: {error.response.text[:500]}", status >= 500
            except httpx.TransportError as error:  # refused, reset, cut off, timed out
                why, may_pass = f"did not answer {method} {path} for {self._patience_s:g} s ({error})", True
            if not may_pass or time.monotonic() > deadline:
                raise DemoError(f"Airflow {why}.")
            time.sleep(_PAUSE_S)

    def _ask(self, method: str, path: str, body: Any = None, timeout_s: float = _TIMEOUT_S) -> Any:
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        answer = self._http.request(
            method, path.replace("+", "%2B"), json=body, headers=headers, timeout=timeout_s
        ).raise_for_status()
        return answer.json()


_COMPONENTS: Final[dict[str, tuple[str, ...]]] = {
    "api-server": ("api-server",),
    # Task logs are read from the folder: their servers would listen beyond loopback.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
_POLL_S: Final = 0.5


class AirflowService:
    """An Airflow that was started here.

    Args:
        die_with_parent: whether it is killed when this process is gone.
    """

    def __init__(self, home: AirflowHome, logs: Path, die_with_parent: bool = True) -> None:
        self.home, self.children = home, list[Child]()
        self.client = AirflowClient(home.address)
        self._logs, self._die_with_parent = logs, die_with_parent
        self._environment = home.to_environment(os.environ)

    def prepare(self, timeout_s: float) -> None:
        """Make its database."""
        migration = self._start("airflow-db", ("db", "migrate"))
        status = migration.wait(timeout_s)
        if status != 0:
            how = f"failed with status {status}" if status is not None else f"took longer than {timeout_s:g} s"
            migration.end(1.0)
            raise DemoError(f"Creating Airflow's database {how}.", migration.log_file)
        migration.end(1.0)
        self.children.remove(migration)

    def start(self) -> None:
        """Start the components; returns at once."""
        for name, arguments in _COMPONENTS.items():
            self._start(name, arguments)

    def check(self) -> None:
        """Return when every component that was started still runs."""
        for child in self.children:
            if child.exit_status is not None:
                raise DemoError(f"Airflow's {child.name} ended with status {child.exit_status}.", child.log_file)

    def wait_until_ready(self, dags: Sequence[str], timeout_s: float) -> None:
        """Return when every component is healthy and the DAGs were read."""
        deadline = time.monotonic() + timeout_s
        serves_tasks = False
        while True:
            self.check()
            missing = self.client.unhealthy()
            if "api-server" not in missing and not serves_tasks:
                serves_tasks = self.client.serves_tasks()
                missing = self.client.unhealthy() if serves_tasks else ["api-server"]
            if not missing:
                if errors := self.client.import_errors():
                    raise DemoError(f"Airflow cannot read a DAG: {errors[0]}.", self._logs / "dag-processor.log")
                missing = sorted(set(dags) - self.client.dags())
            if not missing:
                return
            if time.monotonic() > deadline:
                log = f"{missing[0].replace('_', '-')}.log"
                raise DemoError(
                    f"Airflow was not ready within {timeout_s:g} s: no {', '.join(missing)}. A busy machine needs more "
                    "time: --limit, or LIMIT= with make.",
                    self._logs / (log if (self._logs / log).is_file() else "dag-processor.log"),
                )
            time.sleep(_POLL_S)

    def stop(self, timeout_s: float) -> None:
        """End all of it, together; returns when it is gone."""
        end_groups([child.leader for child in self.children], timeout_s)
        for child in self.children:
            child.reap()
        self.children.clear()

    def _start(self, name: str, arguments: tuple[str, ...]) -> Child:
        child = Child(
            name,
            [sys.executable, "-m", "airflow", *arguments],
            self._logs / f"{name}.log",
            self._environment,
            die_with_parent=self._die_with_parent,
        )
        self.children.append(child)
        return child
