"""Two joins on two real instances, killed under load: each order comes out once, each impression with its clicks.

The orders wait for a table that each task has in full. Some customers' rows come after their orders.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.described_topics import create_described_topics
from airflow_provider.control.records.status import InstanceState
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import Record, last_commits, records_of
from tests.integration.streaming.joins_job import PARTITIONS, WITHIN_MS, job_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

JOB = Path(__file__).parent / "joins_job.py"
SOURCES = ("purchases", "customers", "impressions", "clicks")
DAY_MS = 86_400_000


class Shop(Accounts):
    """The application, with what its joins should come to."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, num_tasks=1, seed=1)
        self.job = (str(JOB), application_id)
        admin = TopicAdmin(self.connection)
        admin.ensure([TopicSpec(name=self.topic_of(name), partitions=2) for name in SOURCES])
        described, _ = create_described_topics(admin, job_of(application_id).description())
        write_control(self.connection, application_id, described)
        self.tasks = [TaskId(stage, number) for stage in range(6) for number in range(PARTITIONS)]
        self._chance = random.Random(7)
        self._sender = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        self.countries = {f"c{number}": self._chance.choice(["AT", "DE", "FR"]) for number in range(50)}
        self.bought = Counter[tuple[int, str | None, str | None]]()
        self.shown = list[tuple[str, int]]()
        self.clicked = list[tuple[str, int]]()
        self._orders, self._customers = 0, 0
        # Of late, or the brokers would delete it.
        self._now = int(time.time() * 1000) - 3 * DAY_MS

    def topic_of(self, name: str) -> str:
        return f"{self.id}-{name}"

    def write_customers(self) -> None:
        for name, country in self.countries.items():
            self._send_customer(name, "XX")
            self._send_customer(name, country)
        self._send_customer("c0", None)
        del self.countries["c0"]
        assert self._sender.flush(30) == 0

    def write_some(self, number: int) -> None:
        for _ in range(number):
            self._now += 100
            self._orders += 1
            order, is_new = self._orders, self._chance.random() < 0.2
            known = ["c0", "c1", "c2", "nobody", None, *self.countries]
            customer = f"new{order}" if is_new else self._chance.choice(known)
            amount = self._chance.choice([0, 1.5, 20.25])
            self._send("purchases", {"id": order, "customer": customer, "amount": amount}, None)
            country = "CH" if is_new else self.countries.get(customer or "")
            if customer is not None and is_new:
                self._send_customer(customer, country)
                self._send_customer(customer, "later than the order", 1)
            if amount:
                self.bought[order, customer, country] += 1
            ad = f"ad{self._chance.randrange(300)}"
            if self._chance.random() < 0.5:
                self.shown.append((ad, self._now))
                self._send("impressions", {"ad": ad, "shown": self._now}, ad)
            else:
                self.clicked.append((ad, self._now))
                clicked = datetime.fromtimestamp(self._now / 1000, UTC).isoformat()
                self._send("clicks", {"ad": ad, "clicked": clicked}, ad)
        assert self._sender.flush(30) == 0

    def next_day(self) -> None:
        """What waits comes out with what is written from now on."""
        self._now += DAY_MS

    def end_of_time(self) -> None:
        """All, in all partitions, a day later: what found no partner comes out, and what waits for the table.

        What says so waits itself for ever.
        """
        self.next_day()
        for number in range(2):
            row = json.dumps({"id": -1, "customer": "c1", "amount": 1.5})
            self._sender.produce(self.topic_of("purchases"), row, partition=number, timestamp=self._now)
        clicked = datetime.fromtimestamp(self._now / 1000, UTC).isoformat()
        for number in range(2):
            ends: dict[str, dict[str, Any]] = {"impressions": {"shown": self._now}, "clicks": {"clicked": clicked}}
            for name, end in ends.items():
                row = json.dumps({"ad": f"end{number}", **end})
                self._sender.produce(self.topic_of(name), row, partition=number)
        assert self._sender.flush(30) == 0

    def enriched(self) -> Counter[tuple[int, str | None, str | None]]:
        rows = [json.loads(record.value or b"") for record in self._out("enriched")]
        return Counter((row["id"], row["customer"], row["country"]) for row in rows if row["id"] > 0)

    def has_waited(self) -> bool:
        """Whether an order came out that waits: one without a customer has nothing to wait for."""
        return any(customer is not None for _, customer, _ in self.enriched())

    def attributed(self) -> Counter[tuple[str, int, int | None]]:
        rows = [json.loads(record.value or b"") for record in self._out("attributed")]
        return Counter(
            (row["ad"], row["shown"], row["clicked"] and int(datetime.fromisoformat(row["clicked"]).timestamp() * 1000))
            for row in rows
            if not row["ad"].startswith("end")
        )

    def pairs(self) -> Counter[tuple[str, int, int | None]]:
        """What the impressions and their clicks are, by all of them."""
        clicks: dict[str, list[int]] = {}
        for ad, at in self.clicked:
            clicks.setdefault(ad, []).append(at)
        found = Counter[tuple[str, int, int | None]]()
        for ad, shown in self.shown:
            near: list[int | None] = [at for at in clicks.get(ad, []) if 0 <= at - shown <= WITHIN_MS]
            found.update((ad, shown, at) for at in near or [None])
        return found

    def joined(self, name: str) -> int:
        """How many rows a join has processed."""
        changelog = records_of(self.connection.bootstrap_servers, f"{self.topic_of(name)}-changelog", settled=False)
        return sum(record["processed"] for record in last_commits(changelog))

    def caught_up(self) -> bool:
        """Whether all has come to the joins; each task has every customer."""
        orders, pairs = 2 * self._customers + self.bought.total(), len(self.shown) + len(self.clicked)
        return (self.joined("enriched"), self.joined("attributed")) == (orders, pairs)

    def _send_customer(self, name: str, country: str | None, later_ms: int = 0) -> None:
        self._customers += 1
        row = None if country is None else {"customer": name, "country": country}
        self._send("customers", row, name, later_ms)

    def _send(self, name: str, value: dict[str, Any] | None, key: str | None, later_ms: int = 0) -> None:
        written = None if value is None else json.dumps(value)
        self._sender.produce(self.topic_of(name), written, key, timestamp=self._now + later_ms)

    def _out(self, name: str) -> list[Record]:
        return records_of(self.connection.bootstrap_servers, self.topic_of(name), settled=False)


@pytest.fixture
def shop(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(bootstrap_servers, application_id, tmp_path)
    yield shop
    shop.close()


def flowing(shop: Shop) -> AbstractContextManager[None]:
    return again_and_again(lambda: shop.write_some(40), lambda: 0.2)


def test_joins_are_exact_though_worker_and_instance_are_killed_under_load(shop: Shop) -> None:
    shop.write_customers()
    for name in ("i1", "i2"):
        shop.launch(name)
    for name in ("i1", "i2"):
        shop.wait_for_state(name, InstanceState.RUNNING, 300)
    by_turns = {task: ("i1", "i2")[task.partition % 2] for task in shop.tasks}
    other = {task: {"i1": "i2", "i2": "i1"}[name] for task, name in by_turns.items()}
    shop.give(by_turns, other)
    shop.wait(shop.settled, "every task to run and every standby to be warm", 400)
    shop.wait(shop.caught_up, "the customers to be known", 240)

    with flowing(shop):
        shop.wait(lambda: bool(shop.attributed()), "the first rows to be joined", 240)
        shop.worker_of("i1", 0).send_signal(signal.SIGKILL)
        seen = shop.joined("enriched")
        shop.wait(lambda: shop.joined("enriched") > seen + 1_000, "rows to come to the join after that", 400)
    shop.wait(shop.caught_up, "all rows to come to the joins", 400)
    assert not shop.has_waited(), "an order came out before its time"

    shop.next_day()
    with flowing(shop):
        shop.wait(shop.has_waited, "the first orders to have waited long enough", 240)
        shop.signal("i2", signal.SIGKILL)
        shop.give(dict.fromkeys(shop.tasks, "i1"))
        seen = shop.joined("enriched")
        shop.wait(lambda: shop.joined("enriched") > seen + 1_000, "rows to come to the one that is left", 400)
    shop.wait(shop.caught_up, "all rows to come to the one that is left", 400)

    shop.end_of_time()
    shop.wait(lambda: shop.enriched() == shop.bought, "each order once, with its country", 400)
    shop.wait(lambda: shop.attributed() == shop.pairs(), "each impression with its clicks", 400)
