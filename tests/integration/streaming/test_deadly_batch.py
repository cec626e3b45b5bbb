"""A batch that ends its worker, again and again: its task fails with a clear error, the others of the slot go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.streaming.operations.process import Process, ValueState
from tests.integration.streaming.application import Application, WorkerDiedError, WorkerProcess, active
from tests.integration.streaming.committed import newest_by_key, records_of
from tests.integration.streaming.orders import Order, batches_of, random_orders, record_batches, running_totals

DEADLY = -1


def crash_on_deadly(key: str, rows: list[dict[str, Any]], state: ValueState) -> Iterator[dict[str, Any]]:
    """As a library does that is not Python."""
    if any(row["amount"] == DEADLY for row in rows):
        os.kill(os.getpid(), signal.SIGKILL)
    yield from running_totals(key, rows, state)


def test_batch_that_ends_its_worker_again_and_again_fails_its_task_and_no_other(
    bootstrap_servers: str, application_id: str, tmp_path: Path
) -> None:
    operation = Process(crash_on_deadly, ("amount",))
    application = Application.create(bootstrap_servers, application_id, tmp_path, operation, num_tasks=2)
    orders = random_orders(seed=23, number=120)
    first, second, third = batches_of(orders, 40)
    deadly = Order(second[-1].offset + 1, "c1", DEADLY)
    plans = application.instance("i1")
    plan = plans.plan(active(0), active(1))
    workers: list[WorkerProcess] = []

    def next_worker() -> WorkerProcess:
        workers.append(WorkerProcess(plan))
        workers[-1].call(plan, ())
        return workers[-1]

    try:
        worker = next_worker()
        worker.call(plan, record_batches((0, first), (1, first)))
        crashes = 0
        while True:
            try:
                spoilt, good = worker.call(plan, record_batches((0, [*second, deadly]), (1, second)))
                break
            except WorkerDiedError:
                crashes += 1
                assert worker.exit_status == -signal.SIGKILL
                assert crashes <= 3, "it would go on without end"
                worker = next_worker()
        spoilt, good = worker.call(plan, record_batches((1, third)))
        worker.close()
    finally:
        for each in workers:
            each.kill()

    assert crashes == 3
    assert (spoilt.state, spoilt.error_kind) == (TaskState.FAILED, "WorkerError")
    assert f"that begins at offset {first[-1].offset + 1}" in str(spoilt.error)
    assert (good.state, good.source_offset) == (TaskState.RUNNING, third[-1].offset + 1)
    changelog = records_of(bootstrap_servers, application.changelog)
    for task in (0, 1):
        assert plans.stored(task) == newest_by_key(changelog, task)
