"""Input that cannot be processed stops its own task, as of its last commit, and no other."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.errors import DecodeError, ProcessError, RecordError
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.state.position import RESERVED_PREFIX
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregation
from airflow_provider.streaming.operations.operation import Operation
from airflow_provider.streaming.operations.process import Process, ValueState
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import Application, active, json_state, with_store
from tests.integration.streaming.committed import commits, newest_by_key, outputs_by_key, records_of
from tests.integration.streaming.orders import (
    Order,
    batches_of,
    expected_outputs,
    random_orders,
    record_batches,
    running_totals,
    table,
)

POISON = 666_666


def refusing_poison(key: str, rows: list[dict[str, Any]], state: ValueState) -> list[dict[str, Any]]:
    if any(row["amount"] == POISON for row in rows):
        raise ValueError("poison")
    return list(running_totals(key, rows, state))


def by_task(statuses: tuple[TaskStatus, ...]) -> dict[int, TaskStatus]:
    assert len({status.task for status in statuses}) == len(statuses), "a task is reported twice"
    return {status.task.partition: status for status in statuses}


@pytest.fixture
def two_tasks(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    operation = Process(refusing_poison, ("amount",))
    return Application.create(bootstrap_servers, application_id, tmp_path, operation, num_tasks=2)


def undecodable(order: Order) -> Order:
    return dataclasses.replace(order, corrupt=True)


def without_key(order: Order) -> Order:
    return dataclasses.replace(order, customer=None)


def poisoned(order: Order) -> Order:
    return dataclasses.replace(order, amount=POISON)


BAD_RECORDS = [
    pytest.param(undecodable, DecodeError, id="undecodable-value"),
    pytest.param(without_key, RecordError, id="null-key"),
    pytest.param(poisoned, ProcessError, id="function-raises"),
]


@pytest.mark.parametrize(("spoil", "kind"), BAD_RECORDS)
def test_bad_record_fails_its_task_as_of_its_last_commit_while_others_go_on(
    spoil: Callable[[Order], Order], kind: type[RecordError], two_tasks: Application
) -> None:
    bad_task = random_orders(seed=1, number=80, customers=4, prefix="bad")
    good_task = random_orders(seed=2, number=80, customers=4, prefix="good")
    (bad_first, bad_second), (good_first, good_second) = batches_of(bad_task, 40), batches_of(good_task, 40)
    spoilt = [*bad_second[:7], spoil(bad_second[7]), *bad_second[8:]]
    plans = two_tasks.instance("i1")
    plan = plans.plan(active(0), active(1))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, bad_first), (1, good_first)), False)
        failed = by_task(slot.call(plan, record_batches((0, spoilt), (1, good_second)), False))
        ignored = by_task(slot.call(plan, record_batches((0, bad_second)), False))

        assert failed[0].state is ignored[0].state is TaskState.FAILED
        assert failed[0].error_kind == kind.__name__
        # A function gets all rows of its key at once, so its error names the first of them.
        of_key = next(o for o in bad_second if o.customer == bad_second[7].customer)
        named = of_key if kind is ProcessError else bad_second[7]
        key = None if spoil is without_key else bad_second[7].customer
        reported = str(failed[0].error)
        assert f"{two_tasks.spec.input.topic}[0] at offset {named.offset}, key {key!r}" in reported
        assert failed[0].source_offset == bad_first[-1].offset + 1
        assert (failed[1].state, failed[1].error) == (TaskState.RUNNING, None)

        # Repaired and assigned again, it goes on where it stopped.
        mended = plans.plan(active(0, 2), active(1))
        again = by_task(slot.call(mended, (), False))
        slot.call(mended, record_batches((0, bad_second)), False)
        assert (again[0].state, again[0].error) == (TaskState.RUNNING, None)

    bootstrap_servers = two_tasks.connection.bootstrap_servers
    outputs = outputs_by_key(records_of(bootstrap_servers, str(two_tasks.spec.sink_topic)))
    assert outputs == expected_outputs(bad_task) | expected_outputs(good_task)
    changelog = records_of(bootstrap_servers, two_tasks.changelog)
    assert [c["generation"] for c in commits(changelog, 0)] == [1, 2]
    for task in (0, 1):
        assert plans.stored(task) == newest_by_key(changelog, task)


def test_bad_record_raises_while_spark_would_try_again(two_tasks: Application) -> None:
    orders = random_orders(seed=3, number=40)
    spoilt = [*orders[:7], undecodable(orders[7]), *orders[8:]]
    plans = two_tasks.instance("i1")
    plan = plans.plan(active(0))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), True)
        with pytest.raises(DecodeError) as raised:
            slot.call(plan, record_batches((0, spoilt)), True)
        # Perhaps the first attempt had a bad read: the second does it.
        assert by_task(slot.call(plan, record_batches((0, orders)), True))[0].state is TaskState.RUNNING

    assert (raised.value.topic, raised.value.partition) == (two_tasks.spec.input.topic, 0)
    assert (raised.value.offset, raised.value.key) == (orders[7].offset, orders[7].customer)
    sink = records_of(two_tasks.connection.bootstrap_servers, str(two_tasks.spec.sink_topic))
    assert outputs_by_key(sink) == expected_outputs(orders)


def with_column(name: str, values: pa.Array) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.set_column(rows.schema.get_field_index(name), name, values)


def keys_of(key: bytes) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: with_column("__key", pa.array([key] * rows.num_rows, pa.binary()))(rows)


def amounts_as(kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: with_column("amount", rows.column("amount").cast(kind))(rows)


SUM = Aggregation((F.sum("amount").alias("sum"),))
TWO_SUMS = Aggregation((F.sum("amount").alias("sum"), F.max("amount").alias("max")))
TOTALS = Process(running_totals, ("amount",))


@pytest.mark.parametrize(
    ("before", "after", "spoil", "kind"),
    [
        pytest.param(SUM, SUM, keys_of(RESERVED_PREFIX + b"x"), "RecordError", id="reserved-key"),
        pytest.param(SUM, SUM, keys_of(b"caf\xe9"), "RecordError", id="key-that-is-no-text"),
        pytest.param(SUM, SUM, amounts_as(pa.string()), "ConfigurationError", id="sum-of-a-text"),
        pytest.param(SUM, TWO_SUMS, None, "ConfigurationError", id="state-of-other-aggregates"),
        pytest.param(SUM, TOTALS, None, "ConfigurationError", id="state-of-an-aggregation-for-a-function"),
        pytest.param(TOTALS, SUM, None, "ConfigurationError", id="state-of-a-function-for-an-aggregation"),
    ],
)
def test_what_no_further_attempt_mends_fails_the_task_while_others_go_on(
    before: Operation,
    after: Operation,
    spoil: Callable[[pa.Table], pa.Table] | None,
    kind: str,
    bootstrap_servers: str,
    application_id: str,
    tmp_path: Path,
) -> None:
    application = Application.create(bootstrap_servers, application_id, tmp_path, before, num_tasks=2)
    changed = dataclasses.replace(application, spec=dataclasses.replace(application.spec, operation=after))
    first, second = batches_of(random_orders(seed=4, number=80, customers=4), 40)
    others = random_orders(seed=5, number=40, customers=4)
    plans = application.instance("i1")
    plan = plans.plan(active(0), active(1))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        slot.call(plan, record_batches((0, first)), False)
    plan = changed.instance("i1").plan(active(0), active(1))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        bad = table((0, second)) if spoil is None else spoil(table((0, second)))
        failed = by_task(slot.call(plan, bad.to_batches(), False))[0]
        statuses = by_task(slot.call(plan, record_batches((0, second), (1, others)), False))

        assert (failed.state, failed.error_kind) == (TaskState.FAILED, kind)
        assert failed.source_offset == first[-1].offset + 1
        assert statuses[0].state is TaskState.FAILED
        assert statuses[1].state is TaskState.RUNNING
        assert statuses[1].source_offset == others[-1].offset + 1

    stored = plans.stored(0)
    assert stored == newest_by_key(records_of(bootstrap_servers, application.changelog), 0)
    assert len(stored) == len({order.customer for order in first})


def test_owning_that_fails_is_reported_once_and_spares_other_tasks(two_tasks: Application) -> None:
    # More than the brokers allow: refused when the task is owned, after its store was opened.
    impatient = dataclasses.replace(two_tasks.spec, transaction_timeout_ms=2**31 - 1)
    plans = dataclasses.replace(two_tasks, spec=impatient).instance("i1")
    with closing(Slot(plans.plan(active(0)))) as slot:
        statuses = by_task(slot.call(plans.plan(active(0)), (), False))

    # No other owner could do it either: the task waits for a person.
    assert statuses[0].state is TaskState.FAILED
    assert statuses[0].error_kind == "ConfigurationError"
    assert "INVALID_TRANSACTION_TIMEOUT" in str(statuses[0].error)


def test_missing_changelog_is_reported_by_every_task(two_tasks: Application) -> None:
    missing = changelog_topic(two_tasks.spec.application_id, "other")
    elsewhere = with_store(two_tasks.spec, name="other", changelog=missing)
    plans = dataclasses.replace(two_tasks, spec=elsewhere).instance("i1")
    plan = plans.plan(active(0), active(1))
    with closing(Slot(plan)) as slot:
        statuses = by_task(slot.call(plan, (), False))

    assert {status.error_kind for status in statuses.values()} == {"TopicMissingError"}
    assert all(json_state(plans.stored(task)) == {} for task in (0, 1))


def test_rows_that_a_restoring_task_could_not_take_end_its_query(
    bootstrap_servers: str, application_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The driver goes on with a query as long as its tasks are reported to be running: it must not, after rows were
    # skipped, even though the task is restored a moment later. The one look before the rows finds nothing yet.
    monkeypatch.setattr("airflow_provider.streaming.worker.step.batch_processor._CATCH_UP_S", 0.0)
    application = Application.create(bootstrap_servers, application_id, tmp_path)
    orders = random_orders(seed=6, number=120)
    first, second, third = batches_of(orders, 40)
    old = application.instance("i1")
    with closing(Slot(old.plan(active(0)))) as slot:
        slot.call(old.plan(active(0)), (), False)
        slot.call(old.plan(active(0)), record_batches((0, first)), False)
    read, looks = ChangelogReader.read, itertools.count()
    monkeypatch.setattr(ChangelogReader, "read", lambda *args: read(*args) if next(looks) > 0 else {})
    new = application.instance("i2")
    plan = new.plan(active(0, 2))
    with closing(Slot(plan)) as slot:
        skipped = by_task(slot.call(plan, record_batches((0, second)), False))[0]
        assert skipped.state is not TaskState.RUNNING

        running = by_task(slot.call(plan, (), False))[0]
        assert running.state is TaskState.RUNNING
        assert running.source_offset == first[-1].offset + 1
        slot.call(plan, record_batches((0, second)), False)
        slot.call(plan, record_batches((0, third)), False)

    sink = records_of(bootstrap_servers, str(application.spec.sink_topic))
    assert outputs_by_key(sink) == expected_outputs(orders)


def test_rows_of_a_task_outside_the_call_are_left_alone(two_tasks: Application) -> None:
    orders = random_orders(seed=7, number=40)
    plans = two_tasks.instance("i1")
    plan = plans.plan(active(0), active(1))
    with closing(Slot(plan)) as slot:
        slot.call(plan, (), False)
        only_second = dataclasses.replace(plan, rows_of={TaskId(0, 1): None})
        statuses = by_task(slot.call(only_second, record_batches((0, orders), (1, orders)), False))

    assert statuses[0].source_offset is None
    assert statuses[1].source_offset == orders[-1].offset + 1
    changelog = records_of(two_tasks.connection.bootstrap_servers, two_tasks.changelog)
    assert len(commits(changelog, 0)) == 0
    assert commits(changelog, 1)[-1]["processed"] == 40
