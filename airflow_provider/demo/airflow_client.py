"""Speaks with the demo's Airflow over its REST API."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any, Final

from airflow_provider.demo.errors import DemoError

__all__ = ["AirflowClient"]

_TIMEOUT_S: Final = 15.0
_PATIENCE_S: Final = 45.0
_PAUSE_S: Final = 0.5


class AirflowClient:
    """A client of the public API of an Airflow whose users are all admins.

    A busy machine may leave a request unanswered for long. So every request is asked again for a while; what starts
    something names it first, and is known again by its name.

    Args:
        address: such as ``http://127.0.0.1:8080``.
        patience_s: for how long a request is asked again.
    """

    def __init__(self, address: str, patience_s: float = _PATIENCE_S) -> None:
        self.address, self._patience_s = address, patience_s
        self._token: str | None = None
        # Loopback is reached directly, whatever the environment says of proxies.
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def unhealthy(self) -> list[str]:
        """The components that do not answer or whose heartbeat stays away; all of them when nothing answers."""
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        try:
            health = self._ask(self._request("GET", "/api/v2/monitor/health"))
        except (OSError, http.client.HTTPException, ValueError):
            return ["api-server"]
        return [part for part in parts if (health.get(part) or {}).get("status") != "healthy"]

    def serves_tasks(self) -> bool:
        """Whether the API that tasks speak to answers.

        It is built by its first request, which takes seconds, and all others wait for it meanwhile.
        """
        try:
            self._ask(self._request("GET", "/execution/health"), timeout_s=60.0)
        except (OSError, http.client.HTTPException, ValueError):
            return False
        return True

    def dags(self) -> set[str]:
        """The ids of the DAGs that were read."""
        return {dag["dag_id"] for dag in self._call("GET", "/api/v2/dags?limit=100")["dags"]}

    def import_errors(self) -> list[str]:
        """Why DAG files could not be read."""
        found = self._call("GET", "/api/v2/importErrors?limit=100")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in found]

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> None:
        """Start a run, once however often it is asked for.

        Args:
            dag_id: of what.
            run_id: of the run; a new one.
            conf: the values of its form.
        """
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf}
        self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body, exists=409)

    def run_state(self, dag_id: str, run_id: str) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        return str(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100"
        found: list[dict[str, Any]] = self._call("GET", path)["task_instances"]
        return found

    def _call(self, method: str, path: str, body: Any = None, exists: int | None = None) -> Any:
        """Ask, again and again when nothing answers; `exists` is the status that says: done by an earlier request."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                if self._token is None:
                    self._token = str(self._ask(self._request("GET", "/auth/token"))["access_token"])
                return self._ask(self._request(method, path, body))
            except urllib.error.HTTPError as error:
                if error.code == exists:
                    return None
                told = error.read().decode("utf-8", "replace")[:500]
                why, mended = f"answered {error.code} to {method} {path}: {told}", error.code >= 500
            except (OSError, http.client.HTTPException) as error:  # refused, reset, cut off, timed out
                why, mended = f"did not answer {method} {path} for {self._patience_s:g} s ({error})", True
            if not mended or time.monotonic() > deadline:
                raise DemoError(f"Airflow {why}.")
            time.sleep(_PAUSE_S)

    def _request(self, method: str, path: str, body: Any = None) -> urllib.request.Request:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.Request(self.address + path.replace("+", "%2B"), data, headers, method=method)

    def _ask(self, request: urllib.request.Request, timeout_s: float = _TIMEOUT_S) -> Any:
        with self._open(request, timeout=timeout_s) as answer:
            return json.loads(answer.read())
