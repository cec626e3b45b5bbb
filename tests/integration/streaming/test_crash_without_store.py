"""A worker of a stage without a store dies between any two steps; every row goes on to the next stage exactly once."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.kafka.names import commits_topic
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import commits_spec
from airflow_provider.streaming.operations.repartition import Repartition
from tests.integration.streaming.application import Application, the_only, with_store
from tests.integration.streaming.committed import commits, outputs_by_key, records_of
from tests.integration.streaming.orders import batches_of, random_orders, record_batches
from tests.integration.streaming.test_crash import (
    COMMITTED_BATCHES,
    EmptyStore,
    SameStore,
    Successor,
    WarmStandby,
    die_at,
)

pytestmark = pytest.mark.long


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    """One task, which sends the amount of every order on under its customer."""
    plain = Application.create(bootstrap_servers, application_id, tmp_path, Repartition(("amount",)))
    admin, topic = TopicAdmin(plain.connection), commits_topic(application_id, 0)
    admin.ensure([commits_spec(application_id, 0, 1)])
    spec = with_store(plain.spec, name="commits", changelog=topic)
    ids = admin.ids([topic, spec.input.topic])
    return dataclasses.replace(plain, spec=dataclasses.replace(spec, keeps_state=False, topic_ids=ids))


@pytest.fixture(params=[SameStore, EmptyStore, WarmStandby], ids=["same-store", "empty-store", "warm-standby"])
def successor(request: pytest.FixtureRequest, application: Application) -> Iterator[Successor]:
    successor = request.param(application)
    yield successor
    if successor.slot is not None:
        successor.slot.close()


@pytest.mark.parametrize("point", COMMITTED_BATCHES)
def test_each_row_goes_on_once_when_its_worker_dies(
    point: str, application: Application, successor: Successor, bootstrap_servers: str
) -> None:
    orders = random_orders(seed=len(point), number=200)
    die_at(point, application, batches_of(orders, 40), successor)

    slot, plan = successor.promote()
    owned = the_only(slot.call(plan, (), False))

    done = 40 * COMMITTED_BATCHES[point]
    assert (owned.state, owned.source_offset) == (TaskState.RUNNING, orders[done - 1].offset + 1)
    for batch in batches_of(orders[done - 50 :], 33):
        slot.call(plan, record_batches((0, batch)), False)
    slot.close()

    expected = defaultdict(list)
    for order in orders:
        expected[str(order.customer)].append({"amount": order.amount})
    assert outputs_by_key(records_of(bootstrap_servers, str(application.spec.sink_topic))) == expected
    assert successor.plans.stored() == {}
    last = commits(records_of(bootstrap_servers, application.changelog), 0)[-1]
    assert (last["processed"], last["digests"]) == (len(orders), {"commits": "0" * 16})
