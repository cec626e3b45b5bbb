"""Which ports an instance opens, and to whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider.control.records.status import InstanceState
from tests.integration.streaming import accounts as accounts_module
from tests.integration.streaming.accounts import Accounts, environment

pytestmark = pytest.mark.long


@pytest.fixture
def accounts(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Accounts]:
    application = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=1, seed=4)
    yield application
    application.close()


def test_instance_with_a_local_spark_listens_on_this_host_alone(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_a_host = {name: value for name, value in environment().items() if name != "SPARK_LOCAL_IP"}
    monkeypatch.setattr(accounts_module, "environment", lambda *_: of_a_host)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)

    accounts.launch("a")

    accounts.wait_for_state("a", InstanceState.RUNNING)
    accounts.assign("a")
    accounts.orders.write(50, [0])
    accounts.check()
    listening = [
        connection.laddr.ip
        for process in accounts.processes("a")
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
