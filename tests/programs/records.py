"""The records that random programs are run over, and their final marks of time.

Each event time is there once, but for exact duplicates; none is later than the watermark, so nothing is late. The last
records of a topic are of ten days later, in every partition: all that waits for time comes out, but what they are in.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from airflow_provider.streaming import stream, table
from airflow_provider.testing import InputRecord
from airflow_provider.testing.in_memory_clients import partition_of

FIRST_MS: Final = 1_700_000_000_000
CLOSE_MS: Final = FIRST_MS + 10 * 86_400_000
"""No earlier time is of a last record, and no later one of another."""

PARTITIONS: Final = 2
_WATERMARK_MS: Final = 2_000
_BATCHES: Final = 2

ORDER: Final = "id BIGINT, customer STRING, product STRING, amount BIGINT, at BIGINT"
CUSTOMER: Final = "customer STRING, country STRING, credit BIGINT"
PRICE: Final = "product STRING, price BIGINT, since BIGINT"

ORDERS: Final = stream("orders", ORDER, key="customer", event_time="at", watermark="2 seconds")
RETURNS: Final = stream("returns", ORDER, event_time="at", watermark="2 seconds")
CUSTOMERS: Final = table("customers", CUSTOMER, key="customer")
PRICES: Final = table("prices", PRICE, key="product", event_time="since", watermark="2 seconds")


def _in_each_partition(texts: Sequence[str]) -> list[str]:
    found = {partition_of(text.encode(), PARTITIONS): text for text in reversed(texts)}
    return [found[partition] for partition in range(PARTITIONS)]


_CUSTOMERS: Final = ("ann", "bob", "eve", "tom", "zoe")
_PRODUCTS: Final = ("tea", "jam", "rum", "fig", "oil")
# The first and the last records of a topic are of these.
_OF_ALL: Final = {"customer": _in_each_partition(_CUSTOMERS), "product": _in_each_partition(_PRODUCTS)}


class Records:
    """Those of one program: its topics alone are piped in."""

    def __init__(self, chance: random.Random) -> None:
        times = iter(chance.sample(range(1_000, 60_000), 200))
        ids = itertools.count(1)
        self.customers = [*self._customers(chance)]
        self._topics = {
            "orders": self._events(chance, "orders", ids, times, 24),
            "returns": self._events(chance, "returns", ids, times, 14),
            "prices": self._prices(chance, times),
        }

    def values(self, topic: str) -> list[tuple[str, Any, int]]:
        """By record its key, its value, None for a deletion, and its timestamp; in the order of the topic."""
        records = self.customers if topic == "customers" else list(itertools.chain(*self._topics[topic]))
        return [(str(record.key), record.value, record.timestamp_ms or 0) for record in records]

    def batches(self, chance: random.Random, topics: Sequence[str]) -> Iterator[list[InputRecord]]:
        """Micro-batches, each of one topic: the table of customers first, then the others side by side."""
        if "customers" in topics:
            yield self.customers
        others = [topic for topic in self._topics if topic in topics]
        for number in range(_BATCHES + 2):
            for topic in chance.sample(others, len(others)):
                if batch := self._topics[topic][number]:
                    yield batch

    def _events(
        self, chance: random.Random, topic: str, ids: Iterator[int], times: Iterator[int], number: int
    ) -> list[list[InputRecord]]:
        def event(customer: str, at_ms: int, amount: int | None) -> InputRecord:
            product = chance.choice(_PRODUCTS)
            value = {"id": next(ids), "customer": customer, "product": product, "amount": amount, "at": at_ms}
            return InputRecord(value, key=customer, timestamp_ms=at_ms, topic=topic)

        first, last = ([event(one, self._at(begin, at), 3) for at, one in enumerate(_OF_ALL["customer"])]
                       for begin in (self._begin(topic), CLOSE_MS + self._begin(topic) - FIRST_MS))  # fmt: skip
        events = [
            event(chance.choice(_CUSTOMERS), FIRST_MS + next(times), chance.choice([0, 1, 2, 5, None]))
            for _ in range(number)
        ]
        events += chance.sample(events, 4)
        return [first, *_late(chance, events), last]

    def _prices(self, chance: random.Random, times: Iterator[int]) -> list[list[InputRecord]]:
        def price(product: str, at_ms: int, of: int | None) -> InputRecord:
            value = None if of is None else {"product": product, "price": of, "since": at_ms}
            return InputRecord(value, key=product, timestamp_ms=at_ms, topic="prices")

        first, last = ([price(one, self._at(begin, at), 7) for at, one in enumerate(_OF_ALL["product"])]
                       for begin in (self._begin("prices"), CLOSE_MS + self._begin("prices") - FIRST_MS))  # fmt: skip
        prices = [
            price(chance.choice(_PRODUCTS), FIRST_MS + next(times), chance.choice([1, 2, 9, None])) for _ in range(12)
        ]
        return [first, *_late(chance, prices), last]

    @staticmethod
    def _begin(topic: str) -> int:
        return FIRST_MS + 100 * ("orders", "returns", "prices").index(topic)

    @staticmethod
    def _at(begin: int, at: int) -> int:
        return begin + 10 * at

    def _customers(self, chance: random.Random) -> Iterator[InputRecord]:
        for number in range(9):
            customer, country = chance.choice(_CUSTOMERS), chance.choice(["AT", "DE", "IT", None])
            value = {"customer": customer, "country": country, "credit": chance.randrange(5)}
            given = value if chance.random() < 0.8 else None
            yield InputRecord(given, key=customer, timestamp_ms=FIRST_MS + number, topic="customers")


def _late(chance: random.Random, records: list[InputRecord]) -> list[list[InputRecord]]:
    """In batches, in an order in which none is late."""
    ordered = sorted(records, key=lambda record: (record.timestamp_ms or 0) + chance.randrange(_WATERMARK_MS))
    cuts = [0, *sorted(chance.choices(range(len(ordered) + 1), k=_BATCHES - 1)), len(ordered)]
    return [ordered[begin:end] for begin, end in itertools.pairwise(cuts)]
