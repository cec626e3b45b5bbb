"""Speaks with the demo's Airflow over its REST API."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Final

from airflow_provider.demo.errors import DemoError

__all__ = ["AirflowClient"]

_TIMEOUT_S: Final = 10.0


class AirflowClient:
    """A client of the public API of an Airflow whose users are all admins.

    Args:
        address: such as ``http://127.0.0.1:8080``.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._token: str | None = None
        # Loopback is reached directly, whatever the environment says of proxies.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def unhealthy(self) -> list[str]:
        """The components that do not answer or whose heartbeat stays away; all of them when nothing answers."""
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        try:
            health = self._call("GET", "/api/v2/monitor/health", with_token=False)
        except (DemoError, OSError):
            return ["api-server"]
        return [part for part in parts if health.get(part, {}).get("status") != "healthy"]

    def dags(self) -> set[str]:
        """The ids of the DAGs that were read."""
        return {dag["dag_id"] for dag in self._call("GET", "/api/v2/dags?limit=100")["dags"]}

    def import_errors(self) -> list[str]:
        """Why DAG files could not be read."""
        found = self._call("GET", "/api/v2/importErrors?limit=100")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in found]

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Start a run; gives its id."""
        run = self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The runs of a DAG, oldest first."""
        found: list[dict[str, Any]] = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100&order_by=id")[
            "dag_runs"
        ]
        return found

    def run_state(self, dag_id: str, run_id: str) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        return str(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
        found: list[dict[str, Any]] = self._call("GET", path)["task_instances"]
        return found

    def _call(self, method: str, path: str, body: Any = None, with_token: bool = True) -> Any:
        headers = {"Content-Type": "application/json"}
        if with_token:
            if self._token is None:
                self._token = str(self._call("GET", "/auth/token", with_token=False)["access_token"])
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path.replace("+", "%2B"), data, headers, method=method)
        try:
            with self._open(request, timeout=_TIMEOUT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            told = error.read().decode("utf-8", "replace")[:500]
            raise DemoError(f"Airflow answered {error.code} to {method} {path}: {told}") from error
