"""Three instances on three hosts, under load, for each placement: one host is lost whole, and comes back.

That of a worker's is behind TLS, with a login and with no more rights than the page lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.rights import Role
from airflow_provider.control.placement.hosts import tasks_on_one_host
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec, control_specs
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.operators.changelog_topics import CreateChangelogTopicsOperator
from airflow_provider.operators.failover import FailOverOperator
from airflow_provider.operators.repair import ReportFailOverOperator
from airflow_provider.operators.task_assignment import AssignTasksOperator
from airflow_provider.sensors.standby_lag import StandbyLagSensor
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.brokers import settings_of_broker
from tests.chaos.evidence import gather
from tests.chaos.judge import judge
from tests.chaos.load import Load
from tests.chaos.workload import kept
from tests.integration.airflow.placed_hosts import (
    APPLICATION,
    OF,
    SPARK_SECRET,
    START_S,
    OnCluster,
    OnFullCluster,
    OnWorkers,
    PlacedHosts,
    Supervised,
)
from tests.integration.airflow.running import caused_by, incident_of, run
from tests.integration.guarded_broker import GuardedBroker
from tests.integration.secured_broker import SecuredBroker
from tests.secret_scan import arguments_with
from tests.spark_cluster import needs_namespaces
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


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """The application of a placement, on a broker that lets everybody in."""
    broker = EmbeddedBroker(settings_of_broker(tmp_path / "kafka"))
    made: list[Ledger] = []

    def begin(placement: type[PlacedHosts]) -> Ledger:
        connection = KafkaConnection(broker.bootstrap_servers)
        made.append(on_broker(placement, tmp_path, monkeypatch, connection, connection))
        return made[-1]

    try:
        broker.start(START_S)
        yield begin
    finally:
        for ledger in made:
            ledger.close()
        broker.kill()


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


def lose_a_host(ledger: Ledger) -> None:
    """All of it: deployed on three hosts, one lost whole, failed over, repaired, back, exact."""
    names = ("a", "b", "c")
    ledger.deploy(*names)
    at = ledger.hosts_of(*names)
    assert len(set(at.values())) == len(names)
    ledger.start_load()
    victim = ledger.active()[min(ledger.active())]
    assert victim is not None

    ledger.hosts.lose(victim, at[victim])

    answer = ledger.fail_over()
    assert victim not in ledger.active().values()
    before = ledger.view().statuses[victim].incarnation
    handle = ledger.hosts.repair(victim, at[victim])
    assert handle["incarnation"] > before
    ledger.settle(answer)
    assert victim in ledger.active().values(), "the load has not returned"
    assert ledger.hosts_of(*names) == at
    view = ledger.view()
    assert view.assignment is not None
    assert not tasks_on_one_host(view.assignment.tasks, view.statuses)
    ledger.check(*names)


def test_supervised_host_that_is_lost_whole_comes_back_and_nothing_is_lost_or_doubled(start: Start) -> None:
    lose_a_host(start(Supervised))


def test_host_of_a_worker_is_lost_whole_and_comes_back_behind_tls_scram_and_acls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SecuredBroker.running(tmp_path / "secured", acls=True) as secured:
        user = secured.connections["SCRAM-SHA-512"]
        admin = KafkaConnection(secured.bootstrap_servers)
        ledger = on_broker(OnWorkers, tmp_path, monkeypatch, admin, user)
        guarded = GuardedBroker(secured.bootstrap_servers, user, user, user)
        for sink in (OUTPUT, LETTERS):
            guarded.grant(APPLICATION, Role.INSTANCE, Role.AIRFLOW, source=INPUT, sink=sink)
        try:
            lose_a_host(ledger)
        finally:
            ledger.close()


def clustered(start: Start, *hosts: str, on: type[OnCluster] = OnCluster) -> tuple[Ledger, OnCluster]:
    """The application, on a Spark cluster that has these hosts."""
    needs_namespaces()
    ledger = start(on)
    placed = ledger.hosts
    assert isinstance(placed, OnCluster)
    for host in hosts:
        placed.add_host(host)
    return ledger, placed


def test_host_of_a_spark_cluster_is_lost_whole_and_comes_back(start: Start) -> None:
    ledger, _ = clustered(start, "worker-1", "worker-2", "worker-3")

    lose_a_host(ledger)


def test_lost_executor_and_lost_worker_are_failed_over_and_a_third_host_is_used(start: Start) -> None:
    ledger, placed = clustered(start, "worker-1", "worker-2", on=OnFullCluster)
    ledger.deploy("a", "b")
    at = ledger.hosts_of("a", "b")
    assert set(at.values()) == {"worker-1", "worker-2"}
    ledger.start_load()

    # The executor: its driver ends, so its tasks go to the other at once.
    (executor,) = placed.cluster.executors(at["a"])
    executor.kill()
    answer = ledger.fail_over()
    assert not arguments_with([SPARK_SECRET])
    assert set(ledger.active().values()) == {"b"}
    assert ledger.view().statuses["a"].error_kind == "InstanceError"
    assert "was lost" in (ledger.view().statuses["a"].error or "")
    placed.deploy("a")
    assert ledger.hosts_of("a") == {"a": at["a"]}
    ledger.settle(answer)

    # The whole host of the other falls silent, its worker daemon too, and is gone later.
    placed.cluster.freeze(at["b"])
    answer = ledger.fail_over()
    assert set(ledger.active().values()) == {"a"}
    placed.lose("b", at["b"])
    placed.add_host("worker-3")
    placed.deploy("b")
    assert ledger.hosts_of("b") == {"b": "worker-3"}
    ledger.settle(answer)

    # A third.
    placed.add_host(at["b"])
    placed.deploy("c")
    assert ledger.hosts_of("c") == {"c": at["b"]}
    ledger.assign(balance=True, timeout_s=START_S)
    assert set(ledger.active().values()) == {"a", "b", "c"}
    assert all(status.state is InstanceState.RUNNING for status in ledger.view().statuses.values())
    ledger.check("a", "b", "c")
