"""The ledger as Airflow's tasks deploy it on hosts, fail it over and repair it, and the judge of what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.report import FailoverReport, report
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, control_specs
from airflow_provider.operators.assignment import AssignTasksOperator, FailOverOperator
from airflow_provider.operators.drill import CheckRecoveryOperator, InjectFaultOperator
from airflow_provider.operators.repair import HistoryOperator, ReportFailOverOperator
from airflow_provider.operators.topics import CreateChangelogTopicsOperator
from airflow_provider.sensors.figures import StandbyLagSensor
from airflow_provider.sensors.states import FaultEndSensor
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.chaos.evidence import gather
from tests.chaos.judge import judge
from tests.chaos.load import Load
from tests.chaos.workload import kept
from tests.integration.airflow.placed_hosts import (
    APPLICATION,
    OF,
    START_S,
    OnWorkers,
    PlacedHosts,
)
from tests.integration.airflow.running import caused_by, context, incident_of, run
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

    def fail_over(self, seen: dict[str, Any] | None = None) -> dict[str, Any]:
        """As the failover DAG does, once the watcher has seen an incident; its answer."""
        seen = seen or incident_of(APPLICATION, START_S)
        (answer,) = run(FailOverOperator(task_id="fail_over", **OF), caused_by(seen))
        found: dict[str, Any] = answer
        return found

    @contextmanager
    def watched(self) -> Iterator[Future[dict[str, Any]]]:
        """A watcher watches from here on; what it sees first."""
        with ThreadPoolExecutor(1) as pool, ControlReader(self.connection, APPLICATION) as reader:
            reader.read_to_end()
            seen = pool.submit(incident_of, APPLICATION, 2 * START_S)
            assert reader.listen_for_watcher(START_S)
            yield seen

    def settle(self, answer: dict[str, Any]) -> dict[str, Any]:
        """What the repair does behind the replacement; what the failover cost."""
        self.assign()
        wait_until(lambda: self._cost(answer["incident_id"]).rto_ms, START_S, "every moved task to commit")
        cost: dict[str, Any] = run(ReportFailOverOperator(task_id="report", incident_id=answer["incident_id"], **OF))
        self.assign(balance=True, timeout_s=START_S)
        assert not self.view().unresolved_incidents
        return cost

    def upgrade(self, hosts: OnWorkers, *names: str) -> None:
        """As the upgrade DAG does, one after the other."""
        hosts.version = f"{hosts.version} and later"
        for name in names:
            before = self.view().statuses[name].incarnation
            handle = hosts.deploy(name, on_change="upgrade", run_id=f"upgrade-{name}")
            assert handle["incarnation"] > before
            self.assign()
        self.assign(balance=True, timeout_s=START_S)

    def drill(self, run_id: str, victim: str, host: str) -> dict[str, Any]:
        """A crash drill, the failover and the repair, as their DAGs do it; what the failover cost."""
        with self.watched() as seen:
            fault = run(InjectFaultOperator(task_id="fault", instance=victim, **OF), context(run_id))
            answer = self.fail_over(seen.result())
        assert answer["instance"] == victim
        self.hosts.repair(victim, host)
        cost = self.settle(answer)
        run(FaultEndSensor(task_id="over", fault=fault, timeout_s=START_S, application_id=APPLICATION))
        checked = run(CheckRecoveryOperator(task_id="check", fault=fault, **OF))
        assert checked["outputs"]["unmeasured"] is None
        assert [count["lost"] for count in checked["outputs"]["counts"]] == [0] * len(checked["outputs"]["counts"])
        (drilled,) = [one for one in self.history("drill") if one["id"] == fault["id"]]
        assert drilled["outcome"] == "passed"
        return cost

    def history(self, kind: str) -> list[dict[str, Any]]:
        kept: list[dict[str, Any]] = run(HistoryOperator(task_id="history", application_id=APPLICATION, kind=kind))
        return kept

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

    def generation(self) -> int:
        assignment = self.view().assignment
        return assignment.generation if assignment else 0

    def check_progress(self) -> None:
        """Every task gets on by some micro-batches."""
        for _ in range(3):
            wait_until(partial(self._are_beyond, self._offsets()), START_S, "every task to get on")

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

    def _cost(self, incident_id: str) -> FailoverReport:
        """What a failover has cost so far."""
        view = self.view()
        return report(view.incidents[incident_id], view)

    def _are_beyond(self, offsets: Mapping[int, int]) -> bool:
        now = self._offsets()
        return all(now.get(task, 0) > at for task, at in offsets.items())

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
