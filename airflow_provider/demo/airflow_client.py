"""A client of the REST API of the demo's Airflow."""

from __future__ import annotations

import time
from typing import Any, Final

import httpx

from airflow_provider.demo.errors import DemoError

_TIMEOUT_S: Final = 15.0
_PATIENCE_S: Final = 45.0
_PAUSE_S: Final = 0.5


class AirflowClient:
    """A client of the public API of an Airflow whose users are all admins.

    A busy machine may leave a request unanswered for long. So every request is repeated for a while; one that starts
    something gives it a name first, by which a repeated request recognises it.

    Args:
        address: such as ``http://127.0.0.1:8080``.
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
        """Start a run, once however often it is asked for.

        Args:
            run_id: of the run; a new one.
            conf: the values of its form.
        """
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
