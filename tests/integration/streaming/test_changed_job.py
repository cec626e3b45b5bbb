"""A changed job is deployed over the state of the one before, on a real Spark."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.status import InstanceState, TaskState
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import commits, records_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parent / "changing_job.py"


@pytest.fixture
def accounts(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Accounts]:
    accounts = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=1, seed=9)
    yield accounts
    accounts.close()


def deploy(accounts: Accounts, version: str) -> None:
    """In the place of the version that runs, over its state."""
    if accounts.runs("i1"):
        accounts.signal("i1", signal.SIGKILL)
        accounts.wait_for_state("i1", InstanceState.ENDED)
    accounts.job = (str(JOB), accounts.id, version)
    accounts.launch("i1", "local[1]")
    accounts.wait(lambda: accounts.runs("i1"), f"the version {version} to run", 120)
    accounts.assign("i1")


def outputs(accounts: Accounts) -> list[dict[str, Any]]:
    servers = accounts.connection.bootstrap_servers
    return [json.loads(record.value or b"null") for record in records_of(servers, accounts.totals)]


def buy(accounts: Accounts, amount: int) -> dict[str, Any]:
    """The output of one order."""
    before = len(outputs(accounts))
    accounts.orders.write_raw(0, b"ann", json.dumps({"account": "ann", "amount": amount}).encode())
    accounts.wait(lambda: len(outputs(accounts)) > before, "the order to be processed", 120)
    return outputs(accounts)[-1]


def test_state_goes_on_under_a_changed_job_or_is_refused_and_left_alone(accounts: Accounts) -> None:
    deploy(accounts, "first")
    assert buy(accounts, 1) == {"account": "ann", "n": 1, "total": 100, "last": "ann"}

    deploy(accounts, "grown")
    assert buy(accounts, 3) == {"account": "ann", "n": 2, "total": 400, "most": 300, "last": "ann"}

    written = len(records_of(accounts.connection.bootstrap_servers, accounts.changelog))
    deploy(accounts, "swapped")
    accounts.orders.write_raw(0, b"ann", b'{"account":"ann","amount":5}')

    def failed() -> bool:
        task = accounts.status("i1").task(TaskId(0, 0))
        return task is not None and task.state is TaskState.FAILED

    accounts.wait(failed, "the task to be refused")
    task = accounts.status("i1").task(TaskId(0, 0))
    assert task is not None
    assert task.error_kind == "ConfigurationError"
    assert "'n': count() of type bigint became sum(cents) of type bigint" in str(task.error)
    assert len(records_of(accounts.connection.bootstrap_servers, accounts.changelog)) == written

    deploy(accounts, "first")
    accounts.wait(lambda: len(outputs(accounts)) == 3, "the order that was left alone", 120)
    assert outputs(accounts)[-1] == {"account": "ann", "n": 3, "total": 900, "last": "ann"}
    last = commits(records_of(accounts.connection.bootstrap_servers, accounts.changelog), 0)[-1]
    assert last["signature"]["state"]["layouts"] == [[0, 1, 2], [0, 1, 2, 3]]
    assert last["signature"]["state"]["layout"] == 1


def test_misspelt_column_ends_the_instance_before_spark_starts(accounts: Accounts) -> None:
    accounts.job = (str(JOB), accounts.id, "misspelt")
    accounts.launch("i1", "local[1]")

    status = accounts.wait_for_state("i1", InstanceState.ENDED, 120)

    assert "did you mean 'account'?" in accounts.log("i1")
    assert status.process.exit_code not in (0, None)
