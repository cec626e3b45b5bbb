"""What goes into the examples of the docs, and what has to come out, computed in plain Python.

Keys repeat, times go back and forth, some records are late beyond doubt. Each record says its partition, so the order
in which a task sees the records of its own is known here.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from airflow_provider.testing.in_memory_clients import partition_of

__all__ = ["PARTITIONS", "Example", "Outcome", "Sent", "examples"]

PARTITIONS: Final = 3
"""Of each source."""
FIRST: Final = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Sent:
    """A record of a source; with a key in the partition that Kafka's Java clients choose for it."""

    topic: str
    value: Mapping[str, Any]
    key: str | None
    partition: int

    def __getitem__(self, name: str) -> Any:
        return self.value[name]

    @property
    def json(self) -> str:
        return json.dumps(self.value, default=_json)


@dataclass(frozen=True)
class Outcome:
    """What has to come out.

    Args:
        rows: how often each row; of an example that emits what changed, the last of each key.
        late: how many records are late.
        filtered: how many are dropped under each name.
    """

    rows: Counter[tuple[Any, ...]]
    late: int = 0
    filtered: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Example:
    """One of the examples.

    Args:
        file: its name in docs/examples, without ``.py``.
        first: records that are processed before any other is sent.
        some: records in their order, gets a source of chance and how many.
        end: what closes all that is open, and is left out of the outcome's rows by being open itself.
        too_late: records that are late when all before is processed.
        outcome: of all records, in their order.
        row: of a key and a value that came out; None for one that is not compared.
        updates: whether the last row of each key counts, and not every one.
    """

    file: str
    some: Callable[[random.Random, int], list[Sent]]
    outcome: Callable[[Sequence[Sent]], Outcome]
    row: Callable[[str, Any], tuple[Any, ...] | None]
    first: Callable[[random.Random], list[Sent]] = lambda _: []
    end: Callable[[], list[Sent]] = list
    too_late: Callable[[], list[Sent]] = list
    updates: bool = False

    def rows(self, records: Iterable[tuple[str, Any]]) -> Counter[tuple[Any, ...]]:
        """Of what came out, in the order of the partitions."""
        found = [(key, row) for key, value in records if (row := self.row(key, value)) is not None]
        return Counter(dict(found).values() if self.updates else (row for _, row in found))


def _sent(topic: str, value: Mapping[str, Any], key: str | None, chance: random.Random | None = None) -> Sent:
    if key is None:
        return Sent(topic, value, None, chance.randrange(PARTITIONS) if chance else 0)
    return Sent(topic, value, key, partition_of(key.encode(), PARTITIONS))


def _each_partition(make: Callable[[str], Sent]) -> list[Sent]:
    """A record for each partition, with keys that nothing else has."""
    found: dict[int, Sent] = {}
    for number in range(1000):
        record = make(f"end{number}")
        found.setdefault(record.partition, record)
    return [found[partition] for partition in range(PARTITIONS)]


def _json(value: object) -> Any:
    assert isinstance(value, (Decimal, datetime))
    return float(value) if isinstance(value, Decimal) else _text(value)


def _text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _jittered(chance: random.Random, at: datetime, late: float = 0.05) -> datetime:
    """A time that goes back by minutes, and now and then by hours."""
    back = chance.randrange(20 * 3600) if chance.random() < late else chance.randrange(15 * 60)
    return at - timedelta(seconds=back)


# -- word count ----------------------------------------------------------------------------------------------------

_WORDS = ["the", "The", "to", "be", *(f"w{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")]


def _lines(chance: random.Random, number: int) -> list[Sent]:
    lines = (", ".join(chance.choices(_WORDS, k=chance.randrange(7))) for _ in range(number))
    return [_sent("lines", {"line": line}, None, chance) for line in lines]


def _word_counts(sent: Sequence[Sent]) -> Outcome:
    words = [re.findall("[a-z]+", record["line"].lower()) for record in sent]
    counts = Counter(word for line in words for word in line)
    return Outcome(Counter(counts.items()), filtered={"empty": sum(not line for line in words)})


# -- totals by hour ------------------------------------------------------------------------------------------------


@dataclass
class _Orders:
    now: datetime = FIRST

    def some(self, chance: random.Random, number: int) -> list[Sent]:
        found = []
        for _ in range(number):
            self.now += timedelta(seconds=30)
            shop = f"shop{min(chance.randrange(40), chance.randrange(40))}"
            amount = Decimal(chance.randrange(1, 10_000)) / 100
            found.append(_sent("orders", {"shop": shop, "amount": amount, "at": _jittered(chance, self.now)}, shop))
        return found

    def end(self) -> list[Sent]:
        at = self.now + 1000 * HOUR
        return _each_partition(lambda shop: _sent("orders", {"shop": shop, "amount": Decimal(1), "at": at}, shop))

    def too_late(self) -> list[Sent]:
        return [
            _sent("orders", {"shop": f"shop{n}", "amount": Decimal(9), "at": self.now}, f"shop{n}") for n in range(9)
        ]


def _hourly_totals(sent: Sequence[Sent]) -> Outcome:
    totals: dict[tuple[str, datetime], list[Decimal]] = defaultdict(list)
    times, late = dict[int, datetime](), 0
    for record in sent:
        times[record.partition] = max(times.get(record.partition, record["at"]), record["at"])
        hour = record["at"].replace(minute=0, second=0, microsecond=0)
        if hour + HOUR <= times[record.partition] - 10 * MINUTE:
            late += 1
        else:
            totals[record["shop"], hour].append(record["amount"])
    over = {
        (shop, hour): amounts
        for (shop, hour), amounts in totals.items()
        if hour + HOUR <= times[partition_of(shop.encode(), PARTITIONS)] - 10 * MINUTE
    }
    return Outcome(Counter((shop, _text(hour), len(a), sum(a, Decimal())) for (shop, hour), a in over.items()), late)


def _total_row(key: str, value: Any) -> tuple[Any, ...]:
    assert key == f"{value['shop']}@{value['window']['start']}"
    return value["shop"], value["window"]["start"], value["orders"], Decimal(str(value["total"]))


# -- visits --------------------------------------------------------------------------------------------------------


@dataclass
class _Views:
    now: datetime = FIRST

    def some(self, chance: random.Random, number: int) -> list[Sent]:
        found = []
        for _ in range(number):
            self.now += timedelta(seconds=chance.randrange(1, 60))
            visitor = f"v{min(chance.randrange(60), chance.randrange(60))}"
            page = chance.choice(["/", "/shop", "/cart", "/health/live"])
            view = {"page": page, "ms": chance.randrange(900), "at": _jittered(chance, self.now, late=0.02)}
            found.append(_sent("page-views", {"visitor": visitor, **view}, visitor))
        return found

    def end(self) -> list[Sent]:
        return _each_partition(lambda visitor: self._view(visitor, self.now + 1000 * HOUR))

    def too_late(self) -> list[Sent]:
        return [self._view(f"v{number}", self.now) for number in range(9)]

    def _view(self, visitor: str, at: datetime) -> Sent:
        return _sent("page-views", {"visitor": visitor, "page": "/", "ms": 1, "at": at}, visitor)


@dataclass
class _Visit:
    start: datetime
    end: datetime
    ms: list[int]


def _visits(sent: Sequence[Sent]) -> Outcome:
    gap, grace = 30 * MINUTE, 5 * MINUTE
    visits: dict[str, list[_Visit]] = defaultdict(list)
    times, late, health = dict[int, datetime](), 0, 0
    for record in sent:
        visitor, at = record["visitor"], record["at"]
        if record["page"].startswith("/health"):
            health += 1  # moves no time
            continue
        times[record.partition] = max(times.get(record.partition, at), at)
        closed_at = times[record.partition] - grace
        if at + gap <= closed_at:
            late += 1
            continue
        own = _Visit(at, at + gap, [record["ms"]])
        near = [v for v in visits[visitor] if v.end > closed_at and v.start <= own.end and own.start <= v.end]
        for visit in near:
            visits[visitor].remove(visit)
            own = _Visit(min(own.start, visit.start), max(own.end, visit.end), own.ms + visit.ms)
        visits[visitor].append(own)
    over = Counter(
        (visitor, _text(visit.start), _text(visit.end), len(visit.ms), max(visit.ms))
        for visitor, all_visits in visits.items()
        for visit in all_visits
        if visit.end <= times[partition_of(visitor.encode(), PARTITIONS)] - grace
    )
    return Outcome(over, late, {"health_checks": health})


def _visit_row(key: str, value: Any) -> tuple[Any, ...]:
    assert key == f"{value['visitor']}@{value['window']['start']}"
    return value["visitor"], value["window"]["start"], value["window"]["end"], value["pages"], value["slowest_ms"]


# -- enrichment ----------------------------------------------------------------------------------------------------


@dataclass
class _Purchases:
    now: datetime = FIRST
    number: int = 0

    def first(self, chance: random.Random) -> list[Sent]:
        """Customers, who move; what is older comes later now and then, and some are gone."""
        moves = [(f"c{chance.randrange(40)}", FIRST + chance.randrange(-400, 400) * HOUR) for _ in range(200)]
        return [
            _sent("customers", {"customer": who, "country": chance.choice(["AT", "DE", "FR"]), "since": since}, who)
            for who, since in dict.fromkeys(moves)
        ]

    def some(self, chance: random.Random, number: int) -> list[Sent]:
        found = []
        for _ in range(number):
            self.number += 1
            self.now += timedelta(seconds=60)
            who = chance.choice(["c1", "c2", None, *(f"c{n}" for n in range(50))])
            amount, at = Decimal(chance.randrange(1, 10_000)) / 100, _jittered(chance, self.now)
            value = {"id": self.number, "customer": who, "amount": amount, "at": at}
            found.append(_sent("purchases", value, None, chance))
        return found


def _enriched(sent: Sequence[Sent]) -> Outcome:
    moves: dict[str, list[tuple[datetime, str]]] = defaultdict(list)
    for record in sent:
        if record.topic == "customers":
            moves[record["customer"]].append((record["since"], record["country"]))
    for of_one in moves.values():
        of_one.sort()
    rows = Counter[tuple[Any, ...]]()
    for record in sent:
        if record.topic == "purchases":
            before = moves.get(record["customer"], [])
            at = bisect_right([since for since, _ in before], record["at"])
            rows[record["id"], record["customer"], record["amount"], before[at - 1][1] if at else None] += 1
    return Outcome(rows)


# -- attribution ---------------------------------------------------------------------------------------------------


@dataclass
class _Ads:
    now: datetime = FIRST
    number: int = 0

    def some(self, chance: random.Random, number: int) -> list[Sent]:
        """Within the watermark, so that none is late wherever it lies; a click before its impression now and then."""
        found = []
        for _ in range(number):
            self.number += 1
            impression, at = f"i{chance.randrange(self.number)}", FIRST + timedelta(seconds=chance.randrange(2400))
            found.append(self._shown(f"i{self.number}", at, chance))
            found += [
                self._clicked(impression, at + timedelta(seconds=chance.randrange(-120, 800)), chance)
                for _ in range(chance.choice([0, 1, 2]))
            ]
        chance.shuffle(found)
        return found

    def end(self) -> list[Sent]:
        """Of both sides in each partition of their topics: each holds time back until it is there."""
        at = FIRST + 1000 * HOUR
        clicked = [self._clicked(f"end-click{n}", at) for n in range(PARTITIONS)]
        shown = [self._shown(f"end{n}", at) for n in range(PARTITIONS)]
        return [dataclasses.replace(one, partition=n) for side in (clicked, shown) for n, one in enumerate(side)]

    def too_late(self) -> list[Sent]:
        return [self._shown("i1", FIRST), self._clicked("i2", FIRST), self._shown("late", FIRST + HOUR)]

    def _shown(self, impression: str, at: datetime, chance: random.Random | None = None) -> Sent:
        return _sent("impressions", {"impression": impression, "ad": "a", "shown": at}, None, chance)

    def _clicked(self, impression: str, at: datetime, chance: random.Random | None = None) -> Sent:
        return _sent("clicks", {"impression": impression, "clicked": at}, None, chance)


def _attributed(sent: Sequence[Sent]) -> Outcome:
    ended = next((n for n, record in enumerate(sent) if record["impression"].startswith("end")), len(sent))
    late = [record for record in sent[ended:] if not record["impression"].startswith("end")]
    clicks: dict[str, list[datetime]] = defaultdict(list)
    for record in sent[:ended]:
        if record.topic == "clicks":
            clicks[record["impression"]].append(record["clicked"])
    rows = Counter[tuple[Any, ...]]()
    for record in sent[:ended]:
        if record.topic == "impressions":
            name, at = record["impression"], record["shown"]
            near = [clicked for clicked in clicks[name] if at <= clicked <= at + 10 * MINUTE]
            rows.update((name, _text(at), _text(clicked)) for clicked in near)
            rows.update([] if near else [(name, _text(at), None)])
    return Outcome(rows, len(late))


def _attributed_row(_: str, value: Any) -> tuple[Any, ...] | None:
    if value["impression"].startswith("end"):
        return None
    clicked = value["clicked"]
    return value["impression"], _text(_time(value["shown"])), None if clicked is None else _text(_time(clicked))


# -- deduplication -------------------------------------------------------------------------------------------------


@dataclass
class _Payments:
    now: datetime = FIRST

    def some(self, chance: random.Random, number: int) -> list[Sent]:
        found = []
        for _ in range(number):
            self.now += timedelta(seconds=10)
            payment = f"p{chance.randrange(60)}-{self.now.hour // 6}"
            account, amount = f"a{chance.randrange(5)}", Decimal(chance.randrange(1, 10_000)) / 100
            value = {"id": payment, "account": account, "amount": amount, "at": _jittered(chance, self.now)}
            found += [_sent("payments", value, payment)] * chance.choice([1, 1, 2, 3])
        return found

    def end(self) -> list[Sent]:
        return _each_partition(lambda payment: self._payment(payment, self.now + 1000 * HOUR))

    def too_late(self) -> list[Sent]:
        return [self._payment(f"p{number}-0", self.now) for number in range(9)]

    def _payment(self, payment: str, at: datetime) -> Sent:
        return _sent("payments", {"id": payment, "account": "a", "amount": Decimal(1), "at": at}, payment)


def _unique(sent: Sequence[Sent]) -> Outcome:
    passed: dict[str, list[datetime]] = defaultdict(list)
    times, late, duplicates = dict[int, datetime](), 0, 0
    rows = Counter[tuple[Any, ...]]()
    for record in sent:
        payment, at = record["id"], record["at"]
        times[record.partition] = max(times.get(record.partition, at), at)
        if at < times[record.partition] - 10 * MINUTE:
            late += 1
        elif any(abs(at - before) < HOUR for before in passed[payment]):
            duplicates += 1
        else:
            passed[payment].append(at)
            rows[payment, record["account"], record["amount"], _text(at)] += 1
    return Outcome(rows, late, {"duplicates": duplicates})


def _payment_row(key: str, value: Any) -> tuple[Any, ...]:
    assert key == value["id"]
    return key, value["account"], Decimal(str(value["amount"])), _text(_time(value["at"]))


def examples() -> dict[str, Example]:
    """Each anew, at the beginning of its time."""
    orders, views, purchases, ads, payments = _Orders(), _Views(), _Purchases(), _Ads(), _Payments()
    found = (
        Example(
            file="word_count",
            some=_lines,
            outcome=_word_counts,
            row=lambda key, value: (key, value["count"]),
            updates=True,
        ),
        Example(
            file="hourly_totals",
            some=orders.some,
            end=orders.end,
            too_late=orders.too_late,
            outcome=_hourly_totals,
            row=_total_row,
        ),
        Example(
            file="visits",
            some=views.some,
            end=views.end,
            too_late=views.too_late,
            outcome=_visits,
            row=_visit_row,
        ),
        Example(
            file="enrichment",
            first=purchases.first,
            some=purchases.some,
            outcome=_enriched,
            row=lambda _, value: (value["id"], value["customer"], Decimal(str(value["amount"])), value["country"]),
        ),
        Example(
            file="attribution",
            some=ads.some,
            end=ads.end,
            too_late=ads.too_late,
            outcome=_attributed,
            row=_attributed_row,
        ),
        Example(
            file="deduplication",
            some=payments.some,
            end=payments.end,
            too_late=payments.too_late,
            outcome=_unique,
            row=_payment_row,
        ),
    )
    return {example.file: example for example in found}
