"""One task passes between owners; whatever they believe, each record counts once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import (
    Application,
    InstancePlans,
    WorkerProcess,
    active,
    json_state,
    standby,
    the_only,
)
from tests.integration.streaming.committed import accumulators, commits, newest_by_key, outputs_by_key, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.waiting import wait_until


def sink_of(application: Application) -> dict[str, list[dict[str, Any]]]:
    return outputs_by_key(records_of(application.connection.bootstrap_servers, str(application.spec.sink_topic)))


def log_inode(plans: InstancePlans) -> int:
    """RocksDB begins another LOG each time that a store is opened."""
    return (plans.directory.database(TaskId(0, 0)) / "LOG").stat().st_ino


def test_fenced_owner_writes_nothing_and_gives_the_task_up(application: Application) -> None:
    orders = random_orders(seed=1, number=120)
    before, after, last = batches_of(orders, 40)
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as zombie, closing(Slot(new.plan(active(0, 2)))) as owner:
        zombie.call(old.plan(active(0)), (), False)
        zombie.call(old.plan(active(0)), record_batches((0, before)), False)
        owner.call(new.plan(active(0, 2)), (), False)

        fenced = the_only(zombie.call(old.plan(active(0)), record_batches((0, after)), False))
        still = the_only(zombie.call(old.plan(active(0)), record_batches((0, last)), False))
        owner.call(new.plan(active(0, 2)), record_batches((0, after)), False)
        owner.call(new.plan(active(0, 2)), record_batches((0, last)), False)
        application.settle()
        follower = the_only(zombie.call(old.plan(standby(0, 2)), (), False))

    assert (fenced.state, fenced.error_kind) == (TaskState.CLOSED, "FencedError")
    assert still.state is TaskState.CLOSED
    assert (follower.state, follower.lag_records, follower.error) == (TaskState.FOLLOWING, 0, None)
    assert sink_of(application) == expected_outputs(orders)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert [c["instance"] for c in commits(changelog, 0)] == ["i1", "i2", "i2"]
    assert old.stored() == new.stored() == newest_by_key(changelog)


def test_owner_processes_nothing_while_a_transaction_of_another_program_hides_commits(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.streaming.worker.standby.changelog_follower._OPEN_TRANSACTION_S", -1.0)
    orders = random_orders(seed=3, number=80)
    before, after = batches_of(orders, 40)
    other = Producer(
        {
            "bootstrap.servers": application.connection.bootstrap_servers,
            "transactional.id": f"{application.spec.application_id}-of-another-program",
        }
    )
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as slot:
        slot.call(old.plan(active(0)), (), False)
        slot.call(old.plan(active(0)), record_batches((0, before)), False)
        application.settle()
        other.init_transactions(30)
        other.begin_transaction()
        other.produce(application.changelog, b"theirs", b"1", partition=0)
        assert other.flush(30) == 0
        slot.call(old.plan(active(0)), record_batches((0, after)), False)

    with closing(Slot(new.plan(active(0, 2)))) as slot:
        blocked = the_only(slot.call(new.plan(active(0, 2)), (), False))
        other.abort_transaction(30)
        wait_until(
            lambda: the_only(slot.call(new.plan(active(0, 2)), (), False)).state is TaskState.RUNNING, 30, "its turn"
        )
        slot.call(new.plan(active(0, 2)), record_batches((0, orders)), False)

    assert (blocked.state, blocked.error_kind) == (TaskState.OWNING, "TopicBlockedError")
    assert f"--topic {application.changelog} --partition 0" in str(blocked.error)
    assert sink_of(application) == expected_outputs(orders)


def test_owners_that_take_turns_count_each_record_once(
    bootstrap_servers: str, application_id: str, tmp_path: Path
) -> None:
    aggregation = Aggregation((F.count().alias("count"), F.sum("amount").alias("sum"), F.last("amount").alias("last")))
    application = Application.create(bootstrap_servers, application_id, tmp_path, aggregation)
    orders = random_orders(seed=2, number=240)
    plans = [application.instance("i1"), application.instance("i2")]
    with closing(Slot(plans[0].plan(standby(0)))) as one, closing(Slot(plans[1].plan(standby(0)))) as two:
        for generation, batch in enumerate(batches_of(orders, 40), start=1):
            mine, theirs = generation % 2, (generation + 1) % 2
            slots = (one, two)
            owned = the_only(slots[mine].call(plans[mine].plan(active(0, generation)), (), False))
            assert (owned.state, owned.generation) == (TaskState.RUNNING, generation)
            # The one before learns of it late: it still believes in its own generation.
            overlap = orders[max(0, orders.index(batch[0]) - 15) : orders.index(batch[-1]) + 1]
            slots[mine].call(plans[mine].plan(active(0, generation)), record_batches((0, overlap)), False)
            application.settle()
            slots[theirs].call(plans[theirs].plan(standby(0, generation)), (), False)

    changelog = records_of(bootstrap_servers, application.changelog)
    expected = expected_outputs(orders)
    stored = plans[0].stored()
    assert stored == plans[1].stored() == newest_by_key(changelog)
    assert {key.decode(): accumulators(row, 3)[:2] for key, row in stored.items()} == {
        customer: (last["count"], last["sum"]) for customer, (*_, last) in expected.items()
    }
    assert [c["generation"] for c in commits(changelog, 0)] == [1, 2, 3, 4, 5, 6]
    # Once a key and batch, never a count twice.
    for customer, outputs in sink_of(application).items():
        counts = [output["count"] for output in outputs]
        assert counts == sorted(set(counts))
        assert outputs[-1]["sum"] == expected[customer][-1]["sum"]


def test_owner_that_missed_the_generations_between_owns_again(application: Application) -> None:
    orders = random_orders(seed=3, number=120)
    mine, theirs, again = batches_of(orders, 40)
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as first, closing(Slot(new.plan(active(0, 2)))) as second:
        first.call(old.plan(active(0)), (), False)
        first.call(old.plan(active(0)), record_batches((0, mine)), False)
        second.call(new.plan(active(0, 2)), (), False)
        second.call(new.plan(active(0, 2)), record_batches((0, theirs)), False)

        owned = the_only(first.call(old.plan(active(0, 3)), (), False))
        first.call(old.plan(active(0, 3)), record_batches((0, again)), False)

    assert (owned.state, owned.error) == (TaskState.RUNNING, None)
    assert owned.source_offset == theirs[-1].offset + 1
    assert sink_of(application) == expected_outputs(orders)


def test_promoted_standby_keeps_its_store_open(application: Application) -> None:
    orders = random_orders(seed=4, number=80)
    first, second = batches_of(orders, 40)
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as owner, closing(Slot(new.plan(standby(0)))) as follower:
        owner.call(old.plan(active(0)), (), False)
        owner.call(old.plan(active(0)), record_batches((0, first)), False)
        application.settle()
        warm = the_only(follower.call(new.plan(standby(0)), (), False))
        opened = log_inode(new)
        promoted = the_only(follower.call(new.plan(active(0, 2)), (), False))
        follower.call(new.plan(active(0, 2)), record_batches((0, second)), False)

        assert warm.warm
        assert promoted.state is TaskState.RUNNING
        assert promoted.restore.records == 0, "nothing had to be read again"
        assert log_inode(new) == opened
    assert sink_of(application) == expected_outputs(orders)


def test_demoted_owner_follows_the_next_with_its_store_open(application: Application) -> None:
    orders = random_orders(seed=5, number=80)
    first, second = batches_of(orders, 40)
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as demoted, closing(Slot(new.plan(active(0, 2)))) as owner:
        demoted.call(old.plan(active(0)), (), False)
        demoted.call(old.plan(active(0)), record_batches((0, first)), False)
        opened = log_inode(old)
        demoted.call(old.plan(standby(0, 2)), (), False)
        owner.call(new.plan(active(0, 2)), (), False)
        owner.call(new.plan(active(0, 2)), record_batches((0, second)), False)
        application.settle()
        behind = the_only(demoted.call(old.plan(standby(0, 2)), (), False))

        assert (behind.state, behind.lag_records) == (TaskState.FOLLOWING, 0)
        assert behind.source_offset == second[-1].offset + 1
        assert log_inode(old) == opened
    assert old.stored() == new.stored()


def test_task_that_is_not_in_the_plan_is_let_go(application: Application) -> None:
    plans = application.instance("i1")
    with closing(Slot(plans.plan(active(0)))) as slot:
        slot.call(plans.plan(active(0)), (), False)

        assert slot.call(plans.plan(), (), False) == ()
        assert plans.stored() == {}


def test_standby_that_reads_in_small_steps_tells_how_far_it_is_behind(
    bootstrap_servers: str, application_id: str, tmp_path: Path
) -> None:
    aggregation = Aggregation((F.sum("amount").alias("sum"),))
    application = Application.create(bootstrap_servers, application_id, tmp_path, aggregation)
    orders = random_orders(seed=6, number=25_000, customers=25_000)
    old, new = application.instance("i1"), application.instance("i2")
    with closing(Slot(old.plan(active(0)))) as owner, closing(Slot(new.plan(standby(0)))) as follower:
        owner.call(old.plan(active(0)), (), False)
        assert the_only(follower.call(new.plan(standby(0)), (), False)).lag_records == 0
        owner.call(old.plan(active(0)), record_batches((0, orders)), False)
        changes = len({order.customer for order in orders})

        steps: list[TaskStatus] = []

        def followed() -> bool:
            steps.append(the_only(follower.call(new.plan(standby(0), budget_s=0.0), (), False)))
            return (steps[-1].position or 0) > changes

        wait_until(followed, 30, "the standby to follow")

    moved = [step for step in steps if step.position]
    assert len(moved) > 1, "the steps were not small"
    assert all((step.lag_records or 0) >= changes - (step.position or 0) for step in moved)
    assert moved[-1].lag_records == 0
    assert old.stored() == new.stored()


def test_store_is_handed_over_between_workers_of_one_host(application: Application) -> None:
    orders = random_orders(seed=7, number=160)
    plans = application.instance("i1")
    plan = plans.plan(active(0))
    workers = [WorkerProcess(plan), WorkerProcess(plan)]
    try:
        for number, batch in enumerate(batches_of(orders, 40)):
            worker = workers[number % 2]
            assert the_only(worker.call(plan, ())).state is TaskState.RUNNING
            worker.call(plan, record_batches((0, batch)))
        # A dead holder cannot be asked, and need not be.
        workers[1].kill()
        assert the_only(workers[0].call(plan, ())).state is TaskState.RUNNING
        workers[0].close()
    finally:
        for worker in workers:
            worker.kill()

    assert sink_of(application) == expected_outputs(orders)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert plans.stored() == newest_by_key(changelog)
    assert json_state(plans.stored()) == {
        customer: {"count": last["count"], "sum": last["sum"]}
        for customer, (*_, last) in expected_outputs(orders).items()
    }
