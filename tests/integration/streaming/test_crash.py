"""A worker dies between any two steps of the protocol; the next one ends with every record counted once."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import airflow_provider
from airflow_provider.control.records.task_state import TaskState
from airflow_provider.failpoint import FailPoint
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan
from tests.integration.streaming.application import (
    Application,
    InstancePlans,
    WorkerDiedError,
    WorkerProcess,
    active,
    json_state,
    standby,
    the_only,
)
from tests.integration.streaming.committed import (
    commits,
    group_offset,
    newest_by_key,
    outputs_by_key,
    records_of,
)
from tests.integration.streaming.orders import Order, batches_of, expected_outputs, random_orders, record_batches

# By fail point: how many of the first worker's batches are committed when it dies there.
COMMITTED_BATCHES = {
    "fence.before": 2,
    "fence.done": 2,
    "commit.begun": 2,
    "commit.changes": 2,
    "commit.outputs": 2,
    "commit.record": 2,
    "commit.offsets": 2,
    "commit.done": 3,
    "store.before": 3,
    "store.done": 3,
}


def test_every_fail_point_has_its_crash() -> None:
    sources = (file.read_text() for file in Path(airflow_provider.__file__).parent.rglob("*.py"))
    passed = {name for text in sources for name in re.findall(r"\b(?:hit|fail)\(FailPoint\.([A-Z_]+)\)", text)}

    assert {FailPoint[name] for name in passed} == set(FailPoint) == set(COMMITTED_BATCHES)


class Successor:
    """Who goes on after the crash; `prepare` runs while the first owner still works."""

    name = "i1"
    state_dir: str | None = None
    generation = 3

    def __init__(self, application: Application) -> None:
        self.plans: InstancePlans = application.instance(self.name, state_dir=self.state_dir)
        self.slot: Slot | None = None

    def prepare(self) -> None:
        """Nothing, unless it is a standby."""

    def promote(self) -> tuple[Slot, SlotPlan]:
        plan = self.plans.plan(active(0, self.generation))
        self.slot = self.slot or Slot(plan)
        return self.slot, plan


class SameStore(Successor):
    """A new worker of the same instance, on the store that the dead one left."""


class EmptyStore(Successor):
    """A new worker with nothing: everything is read from the changelog."""

    state_dir = "state-empty"


class WarmStandby(Successor):
    """Another instance that followed the changelog."""

    name = "i2"

    def prepare(self) -> None:
        plan = self.plans.plan(standby(0))
        self.slot = self.slot or Slot(plan)
        assert the_only(self.slot.call(plan, (), False)).lag_records == 0


@pytest.fixture(params=[SameStore, EmptyStore, WarmStandby], ids=["same-store", "empty-store", "warm-standby"])
def successor_kind(request: pytest.FixtureRequest) -> type[Successor]:
    kind: type[Successor] = request.param
    return kind


@pytest.fixture
def successor(successor_kind: type[Successor], application: Application) -> Iterator[Successor]:
    successor = successor_kind(application)
    yield successor
    if successor.slot is not None:
        successor.slot.close()


def die_at(point: str, application: Application, batches: list[list[Order]], successor: Successor) -> None:
    """Run a worker that dies at `point` in its third batch, or when it fences once more before it."""
    count = 2 if point.startswith("fence.") else 3
    plans = application.instance("i1", fail_points=(f"{point}@{count}",))
    worker = WorkerProcess(plans.plan(active(0)))
    try:
        first = plans.plan(active(0))
        assert the_only(worker.call(first, ())).state is TaskState.RUNNING
        for batch in batches[:2]:
            worker.call(first, record_batches((0, batch)))
        successor.prepare()
        if point.startswith("fence."):
            worker.call(plans.plan(standby(0, 2)), ())
            deadly = plans.plan(active(0, 3)), list[pa.RecordBatch]()
        else:
            deadly = first, record_batches((0, batches[2]))
        with pytest.raises(WorkerDiedError):
            worker.call(*deadly)
        assert worker.exit_status == -signal.SIGKILL
    finally:
        worker.kill()


@pytest.mark.parametrize("point", COMMITTED_BATCHES)
def test_each_record_counts_once_when_its_worker_dies(
    point: str, application: Application, successor: Successor, bootstrap_servers: str
) -> None:
    orders = random_orders(seed=len(point), number=200)
    batches = batches_of(orders, 40)
    die_at(point, application, batches, successor)
    done = 40 * COMMITTED_BATCHES[point]

    slot, plan = successor.promote()
    owned = the_only(slot.call(plan, (), False))

    assert owned.state is TaskState.RUNNING
    assert owned.source_offset == orders[done - 1].offset + 1

    # Spark delivers some of it again, and cuts its batches elsewhere.
    for batch in batches_of(orders[done - 50 :], 33):
        slot.call(plan, record_batches((0, batch)), False)
    slot.close()

    changelog = records_of(bootstrap_servers, application.changelog)
    expected = expected_outputs(orders)
    assert outputs_by_key(records_of(bootstrap_servers, str(application.spec.sink_topic))) == expected
    assert successor.plans.stored() == newest_by_key(changelog)
    assert json_state(successor.plans.stored()) == {
        customer: {"count": last["count"], "sum": last["sum"]} for customer, (*_, last) in expected.items()
    }
    last_commit = commits(changelog, 0)[-1]
    next_offset = orders[-1].offset + 1
    assert last_commit["processed"] == len(orders)
    source = application.spec.input.topic
    assert last_commit["sources"] == {source: {"offset": next_offset, "topic_id": application.spec.topic_ids[source]}}
    assert (
        group_offset(bootstrap_servers, application.spec.application_id, application.spec.input.topic, 0) == next_offset
    )
