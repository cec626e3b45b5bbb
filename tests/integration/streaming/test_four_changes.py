"""A new version changes a filter and adds an aggregate, a sink and a join at once: as plain Python has it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.integration.streaming.changing_application import ChangingApplication
from tests.integration.streaming.changing_purchases_job import PARTITIONS, job_of
from tests.integration.streaming.committed import records_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).parent / "changing_purchases_job.py"
SOURCES = 2
"""Partitions of each source."""
COUNTRIES = {f"c{number}": f"country {number % 5}" for number in range(20)}
CUSTOMERS = [*COUNTRIES, "nobody", "no one"]
Purchase = tuple[int, str, int]
"""Id, customer, amount."""


class Purchases(ChangingApplication):
    """The application, with what was bought while each version ran."""

    def __init__(self, bootstrap_servers: str, application_id: str, folder: Path) -> None:
        super().__init__(bootstrap_servers, application_id, folder, JOB, {0: SOURCES, 1: PARTITIONS})
        sources = [f"{application_id}-{name}" for name in ("purchases", "customers")]
        self.admin.ensure([TopicSpec(name=name, partitions=SOURCES) for name in sources])
        self.bought: list[Purchase] = []
        self._chance = random.Random(17)
        self._sender = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
        for customer, country in COUNTRIES.items():
            self._send("customers", {"customer": customer, "country": country}, customer)

    def buy(self, number: int, customers: list[str]) -> list[Purchase]:
        first = len(self.bought)
        for id_ in range(first, first + number):
            self.bought.append((id_, self._chance.choice(customers), self._chance.randrange(12)))
            self._send("purchases", dict(zip(("id", "customer", "amount"), self.bought[-1], strict=True)), None)
        assert self._sender.flush(30) == 0
        return self.bought[first:]

    def placed(self) -> Counter[tuple[int, str, int, str | None]]:
        records = records_of(self.connection.bootstrap_servers, f"{self.id}-placed", settled=False)
        rows = [json.loads(record.value or b"") for record in records]
        return Counter((row["id"], row["customer"], row["amount"], row["country"]) for row in rows)

    def _send(self, source: str, value: dict[str, Any], key: str | None) -> None:
        self._sender.produce(f"{self.id}-{source}", json.dumps(value), key)


@pytest.fixture
def purchases(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[Purchases]:
    with closing(Purchases(bootstrap_servers, application_id, tmp_path)) as made:
        yield made


def sums_of(first: list[Purchase], then: list[Purchase]) -> dict[str, dict[str, Any]]:
    """By customer, the last result: of a filter that changed, and an aggregate that is there only since then."""
    sums: dict[str, dict[str, Any]] = {}
    for _, customer, amount in first:
        if amount > 0:
            sums[customer] = {"customer": customer, "n": sums.get(customer, {"n": 0})["n"] + 1}
    for _, customer, amount in then:
        if amount > 5:
            known = sums.get(customer, {"n": 0})
            largest = max(amount, known.get("largest", amount))
            sums[customer] = {"customer": customer, "n": known["n"] + 1, "largest": largest}
    return sums


def test_version_that_is_changed_in_four_places_at_once_makes_what_each_change_means(purchases: Purchases) -> None:
    purchases.create(job_of(purchases.id, "first"))
    purchases.start("first")
    first = purchases.buy(400, CUSTOMERS)
    purchases.wait(lambda: purchases.values("sums") == sums_of(first, []), "the first version to count all", 240)
    purchases.stop()

    # The join between the filter and the aggregate would give the stages other numbers.
    before = purchases.ends()
    with pytest.raises(ConfigurationError) as refused:
        purchases.create(job_of(purchases.id, "inside"))
    print(refused.value)
    assert "\n" not in str(refused.value)
    assert purchases.ends() == before

    # Behind what is there it is begun with the first purchase.
    purchases.create(job_of(purchases.id, "changed"))
    then = purchases.buy(300, CUSTOMERS[5:])
    purchases.start("changed")
    then += purchases.buy(300, CUSTOMERS[5:])
    purchases.wait(lambda: purchases.values("sums") == sums_of(first, then), "the sums of the changed version", 240)
    truth = Counter((id_, who, amount, COUNTRIES.get(who)) for id_, who, amount in purchases.bought if amount > 5)
    purchases.wait(lambda: purchases.placed() == truth, "each purchase with its customer's country", 240)
