"""The load of the shop: orders, customers that change, impressions and clicks; some late, some aborted."""

from __future__ import annotations

import json
import random
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tests.chaos.load import Sent, TransactionalLoad

PARTITIONS: Final[Mapping[str, int]] = {
    "shop-orders": 2,
    "shop-customers": 1,
    "shop-versions": 1,
    "shop-impressions": 1,
    "shop-clicks": 1,
}
"""Of each source."""
_ABORTED: Final = 0.03
_CUSTOMERS: Final = 400
_KNOWN: Final = 300
"""Customers that are in the table, at times."""
_PRODUCTS: Final = 2000
_ADS: Final = 300
_LAST_KEYS: Final = 40
"""So many that each partition gets some."""
_DAY_MS: Final = 86_400_000


class ShopLoad(TransactionalLoad):
    """One number in ten is a customer's, three are an ad's, the others are orders'."""

    def __init__(self, bootstrap_servers: str, rate: int, seed: int) -> None:
        super().__init__(bootstrap_servers, rate)
        self._chance = random.Random(f"shop {seed}")
        self.orders = 0
        self._versions: Counter[str] = Counter()
        self._written_last = 0

    def next_records(self, number: int) -> tuple[list[Sent], bool]:
        records = [record for _ in range(number) for record in self._records()]
        return records, self._chance.random() < _ABORTED

    def write_last(self) -> bool:
        """Orders of all customers first, which find the table as it is now; then a day that ends everything."""
        self._written_last += 1
        if self._written_last > 2:
            return False
        if self._written_last == 1:
            records = [self._order(f"customer-{n}", _now_ms()) for n in range(_CUSTOMERS)]
        else:
            at = _now_ms() + _DAY_MS
            records = self._customer("last", 1, at)
            for n in range(_LAST_KEYS):
                records.append(self._order(f"last-{n}", at, f"last-{n}", 1))
                records.append(_sent("shop-impressions", f"last-{n}", {"ad": f"last-{n}", "shown": at}))
                records.append(_sent("shop-clicks", f"last-{n}", {"ad": f"last-{n}", "clicked": at}))
        self._transact(self._producer(), records, aborted=False)
        return True

    def _records(self) -> list[Sent]:
        chance, kind = self._chance, self._chance.random()
        if kind < 0.1:
            customer = f"customer-{chance.randrange(_KNOWN)}"
            if chance.random() < 0.1:
                return [Sent(topic, 0, customer, None) for topic in ("shop-customers", "shop-versions")]
            self._versions[customer] += 1
            return self._customer(customer, self._versions[customer], _now_ms())
        if kind < 0.4:
            ad = f"ad-{chance.randrange(_ADS)}"
            if kind < 0.25:
                return [_sent("shop-impressions", ad, {"ad": ad, "shown": self._time_ms()})]
            return [_sent("shop-clicks", ad, {"ad": ad, "clicked": self._time_ms()})]
        return [self._order(f"customer-{chance.randrange(_CUSTOMERS)}", self._time_ms())]

    def _customer(self, customer: str, version: int, at: int) -> list[Sent]:
        """The version in the topic that knows no times, which is as old as the shop, and in the one that does."""
        row = {"customer": customer, "version": version}
        return [_sent("shop-customers", customer, row), _sent("shop-versions", customer, {**row, "changed": at})]

    def _order(self, customer: str, at: int, product: str | None = None, amount: int | None = None) -> Sent:
        self.orders += 1
        # Few products are ordered all the time, most now and then: sessions of all lengths.
        product = product or f"product-{int(_PRODUCTS * self._chance.random() ** 3)}"
        amount = self._chance.choice([0, 1, 5, 20, 999]) if amount is None else amount
        row = {"id": self.orders, "customer": customer, "product": product, "amount": amount, "at": at}
        return _sent("shop-orders", customer, row)

    def _time_ms(self) -> int:
        kind = self._chance.random()
        late = 0 if kind < 0.8 else self._chance.randrange(4_000 if kind < 0.97 else 40_000)
        return _now_ms() - late


def _sent(topic: str, key: str, row: dict[str, Any]) -> Sent:
    return Sent(topic, zlib.crc32(key.encode()) % PARTITIONS[topic], key, json.dumps(row))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
