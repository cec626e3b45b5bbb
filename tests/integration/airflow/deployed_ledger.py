"""The ledger as Airflow's tasks deploy it on hosts, fail it over and repair it, and the judge of what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.reader import ControlReader
from airflow_provider.control.view import ControlView
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, control_specs
from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.operators.repair import ReportFailOverOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.standby_lag import StandbyLagSensor
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.chaos.evidence import gather
from tests.chaos.judge import judge
from tests.chaos.load import Load
from tests.chaos.workload import kept
from tests.integration.airflow.placed_hosts import (
    APPLICATION,
    OF,
    START_S,
    PlacedHosts,
)
from tests.integration.airflow.running import caused_by, incident_of, run
from tests.waiting import wait_until

TASKS = 3
INPUT, OUTPUT, LETTERS = (f"{APPLICATION}-{name}" for name in ("input", "output", "dead-letters"))


class Ledger:
    """The application on a broker, as Airflow's tasks act on it."""

    def __init__(self, hosts: PlacedHosts, admin: KafkaConnection) -> None:
        self.hosts, self.connection = hosts, admin
        self.load = Load(admin.bootstrap_servers, INPUT, TASKS, 300, 20)
        self._loading = False

    def deploy(self, *names: str) -> None:
        run(CreateChangelogTopicsOperator(task_id="topics", source_topics=INPUT, **OF))
        for name in names:
            self.hosts.deploy(name)
        self.assign()

    def assign(self, **how: Any) -> None:
        """Tasks for who lives, each with a warm standby on another host."""
        assigned = run(AssignTasksOperator(task_id="assign", **how, **OF))
        assert assigned["on_one_host"] == {}
        run(StandbyLagSensor(task_id="warm", timeout_s=START_S, **OF))

    def start_load(self) -> None:
        self._loading = True
        self.load.start()
        wait_until(lambda: len(self._offsets()) == TASKS, START_S, "every task to commit")

    def fail_over(self) -> dict[str, Any]:
        """As the failover DAG does, once the watcher has seen an incident; its answer."""
        (answer,) = run(FailOverOperator(task_id="fail_over", **OF), caused_by(incident_of(APPLICATION, START_S)))
        found: dict[str, Any] = answer
        return found

    def settle(self, answer: dict[str, Any]) -> None:
        """What the repair does behind the replacement."""
        self.assign()
        run(ReportFailOverOperator(task_id="report", incident_id=answer["incident_id"], **OF))
        self.assign(balance=True, timeout_s=START_S)
        assert not self.view().unresolved_incidents

    def view(self) -> ControlView:
        with ControlReader(self.connection, APPLICATION) as reader:
            return reader.read_to_end()

    def hosts_of(self, *names: str) -> dict[str, str]:
        """Where the stores of each lie."""
        return {name: self.view().statuses[name].stores_host for name in names}

    def active(self) -> dict[TaskId, str | None]:
        assignment = self.view().assignment
        assert assignment is not None
        return {task_id: task.active for task_id, task in assignment.tasks.items()}

    def check(self, *names: str) -> None:
        """All that was written is processed, every copy is whole, and nothing is lost or doubled."""
        self.load.stop()
        self._loading = False
        marks = {partition: end for (_, partition), end in self.load.committed.items()}
        wait_until(
            lambda: all(self._offsets().get(partition, 0) >= end for partition, end in marks.items()),
            START_S,
            "every task to have processed all input",
        )
        at = self.hosts_of(*names)
        self.hosts.stop(names)
        folders = {name: self.hosts.state_dir(name, at[name]) for name in names}
        verdict = judge(gather(self.connection.bootstrap_servers, APPLICATION, folders))
        assert verdict.right, "\n".join(verdict.lines())

    def close(self) -> None:
        if self._loading:
            self.load.stop()
        self.hosts.kill()

    def _offsets(self) -> dict[int, int]:
        """By partition, where each active goes on."""
        view = self.view()
        found = {}
        for task_id, given in view.assignment.tasks.items() if view.assignment else ():
            owner = view.statuses.get(given.active or "")
            task = owner.task(task_id) if owner else None
            if task is not None and task.source_offset is not None:
                found[task_id.partition] = task.source_offset
        return found


Start = Callable[[type[PlacedHosts]], Ledger]


def on_broker(
    placement: type[PlacedHosts],
    folder: Path,
    environment: pytest.MonkeyPatch,
    admin: KafkaConnection,
    user: KafkaConnection,
) -> Ledger:
    """The application; Airflow and the instances connect as the user."""
    environment.setenv(DEFAULT_CONNECTION, airflow_connection(user))
    plain = [TopicSpec(name=name, partitions=TASKS) for name in (INPUT, OUTPUT, LETTERS)]
    # What was assigned more than ten minutes ago would be compacted away before it is judged.
    TopicAdmin(admin).ensure([*plain, *map(kept, control_specs(APPLICATION))])
    return Ledger(placement(folder, environment), admin)
