"""What a person does in Airflow's UI, by its API."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from airflow_provider.demo.airflow_service import AirflowClient
from tests.acceptance.errors import AcceptanceError

__all__ = ["UserClient"]

_POLL_S: Final = 1.0


class UserClient(AirflowClient):
    """Unpauses, triggers, waits, looks.

    Args:
        address: of the API server.
    """

    def unpause(self, dag_ids: Iterable[str]) -> None:
        """As the switch beside a DAG does."""
        for dag_id in dag_ids:
            self._call("PATCH", f"/api/v2/dags/{dag_id}?update_mask=is_paused", {"is_paused": False})

    def parsed_at(self, dag_id: str) -> float:
        """When the DAG's file was read last, epoch seconds; 0.0 where it was not."""
        dags = self._call("GET", f"/api/v2/dags?dag_id_pattern={dag_id}&limit=100")["dags"]
        times = [dag["last_parsed_time"] for dag in dags if dag["dag_id"] == dag_id and dag["last_parsed_time"]]
        return _epoch(times[0]) if times else 0.0

    def wait_until_parsed(self, dag_ids: Iterable[str], since_s: float, timeout_s: float) -> None:
        """Return when each was read after `since_s` (epoch seconds).

        Raises:
            AcceptanceError: a DAG file cannot be read, or it took too long.
        """
        deadline, wanted = time.monotonic() + timeout_s, list(dag_ids)
        while missing := [dag_id for dag_id in wanted if self.parsed_at(dag_id) <= since_s]:
            if errors := self.import_errors():
                raise AcceptanceError(f"Airflow cannot read a DAG file: {errors[0]}")
            if time.monotonic() > deadline:
                raise AcceptanceError(f"Airflow did not read {', '.join(missing)} within {timeout_s:g} s.")
            time.sleep(_POLL_S)

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The runs of a DAG, the oldest first."""
        found: list[dict[str, Any]] = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100&order_by=id")[
            "dag_runs"
        ]
        return found

    def task_lines(self, dag_id: str, run_id: str) -> list[str]:
        """The state of each task of a run, with the number of its tries where there was more than one."""
        lines = []
        for task in self.tasks(dag_id, run_id):
            tries = f" in try {task['try_number']}" if task["try_number"] > 1 else ""
            lines.append(f"{task['task_id']} {task['state']}{tries}")
        return lines

    def questions(self, dag_id: str) -> list[dict[str, Any]]:
        """What stands under *Required actions* of a DAG, answered or not, the oldest first."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/~/hitlDetails?limit=100&order_by=created_at"
        found: list[dict[str, Any]] = self._call("GET", path)["hitl_details"]
        return found

    def answer(self, question: dict[str, Any], option: str) -> None:
        """As the button of an option does; once, however often it is asked for.

        Args:
            question: as `questions` has it.
            option: one of its options.
        """
        task = question["task_instance"]
        path = f"/api/v2/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        self._call("PATCH", f"{path}/{task['map_index']}/hitlDetails", {"chosen_options": [option]}, exists=409)


def seconds_of(run: dict[str, Any]) -> float | None:
    """How long a run took; None while it runs."""
    if run["start_date"] is None or run["end_date"] is None:
        return None
    return _epoch(run["end_date"]) - _epoch(run["start_date"])


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
