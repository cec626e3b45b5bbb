"""A worker that may have no more memory, or may open no more files: its task goes to another host, and comes back."""

from __future__ import annotations

import dataclasses
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

from airflow_provider.control.records.status import TaskState, TaskStatus
from airflow_provider.error_decision import is_permanent
from airflow_provider.state.kind import StoreKind
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.operations.process import Process, ValueState
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.worker.slot import Slot
from tests.integration.streaming.application import (
    Application,
    WorkerProcess,
    active,
    standby,
    the_only,
    with_store,
)
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.integration.streaming.orders import (
    Order,
    batches_of,
    expected_outputs,
    random_orders,
    record_batches,
    running_totals,
)
from tests.integration.streaming.test_ownership import sink_of

HUNGRY = 5_000
MIB = 1 << 20


def eat(key: str, rows: list[dict[str, Any]], state: ValueState) -> Iterator[dict[str, Any]]:
    """As `running_totals`; one order needs much memory."""
    if any(row["amount"] == HUNGRY for row in rows):
        bytearray(1024 * MIB)
    yield from running_totals(key, rows, state)


def test_want_of_memory_skips_no_record_and_the_task_goes_on_where_there_is_enough(
    bootstrap_servers: str, application_id: str, tmp_path: Path
) -> None:
    application = Application.create(bootstrap_servers, application_id, tmp_path, Process(eat, ("amount",)))
    spec = dataclasses.replace(application.spec, error_policy=ErrorPolicy(OnError.SKIP))
    application = dataclasses.replace(application, spec=spec)
    first, second = batches_of(random_orders(seed=29, number=80), 40)
    second.append(Order(second[-1].offset + 1, "c1", HUNGRY))
    small, large = application.instance("i1"), application.instance("i2")
    plan = small.plan(active(0))
    worker = WorkerProcess(plan)
    try:
        worker.call(plan, ())
        worker.call(plan, record_batches((0, first)))
        process = psutil.Process(worker.pid)
        most = process.memory_info().vms + 256 * MIB
        process.rlimit(psutil.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        refused = the_only(worker.call(plan, record_batches((0, second))))
        application.settle()
        with closing(Slot(large.plan(active(0, 2)))) as slot:
            slot.call(large.plan(active(0, 2)), (), False)
            done = the_only(slot.call(large.plan(active(0, 2)), record_batches((0, second)), False))
    finally:
        worker.kill()

    assert (refused.state, refused.error_kind) == (TaskState.FAILED, "MemoryError")
    assert not is_permanent(refused.error_kind), "another host may have more"
    assert (done.state, done.failed_records) == (TaskState.RUNNING, 0)
    assert sink_of(application) == expected_outputs([*first, *second])


def test_task_that_may_open_no_more_files_goes_to_its_standby_and_follows_once_it_may(
    application: Application,
) -> None:
    # A store that opens another file every few hundred rows.
    options = RocksDBOptions(block_cache_bytes=4 * MIB, write_buffer_bytes=64 << 10)
    application = dataclasses.replace(application, spec=with_store(application.spec, kind=StoreKind(rocksdb=options)))
    orders = random_orders(seed=31, number=6_000, customers=3_000)
    first, *others = batches_of(orders, 1_000)
    cramped, roomy = application.instance("i1"), application.instance("i2")
    plan = cramped.plan(dataclasses.replace(active(0), has_standbys=True))
    worker = WorkerProcess(plan)
    try:
        worker.call(plan, ())
        worker.call(plan, record_batches((0, first)))
        process = psutil.Process(worker.pid)
        _, hard = before = process.rlimit(psutil.RLIMIT_NOFILE)
        process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds(), hard))
        said: list[TaskStatus] = []
        for rows in others:
            said.append(the_only(worker.call(plan, record_batches((0, rows)))))
            if said[-1].state is not TaskState.RUNNING:
                break
        failed = said[-1]
        with closing(Slot(roomy.plan(active(0, 2)))) as slot:
            owned = the_only(slot.call(roomy.plan(active(0, 2)), (), False))
            left = [order for order in orders if order.offset >= (owned.source_offset or 0)]
            slot.call(roomy.plan(active(0, 2)), record_batches((0, left)), False)
            process.rlimit(psutil.RLIMIT_NOFILE, before)
            application.settle()
            follows = the_only(worker.call(cramped.plan(standby(0, 2)), ()))
        worker.close()
    finally:
        worker.kill()

    assert (failed.state, failed.error_kind) == (TaskState.FAILED, "StateError")
    assert "Too many open files" in str(failed.error)
    assert owned.state is TaskState.RUNNING
    assert (follows.state, follows.lag_records, follows.error) == (TaskState.FOLLOWING, 0, None)
    assert sink_of(application) == expected_outputs(orders)
    changelog = newest_by_key(records_of(application.connection.bootstrap_servers, application.changelog))
    assert cramped.stored() == roomy.stored() == changelog
