"""A replay moves the store aside and restores it from the changelog, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, TaskPlan
from tests.integration.streaming.application import (
    Application,
    InstancePlans,
    WorkerProcess,
    active,
    standby,
    the_only,
)
from tests.integration.streaming.committed import newest_by_key, outputs_by_key, records_of
from tests.integration.streaming.orders import batches_of, expected_outputs, random_orders, record_batches


def with_replay(plan: SlotPlan, replay: str) -> SlotPlan:
    return dataclasses.replace(plan, tasks=tuple(dataclasses.replace(task, replay=replay) for task in plan.tasks))


def test_replayed_active_goes_on_where_it_was_and_a_later_worker_does_not_begin_again(
    application: Application,
) -> None:
    orders = random_orders(seed=21, number=120)
    first, second, third = batches_of(orders, 40)
    plans = application.instance("i1")
    plan = plans.plan(active(0))
    asked = with_replay(plan, "replay-1")
    worker = WorkerProcess(plan)
    later = WorkerProcess(plan)
    try:
        worker.call(plan, ())
        worker.call(plan, record_batches((0, first)))
        replayed = the_only(worker.call(asked, ()))
        worker.call(asked, record_batches((0, second)))
        worker.kill()
        resumed = the_only(later.call(asked, ()))
        later.call(asked, record_batches((0, third)))
        later.close()
    finally:
        worker.kill()
        later.kill()

    assert replayed.state is resumed.state is TaskState.RUNNING
    assert replayed.restore.records > 0
    assert resumed.restore.records == 0
    assert replayed.source_offset == first[-1].offset + 1
    assert resumed.source_offset == second[-1].offset + 1
    bootstrap_servers = application.connection.bootstrap_servers
    assert outputs_by_key(records_of(bootstrap_servers, str(application.spec.sink_topic))) == expected_outputs(orders)
    assert plans.stored() == newest_by_key(records_of(bootstrap_servers, application.changelog))
    assert len(plans.quarantined) == 1


@pytest.mark.parametrize("kind", [active, standby], ids=["active", "standby"])
def test_each_replay_is_obeyed_once(kind: Callable[[int], TaskPlan], application: Application) -> None:
    plans: InstancePlans = application.instance("i1")
    plan = plans.plan(kind(0))
    worker = WorkerProcess(plan)
    try:
        # Of a store that nobody holds yet, too.
        for replay in ("replay-1", "replay-1", "replay-2", "replay-2"):
            status = the_only(worker.call(with_replay(plan, replay), ()))
            assert status.error is None
            assert status.lag_records == 0
        worker.close()
    finally:
        worker.kill()

    assert len(plans.quarantined) == 1
