"""Two joins on two real instances, killed under load: each order comes out once, each impression with its clicks."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.described_topics import create_described_topics
from airflow_provider.control.status import InstanceState
from airflow_provider.control.writer import write_control
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.background import again_and_again
from tests.integration.streaming.committed import Record, commits, records_of
from tests.integration.streaming.joins_job import PARTITIONS, WITHIN_MS, job_of

JOB = Path(__file__).parent / "joins_job.py"
SOURCES = ("purchases", "customers", "impressions", "clicks")
FIRST_MS = 1_767_225_600_000
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
        self._now, self._orders = FIRST_MS, 0

    def topic_of(self, name: str) -> str:
        return f"{self.id}-{name}"

    def write_customers(self) -> None:
        for name, country in self.countries.items():
            self._send("customers", {"customer": name, "country": "XX"}, name)
            self._send("customers", {"customer": name, "country": country}, name)
        self._send("customers", None, "c0")
        del self.countries["c0"]
        assert self._sender.flush(30) == 0

    def write_some(self, number: int) -> None:
        for _ in range(number):
            self._now += 100
            customer = self._chance.choice(["c0", "c1", "c2", "nobody", None, *self.countries])
            amount = self._chance.choice([0, 1.5, 20.25])
            self._orders += 1
            order = self._orders
            self._send("purchases", {"id": order, "customer": customer, "amount": amount}, None)
            if amount:
                self.bought[order, customer, self.countries.get(customer or "")] += 1
            ad = f"ad{self._chance.randrange(300)}"
            if self._chance.random() < 0.5:
                self.shown.append((ad, self._now))
                self._send("impressions", {"ad": ad, "shown": self._now}, ad)
            else:
                self.clicked.append((ad, self._now))
                clicked = datetime.fromtimestamp(self._now / 1000, UTC).isoformat()
                self._send("clicks", {"ad": ad, "clicked": clicked}, ad)
        assert self._sender.flush(30) == 0

    def end_of_time(self) -> None:
        """Both sides, in all partitions, a day later: what found no partner comes out."""
        at = self._now + DAY_MS
        for number in range(40):
            self._send("impressions", {"ad": f"end{number}", "shown": at}, None)
            clicked = datetime.fromtimestamp(at / 1000, UTC).isoformat()
            self._send("clicks", {"ad": f"end{number}", "clicked": clicked}, None)
        assert self._sender.flush(30) == 0

    def enriched(self) -> Counter[tuple[int, str | None, str | None]]:
        rows = [json.loads(record.value or b"") for record in self._out("enriched")]
        return Counter((row["id"], row["customer"], row["country"]) for row in rows)

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
        return sum(commits(changelog, number)[-1]["processed"] for number in range(2) if commits(changelog, number))

    def _send(self, name: str, value: dict[str, object] | None, key: str | None) -> None:
        self._sender.produce(self.topic_of(name), None if value is None else json.dumps(value), key)

    def _out(self, name: str) -> list[Record]:
        return records_of(self.connection.bootstrap_servers, self.topic_of(name), settled=False)


@pytest.fixture
def shop(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(bootstrap_servers, application_id, tmp_path)
    yield shop
    shop.close()


def flowing(shop: Shop) -> AbstractContextManager[None]:
    return again_and_again(lambda: shop.write_some(50), lambda: 0.1)


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
    shop.wait(lambda: shop.joined("enriched") == 101, "the customers to be known", 240)

    with flowing(shop):
        shop.wait(lambda: bool(shop.enriched()) and bool(shop.attributed()), "the first rows to be joined", 240)
        shop.worker_of("i1", 0).send_signal(signal.SIGKILL)
        seen = shop.enriched().total()
        shop.wait(lambda: shop.enriched().total() > seen + 300, "rows to be joined after that", 400)
        shop.signal("i2", signal.SIGKILL)
        shop.give(dict.fromkeys(shop.tasks, "i1"))
        seen = shop.enriched().total()
        shop.wait(lambda: shop.enriched().total() > seen + 300, "the one that is left to join", 400)

    shop.wait(lambda: shop.enriched() == shop.bought, "each order once, with its country", 400)
    shop.end_of_time()
    shop.wait(lambda: shop.attributed() == shop.pairs(), "each impression with its clicks", 400)
