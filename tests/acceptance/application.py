"""One application of the run: its load, what its control topics say, and what came out."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections.abc import Callable
from typing import Final

from airflow_provider.control.history.topic import read_history
from airflow_provider.control.records.history import HistoryKind, HistoryOutcome, HistoryRecord
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.demo.stage import end_launchers
from airflow_provider.kafka.connection import KafkaConnection
from tests.acceptance.airflow_client import UserClient
from tests.acceptance.airflow_parts import AirflowParts
from tests.acceptance.dag_file import DagFile
from tests.acceptance.errors import AcceptanceError
from tests.chaos.evidence import gather
from tests.chaos.judge import Verdict, judge
from tests.chaos.load import Load

__all__ = ["Application"]

_PARSED_S: Final = 120.0
_RUN_S: Final = 600.0
_POLL_S: Final = 0.5
_CLEAN_STOP_S: Final = 20.0


class Application:
    """An application that is run through Airflow.

    Args:
        file: its DAG file.
        airflow: where it runs.
        cluster: of its topics.
        partitions: of its source.
        rate: of its load, records a second.
        seed: of its load.
    """

    def __init__(
        self, file: DagFile, airflow: AirflowParts, cluster: KafkaConnection, *, partitions: int, rate: int, seed: int
    ) -> None:
        self.id, self.file = file.application, file
        self._airflow, self._cluster = airflow, cluster
        source = f"{self.id}-input"
        self.load = Load(
            cluster.bootstrap_servers, source, partitions, rate, seed, transactional_id=f"load-of-{self.id}"
        )

    @property
    def client(self) -> UserClient:
        """Airflow's."""
        return self._airflow.client

    def write_dags(self) -> None:
        """Write the DAG file as it is now, wait until Airflow has read it, and unpause what is new."""
        written = time.time()
        self.file.write()
        self.client.wait_until_parsed(self.file.dag_ids, written, _PARSED_S)
        self.client.unpause(self.file.dag_ids)

    def run(self, name: str, timeout_s: float = _RUN_S, **form: object) -> float:
        """Trigger a DAG with values of its form, and wait until it has succeeded.

        Returns:
            How many seconds that took.

        Raises:
            AcceptanceError: it did not.
        """
        began, run_id = time.monotonic(), f"by_hand_{time.time_ns() // 1_000_000}"
        dag_id = f"{self.id}_{name}"
        self.client.trigger(dag_id, run_id, dict(form))
        while (state := self.client.run_state(dag_id, run_id)) != "success":
            self._airflow.check()
            if state == "failed" or time.monotonic() - began > timeout_s:
                tasks = "; ".join(self.client.task_lines(dag_id, run_id))
                raise AcceptanceError(f"{dag_id} {run_id} is {state} after {time.monotonic() - began:.0f} s: {tasks}")
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def view(self) -> ControlView:
        """What its control topics hold."""
        with ControlReader(self._cluster, self.id) as reader:
            return reader.read_to_end(30.0)

    def running(self) -> dict[str, int]:
        """The incarnation of each instance that runs."""
        statuses = self.view().statuses
        return {name: s.incarnation for name, s in statuses.items() if s.state is InstanceState.RUNNING}

    def actives(self) -> dict[str, list[str]]:
        """The tasks of each instance that is active for any."""
        assignment = self.view().assignment
        found: dict[str, list[str]] = {}
        for task, who in sorted(assignment.tasks.items()) if assignment else ():
            found.setdefault(who.active or "none", []).append(str(task))
        return found

    def history(self, kind: HistoryKind | None = None) -> list[HistoryRecord]:
        """What it went through, the oldest first."""
        return list(read_history(self._cluster, self.id, None, kind))

    def wait_for(self, what: str, come_true: Callable[[], bool], timeout_s: float) -> None:
        """Return when it has.

        Raises:
            AcceptanceError: it has not in time, or a part of Airflow ended.
        """
        deadline = time.monotonic() + timeout_s
        while not come_true():
            self._airflow.check()
            if time.monotonic() > deadline:
                raise AcceptanceError(f"{self.id}: not within {timeout_s:g} s: {what}; active now: {self.actives()}")
            time.sleep(_POLL_S)

    def wait_for_failover(self, instance: str, incarnation: int, timeout_s: float = 240.0) -> str:
        """Return when the loss of a process is answered and repaired, and all instances have load again.

        Args:
            instance: the one that was lost.
            incarnation: of the process that was lost.
            timeout_s: for both.

        Returns:
            What it cost, for a person.

        Raises:
            AcceptanceError: it took too long.
        """

        def found() -> HistoryRecord | None:
            records = self.history(HistoryKind.FAILOVER)
            return next((r for r in records if r.instances == (instance,) and r.at_ms > incarnation), None)

        def repaired() -> bool:
            record, now = found(), self.running().get(instance, 0)
            return record is not None and record.outcome is HistoryOutcome.PASSED and now > incarnation

        self.wait_for(f"{instance} is failed over and replaced", repaired, timeout_s)
        self.wait_for_load_on_all(timeout_s)
        record = found()
        assert record is not None
        rto = record.rto
        return (
            f"{self.id}: RTO {_s(rto.total_ms)} (detected {_s(rto.detected_ms)}, decided {_s(rto.decided_ms)}, owned "
            f"{_s(rto.owned_ms)}, output {_s(rto.first_output_ms)}), lost {record.rpo.lost_records}; "
            f"active: {self.actives()}"
        )

    def wait_for_load_on_all(self, timeout_s: float = 120.0) -> None:
        """Return when every instance that runs is active for a task.

        Raises:
            AcceptanceError: it took too long.
        """
        self.wait_for("every instance has load", lambda: set(self.actives()) == set(self.running()), timeout_s)

    def kill(self, instance: str) -> int:
        """End all processes of an instance with SIGKILL; its process group."""
        folders = sorted(self.file.run.glob(f"{self.id}-{instance}-*/process_group"))
        group = int(folders[-1].read_text())
        os.killpg(group, signal.SIGKILL)
        return group

    def wait_until_processed(self, timeout_s: float = 120.0) -> None:
        """Return when every record of the load is committed."""
        ends = {partition: end for (_, partition), end in self.load.committed.items()}

        def come_true() -> bool:
            offsets: dict[int, int] = {}
            for status in self.view().statuses.values():
                for task in status.tasks:
                    offsets[task.task.partition] = max(offsets.get(task.task.partition, 0), task.source_offset or 0)
            return all(offsets.get(partition, 0) >= end for partition, end in ends.items())

        self.wait_for(f"all is processed up to {ends}", come_true, timeout_s)

    def judge(self) -> Verdict:
        """Compare what came out with what had to come out; its instances have to be stopped."""
        folders = {name: self.file.state / name for name in self.file.instances}
        evidence = gather(self._cluster.bootstrap_servers, self.id, folders)
        # The assignment topic is compacted, so it does not tell any more who was to write in which generation.
        return judge(dataclasses.replace(evidence, assignments=()))

    def end(self) -> None:
        """End what is left of its instances."""
        end_launchers(self.file.run, _CLEAN_STOP_S)


def _s(ms: int | None) -> str:
    return "-" if ms is None else f"{ms / 1000:.2f} s"
