"""Every copy of a task is lost, at once or one after the other; the changelog alone brings it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.worker.tasks.plan import SlotPlan
from tests.integration.streaming.application import Application, WorkerProcess, active, standby, the_only
from tests.integration.streaming.committed import accumulators, newest_by_key, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches
from tests.integration.streaming.test_ownership import sink_of
from tests.waiting import wait_until


class Workers:
    """Processes that a test can kill; none outlives it."""

    def __init__(self) -> None:
        self._started: list[WorkerProcess] = []

    def start(self, plan: SlotPlan) -> WorkerProcess:
        self._started.append(WorkerProcess(plan))
        return self._started[-1]

    def kill_all(self) -> None:
        for worker in self._started:
            worker.kill()


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.kill_all()


@pytest.mark.parametrize("at_once", [True, False], ids=["at-once", "one-after-the-other"])
def test_lost_active_and_standby_are_replayed_from_the_changelog(
    at_once: bool, application: Application, workers: Workers
) -> None:
    orders = random_orders(seed=61, number=200)
    first, second, third, fourth, fifth = batches_of(orders, 40)
    one, two, three = (application.instance(name) for name in ("i1", "i2", "i3"))
    owner, follower = workers.start(one.plan(active(0))), workers.start(two.plan(standby(0)))
    owner.call(one.plan(active(0)), ())
    for rows in (first, second):
        owner.call(one.plan(active(0)), record_batches((0, rows)))
    application.settle()
    assert the_only(follower.call(two.plan(standby(0)), ())).warm

    owner.kill()
    if not at_once:
        promoted = two.plan(active(0, 2))
        assert the_only(follower.call(promoted, ())).state is TaskState.RUNNING
        follower.call(promoted, record_batches((0, third)))
    follower.kill()
    done = 80 if at_once else 120

    last = three.plan(active(0, 3))
    heir = workers.start(last)
    restored = the_only(heir.call(last, ()))
    assert (restored.state, restored.source_offset) == (TaskState.RUNNING, orders[done - 1].offset + 1)
    for rows in (third, fourth, fifth):
        heir.call(last, record_batches((0, rows)))
    heir.close()

    assert sink_of(application) == expected_outputs(orders)
    changelog = records_of(application.connection.bootstrap_servers, application.changelog)
    assert three.stored() == newest_by_key(changelog)


def test_replacement_that_is_lost_while_it_restores_is_replaced_again(
    bootstrap_servers: str, application_id: str, tmp_path: Path, workers: Workers
) -> None:
    aggregation = Aggregation((F.sum("amount").alias("sum"),))
    application = Application.create(bootstrap_servers, application_id, tmp_path, aggregation)
    # More than one reading's worth of changes, so that a restore can be met in its middle.
    orders = random_orders(seed=67, number=40_000, customers=30_000)
    one, two = application.instance("i1"), application.instance("i2")
    plan = one.plan(active(0))
    owner = workers.start(plan)
    owner.call(plan, ())
    for rows in batches_of(orders[:30_000], 10_000):
        owner.call(plan, record_batches((0, rows)))
    owner.kill()
    application.settle()

    begun = two.plan(active(0, 2), budget_s=0.0)
    replacement = workers.start(begun)
    steps: list[TaskStatus] = []

    def in_the_middle() -> bool:
        steps.append(the_only(replacement.call(begun, ())))
        return bool(steps[-1].restore.records)

    wait_until(in_the_middle, 30, "the restore to begin")
    assert steps[-1].state is TaskState.RESTORING, "it was over too soon"
    replacement.kill()

    heir_plan = two.plan(active(0, 2))
    heir = workers.start(heir_plan)
    restored = the_only(heir.call(heir_plan, ()))
    assert (restored.state, restored.source_offset) == (TaskState.RUNNING, orders[29_999].offset + 1)
    heir.call(heir_plan, record_batches((0, orders[30_000:])))
    heir.close()

    totals: dict[bytes, int] = {}
    for order in orders:
        key = str(order.customer).encode()
        totals[key] = totals.get(key, 0) + order.amount
    stored = two.stored()
    assert {key: accumulators(row, 1)[0] for key, row in stored.items()} == totals
    assert stored == newest_by_key(records_of(bootstrap_servers, application.changelog))
