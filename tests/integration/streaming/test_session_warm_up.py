"""An instance that has no task yet runs a first query all the same, which commits nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.control.records.status import InstanceState
from tests.integration.streaming.accounts import Accounts

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]


@pytest.fixture
def accounts(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Accounts]:
    application = Accounts(bootstrap_servers, application_id, tmp_path, num_tasks=1, seed=4)
    yield application
    application.close()


def test_instance_without_a_task_has_run_a_query_over_its_source_before_its_first_promotion(accounts: Accounts) -> None:
    accounts.orders.write(20, [0])

    accounts.launch("a")

    accounts.wait_for_state("a", InstanceState.RUNNING)
    accounts.wait(lambda: "Spark is warmed up after" in accounts.log("a"), "the first query to end")
    assert "without a record" not in accounts.log("a")
    assert not accounts.processed()
    accounts.assign("a")
    accounts.check()
