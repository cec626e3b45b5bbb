"""Payments meet the customers that were written before them, however late the stage is that brings the customers."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.status import InstanceState, TableWaitStatus
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import records_of
from tests.integration.streaming.payments_job import job_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

JOB = Path(__file__).parent / "payments_job.py"
PARTITIONS = 2
STREAM, TABLE, JOIN = ([TaskId(stage, number) for number in range(PARTITIONS)] for stage in range(3))


class Payments(Accounts):
    """The application, with the country that each payment is to have."""

    def __init__(
        self, bootstrap_servers: str, application_id: str, folder: Path, several: bool, who_reads: str
    ) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.job = (str(JOB), application_id, who_reads, *(["several"] if several else []))
        admin = TopicAdmin(self.connection)
        for name in ("payments", "customers", "grades"):
            admin.ensure([TopicSpec(name=f"{application_id}-{name}", partitions=PARTITIONS)])
        described, _ = create_described_topics(admin, job_of(application_id, several).description())
        write_control(self.connection, application_id, described)
        self.due = dict[int, str]()
        self._country = ""
        self._plain = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        self._transactional = Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": f"{application_id}-customers"}
        )
        self._transactional.init_transactions(30)

    def move_customers(self, country: str) -> None:
        """In a transaction, behind whose last record lies an offset that nobody reads."""
        self._country = country
        self._transactional.begin_transaction()
        for number in range(8):
            row = json.dumps({"customer": f"c{number}", "country": country, "grade": country})
            for name in ("customers", "grades"):
                self._transactional.produce(f"{self.id}-{name}", row, f"c{number}")
        self._transactional.commit_transaction(30)

    def pay(self, number: int) -> None:
        for _ in range(number):
            payment = len(self.due)
            self.due[payment] = self._country
            customer = f"c{payment % 8}"
            row = json.dumps({"id": payment, "newest": payment, "customer": customer})
            self._plain.produce(f"{self.id}-payments", row, customer, partition=payment % PARTITIONS)
        assert self._plain.flush(30) == 0

    def rows(self) -> list[dict[str, Any]]:
        """What came out."""
        found = records_of(self.connection.bootstrap_servers, f"{self.id}-located", settled=False)
        rows = [json.loads(record.value or b"") for record in found]
        assert len({row["id"] for row in rows}) == len(rows)
        return rows

    def located(self) -> dict[int, str | None]:
        """By payment, the country that came out."""
        return {row["id"]: row["country"] for row in self.rows()}

    def done(self) -> bool:
        return len(self.located()) == len(self.due)

    def waits(self) -> list[TableWaitStatus]:
        """What the payments' tasks say that they wait for: none of them stands still."""
        tasks = [task for task in self.status("i1").tasks if task.source.waits_for is not None]
        assert all(task.task in STREAM and task.source.stalled_s == 0 for task in tasks)
        return [task.source.waits_for for task in tasks if task.source.waits_for is not None]


@pytest.fixture
def several() -> bool:
    return False


@pytest.fixture(params=["spark", "workers"])
def who_reads(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def payments(
    bootstrap_servers: str, application_id: str, tmp_path: Path, several: bool, who_reads: str
) -> Iterator[Payments]:
    payments = Payments(bootstrap_servers, application_id, tmp_path, several, who_reads)
    yield payments
    payments.close()


def test_payments_wait_for_customers_at_the_first_start_and_while_their_task_fails_over(
    payments: Payments, who_reads: str
) -> None:
    payments.move_customers("AT")
    payments.pay(400)
    owners = dict.fromkeys([*STREAM, *JOIN], "i1") | dict.fromkeys(TABLE, "i2")
    payments.give(owners)
    payments.launch("i1")

    payments.wait(lambda: payments.runs("i1") and bool(payments.waits()), "the payments to wait for the customers", 300)
    assert ("its workers read the sources" in payments.log("i1")) == (who_reads == "workers")
    wait = payments.waits()[0]
    assert (wait.topic, wait.offset) == (f"{payments.id}-customers", None)
    assert wait.task in TABLE
    payments.launch("i2")
    payments.wait(payments.done, "all payments to come out", 300)
    assert payments.located() == payments.due

    payments.signal("i2", signal.SIGKILL)
    payments.wait_for_state("i2", InstanceState.ENDED)
    payments.move_customers("DE")
    payments.pay(400)
    payments.wait(lambda: bool(payments.waits()), "the payments to wait for the customers again", 120)
    payments.give(dict.fromkeys(owners, "i1"))
    payments.wait(payments.done, "the other payments to come out", 240)
    assert payments.located() == payments.due

    # Nothing is left to wait for, though the log of the customers ends behind the last of them.
    payments.pay(40)
    payments.wait(payments.done, "the last payments to come out", 120)
    assert payments.located() == payments.due


@pytest.mark.parametrize("several", [True], ids=["several-tables"])
def test_tables_of_tables_and_of_the_streams_own_topic_hold_nothing_up_in_one_slot(payments: Payments) -> None:
    payments.move_customers("AT")
    payments.pay(400)
    description = job_of(payments.id, several=True).description()
    tasks = [TaskId(stage.number, number) for stage in description.stages for number in range(PARTITIONS)]
    payments.give(dict.fromkeys(tasks, "i1"))
    payments.launch("i1", "local[1]")

    for country in ("DE", "FR"):
        payments.wait(payments.done, "all payments to come out", 400)
        payments.move_customers(country)
        payments.pay(400)
    payments.wait(payments.done, "the last payments to come out", 400)

    assert payments.located() == payments.due
    rows = payments.rows()
    assert all(row["grade"] == row["country"] for row in rows)
    # What is read of the payments as a table is never behind them as a stream.
    assert all(row["newest"] >= row["id"] for row in rows)
