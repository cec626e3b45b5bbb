"""Windows of partitions without records close by the clock, once, whoever has the task, on a real Spark."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.control.records.status import InstanceState
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import changelog_spec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import last_commits, records_of, values_by_key
from tests.integration.streaming.idle_job import STORE

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parent / "idle_job.py"
DEADLINE_S = 240.0
"""Of one step, on a machine that runs other tests of Spark as well."""

FIRST, SECOND = "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:20.000Z"


class Visits(Accounts):
    """The application, with visits for orders; a producer with transactions writes them."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=2, seed=1)
        self.job = (str(JOB), application_id)
        self.changelog = f"{application_id}-{STORE}-changelog"
        TopicAdmin(self.connection).ensure([changelog_spec(application_id, STORE, self.num_tasks, windowed=True)])

    def write(self, partition: int, at: int) -> None:
        account = f"p{partition}"
        self.orders.write_raw(partition, account.encode(), json.dumps({"account": account, "at": at}).encode())

    def closed(self) -> dict[str, list[int]]:
        """By key, what came out of each window, in order."""
        return values_by_key(records_of(self.connection.bootstrap_servers, self.totals, settled=False), "n")


@pytest.fixture
def visits(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Visits]:
    visits = Visits(bootstrap_servers, application_id, tmp_path)
    yield visits
    visits.close()


def test_windows_close_without_records_and_stay_closed_after_a_failover(visits: Visits) -> None:
    visits.launch("i1", "local[1]")
    visits.wait(lambda: visits.runs("i1"), "i1 to run", DEADLINE_S)
    visits.assign("i1", "i1")
    for partition in range(2):
        visits.write(partition, at=3)

    first = {f"p{partition}@{FIRST}": [1] for partition in range(2)}
    visits.wait(lambda: visits.closed() == first, "the windows of the first records to close", DEADLINE_S)

    visits.signal("i1", signal.SIGKILL)
    visits.wait_for_state("i1", InstanceState.ENDED, DEADLINE_S)
    visits.launch("i2", "local[1]")
    visits.wait(lambda: visits.runs("i2"), "i2 to run", DEADLINE_S)
    visits.assign("i2", "i2")
    visits.write(0, at=4)
    for partition in range(2):
        visits.write(partition, at=19_999 + 20_000)

    second = {f"p{partition}@{SECOND}": [1] for partition in range(2)}
    visits.wait(lambda: visits.closed() == first | second, "the windows of the second ones to close", DEADLINE_S)
    last = last_commits(records_of(visits.connection.bootstrap_servers, visits.changelog))
    assert [record["processed"] for record in last] == [3, 2]
    assert [record["late"] for record in last] == [1, 0]
