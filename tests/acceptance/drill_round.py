"""Ten drills in a row that Airflow's scheduler begins, and what befalls everything else meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from airflow_provider.control.records.history import HistoryKind, HistoryOutcome
from tests.acceptance.airflow_client import seconds_of
from tests.acceptance.airflow_parts import AirflowParts
from tests.acceptance.application import Application
from tests.acceptance.drill_plan import KINDS, schedules
from tests.acceptance.errors import AcceptanceError
from tests.acceptance.report import Report

__all__ = ["DrillRound"]

_MARGIN_S: Final = 600.0
_POLL_S: Final = 2.0


class DrillRound:
    """Schedules the drills of an application, disturbs them, and looks on until the last has ended.

    Args:
        application: whose they are.
        beside: another one, of which an instance is killed.
        airflow: whose parts are disturbed.
        report: what a person reads.
        minutes: between the beginnings of two drills.
    """

    def __init__(
        self, application: Application, beside: Application, airflow: AirflowParts, report: Report, *, minutes: int
    ) -> None:
        self._application, self._beside = application, beside
        self._airflow, self._report, self._minutes = airflow, report, minutes
        self._told: set[tuple[str, str]] = set()
        self._disturbances: dict[int, Callable[[], None]] = {
            1: self._kill_beside,
            3: self._restart_worker,
            5: self._kill_triggerer,
        }
        """By the number of drills whose fault was injected."""

    def schedule(self) -> None:
        """Write the drills into the DAG file."""
        file = self._application.file
        file.drills = schedules(time.time(), self._minutes)
        self._application.write_dags()
        self._report.saw(*(f"{kind}: {schedule}" for kind, schedule in file.drills.items()))

    def look_on(self) -> None:
        """Return when as many runs as were due have ended.

        Raises:
            AcceptanceError: it took too long, a part of Airflow ended, or one of the drills did not pass.
        """
        deadline = time.monotonic() + 60.0 * self._minutes * len(KINDS) + _MARGIN_S
        while len(self._told) < len(KINDS):
            self._airflow.check()
            begun = len(self._application.history(HistoryKind.DRILL))
            for number in [n for n in self._disturbances if n <= begun]:
                self._disturbances.pop(number)()
            for run in self._runs():
                if run["state"] in ("success", "failed"):
                    self._tell(run)
            if time.monotonic() > deadline:
                raise AcceptanceError(f"{len(self._told)} of {len(KINDS)} drills had ended in time")
            time.sleep(_POLL_S)
        self._judge()

    def _runs(self) -> list[dict[str, Any]]:
        client, id_ = self._application.client, self._application.id
        runs = [run for kind in self._application.file.drills for run in client.runs(f"{id_}_drill_{kind}")]
        return [run for run in runs if run["run_type"] == "scheduled"]

    def _tell(self, run: dict[str, Any]) -> None:
        name = (run["dag_id"], run["dag_run_id"])
        if name in self._told:
            return
        self._told.add(name)
        odd = [line for line in self._application.client.task_lines(*name) if not line.endswith(" success")]
        self._report.saw(
            f"{run['dag_id']} due {run['run_after'][11:19]}: {run['state']} in {seconds_of(run) or 0:.0f} s"
            + (f" ({', '.join(odd)})" if odd else "")
        )

    def _judge(self) -> None:
        failed = [run["dag_id"] for run in self._runs() if run["state"] != "success"]
        records = self._application.history(HistoryKind.DRILL)
        passed = [record for record in records if record.outcome is HistoryOutcome.PASSED]
        self._report.saw(f"{len(passed)} of {len(records)} drills on record passed, {len(KINDS)} were due")
        if failed or len(passed) < len(KINDS):
            raise AcceptanceError(
                f"{len(passed)} drills passed, {len(KINDS)} were wanted; failed: {', '.join(failed) or 'none'}"
            )
        if self._disturbances:
            raise AcceptanceError(f"{len(self._disturbances)} disturbances found no drill to disturb")

    def _kill_beside(self) -> None:
        before = self._beside.running()
        self._beside.kill("x")
        self._report.saw(f"{self._beside.id}: SIGKILL to instance x, while a drill of {self._application.id} goes on")
        self._report.saw(self._beside.wait_for_failover("x", before["x"]))

    def _restart_worker(self) -> None:
        self._airflow.end_part("worker-1")
        self._airflow.start_part("worker-1")
        self._report.saw("worker-1, which has the failover's queue: SIGTERM, and started again")

    def _kill_triggerer(self) -> None:
        self._airflow.kill_part("triggerer")
        self._airflow.start_part("triggerer")
        self._report.saw("triggerer: SIGKILL, and started again")
