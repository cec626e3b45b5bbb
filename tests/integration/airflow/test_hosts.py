"""Three instances on three hosts, under load, for each placement: one host is lost whole, and comes back.

That of a worker's is behind TLS, with a login and with no more rights than the page lists.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.control.hosts import tasks_on_one_host
from airflow_provider.control.rights import Role
from airflow_provider.control.status import InstanceState
from airflow_provider.kafka.connection import KafkaConnection
from tests.integration.airflow.deployed_ledger import INPUT, LETTERS, OUTPUT, Ledger, Start, on_broker
from tests.integration.airflow.placed_hosts import (
    APPLICATION,
    SPARK_SECRET,
    START_S,
    OnCluster,
    OnFullCluster,
    OnWorkers,
    Supervised,
)
from tests.integration.guarded_broker import GuardedBroker
from tests.integration.secured_broker import SecuredBroker
from tests.secret_scan import arguments_with
from tests.spark_cluster import needs_namespaces


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
