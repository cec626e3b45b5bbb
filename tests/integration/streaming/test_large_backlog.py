"""A backlog that is larger than what an instance's JVM may have in memory is read in pieces, on a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider.control.records.status import InstanceState, TaskState
from tests.integration.streaming.accounts import Accounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parent / "counting_job.py"
DEADLINE_S = 240.0
"""Of one step, on a machine that runs other tests of Spark as well."""

RECORD_BYTES, RECORDS = 900_000, 120
DIRECT_BYTES = 192 << 20
"""What the JVM may have outside of its heap, where rows wait for the worker: less than the backlog."""


@pytest.fixture
def accounts(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Accounts]:
    accounts = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=2, seed=3)
    yield accounts
    accounts.close()


def test_backlog_of_large_records_ends_no_instance_with_little_memory(accounts: Accounts) -> None:
    assert accounts.num_tasks * RECORDS * RECORD_BYTES > DIRECT_BYTES
    producer = Producer({"bootstrap.servers": accounts.connection.bootstrap_servers})
    value = b'{"account": "ann", "amount": 1, "note": "%s"}' % (b"x" * RECORD_BYTES)
    for partition in range(accounts.num_tasks):
        for _ in range(RECORDS):
            producer.produce(accounts.orders.topic, value, b"ann", partition=partition)
            producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0

    accounts.job = ("--driver-java-options", f"-XX:MaxDirectMemorySize={DIRECT_BYTES}", str(JOB), accounts.id, "fail")
    accounts.launch("i1", "local[1]")
    accounts.wait(lambda: accounts.runs("i1"), "i1 to run", DEADLINE_S)
    accounts.assign("i1", "i1")

    def ended_or_done() -> bool:
        status = accounts.status("i1")
        return not status.state.alive or [task.source_offset for task in status.tasks] == [RECORDS] * accounts.num_tasks

    accounts.wait(ended_or_done, "all to be counted", DEADLINE_S)
    status = accounts.status("i1")
    assert (status.state, status.error) == (InstanceState.RUNNING, None)
    assert [(task.state, task.error) for task in status.tasks] == [(TaskState.RUNNING, None)] * accounts.num_tasks
