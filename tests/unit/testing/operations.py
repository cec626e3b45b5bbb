"""Every operation that a job can be made of, once: a job, and random records of its sources.

What is promised of all of them is tested over this table.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.streaming import (
    Aggregator,
    StatefulJob,
    list_state,
    map_state,
    session_window,
    stream,
    table,
    value_state,
    window,
)
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.joins.join_rows import How
from airflow_provider.streaming.language.grouped import GroupedStream
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.testing import InputRecord

FIRST_MS: Final = 1_700_000_000_000

Draw = Callable[[random.Random, int], InputRecord]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A job with one operation.

    Args:
        job: complete, without a step that needs Spark.
        draw: a random record; gets the number of those before.
        once: whether each record of the sink is settled by the input alone, not just the last one of each key.
    """

    job: StatefulJob
    draw: Draw
    once: bool = False

    def records(self, seed: int, number: int) -> list[InputRecord]:
        """Random records, with times that are always the same."""
        chance = random.Random(seed)
        drawn = (self.draw(chance, n) for n in range(number))
        return [
            record if record.timestamp_ms is not None else dataclasses.replace(record, timestamp_ms=FIRST_MS + n)
            for n, record in enumerate(drawn)
        ]


# -- sources and their records --------------------------------------------------------------------------------------

_ORDER: Final = "id BIGINT, customer STRING, product STRING, amount BIGINT, at BIGINT"
_KEYED: Final = stream("orders", schema=_ORDER, key="customer", event_time="at", watermark="2 seconds")
_PLAIN: Final = stream("orders", schema=_ORDER, key="customer")
_CUSTOMERS: Final = table("customers", schema="customer STRING, country STRING", key="customer")
_ORDERS_TABLE: Final = table("placed", schema="id BIGINT, customer STRING, amount BIGINT", key="id")
_LIMITS: Final = table("limits", schema="customer STRING, credit BIGINT", key="customer")
_SHOWN: Final = stream("shown", schema="ad STRING, shown BIGINT", event_time="shown", watermark="1 second")
_CLICKS: Final = stream("clicks", schema="ad STRING, clicked BIGINT", event_time="clicked", watermark="1 second")
_RETURNS: Final = stream("returns", schema="id BIGINT, customer STRING, product STRING, amount BIGINT, at BIGINT")


def _at(chance: random.Random, number: int) -> int:
    """About two records a second; some late, some too late."""
    return FIRST_MS + 500 * number - chance.choice([0, 0, 0, 0, 700, 1_500, 9_000])


def _order(chance: random.Random, number: int, topic: str = "orders") -> InputRecord:
    value = {
        "id": number,
        "customer": chance.choice(["ann", "bob", "eve"]),
        "product": chance.choice(["tea", "jam"]),
        "amount": chance.choice([0, 1, 2, 50, None]),
        "at": _at(chance, number),
    }
    return InputRecord(value, topic=topic, key=str(value["customer"]), timestamp_ms=FIRST_MS + 500 * number)


def _order_or(other: Draw) -> Draw:
    return lambda chance, number: (_order if chance.random() < 0.6 else other)(chance, number)


def _row_of_table(topic: str, column: str, values: list[Any]) -> Draw:
    def draw(chance: random.Random, number: int) -> InputRecord:
        customer, value = chance.choice(["ann", "bob", "tom"]), chance.choice([*values, None])
        row = None if value is None else {"customer": customer, column: value}
        return InputRecord(row, topic=topic, key=customer, timestamp_ms=_at(chance, number))

    return draw


_customer: Final = _row_of_table("customers", "country", ["AT", "DE"])
_limit: Final = _row_of_table("limits", "credit", [1, 2])


def _customer_or_limit(chance: random.Random, number: int) -> InputRecord:
    return (_customer if chance.random() < 0.5 else _limit)(chance, number)


def _order_row_or_customer(chance: random.Random, number: int) -> InputRecord:
    if chance.random() < 0.4:
        return _customer(chance, number)
    id_, customer = chance.randrange(5), chance.choice(["ann", "bob", "tom", None])
    row = None if chance.random() < 0.2 else {"id": id_, "customer": customer, "amount": number}
    return InputRecord(row, topic="placed", key=str(id_), timestamp_ms=_at(chance, number))


def _shown_or_clicked(chance: random.Random, number: int) -> InputRecord:
    topic, column = chance.choice([("shown", "shown"), ("clicks", "clicked")])
    # Now and then time jumps, so that what has no partner comes out.
    at = FIRST_MS + 1_000 * number + 30_000 * (number // 7) - chance.choice([0, 0, 600, 40_000])
    return InputRecord({"ad": chance.choice(["a", "b", None]), column: at}, topic=topic)


def _order_or_return(chance: random.Random, number: int) -> InputRecord:
    return _order(chance, number, chance.choice(["orders", "returns"]))


# -- the operations -------------------------------------------------------------------------------------------------

_MERGED: Final = (
    F.count().alias("n"),
    F.count("amount").alias("paid"),
    F.sum("amount").alias("total"),
    F.min("amount").alias("least"),
    F.max("amount").alias("most"),
    F.mean("amount").alias("mean"),
)
_ORDERED: Final = (
    F.first("id").alias("first"),
    F.last("id").alias("last"),
    F.first("amount", ignorenulls=True).alias("first_paid"),
    F.last("amount", ignorenulls=True).alias("last_paid"),
)


class _Pairs(Aggregator):
    """Which amounts came together with which products: a state of a dict, a result of an array."""

    result_type = "ARRAY<STRING>"

    def zero(self) -> Any:
        return {}

    def add(self, state: Any, *values: Any) -> Any:
        pair = f"{values[0]}/{values[1]}"
        return state | {pair: state.get(pair, 0) + 1}

    def merge(self, state: Any, other: Any) -> Any:
        return {pair: state.get(pair, 0) + other.get(pair, 0) for pair in sorted({*state, *other})}

    def result(self, state: Any) -> Any:
        return [f"{number} of {pair}" for pair, number in sorted(state.items())]


_OF_STATES: Final = (
    F.max_by("amount", "id").alias("newest"),
    F.min_by("id", "amount").alias("cheapest"),
    F.first("amount", by="at").alias("earliest"),
    F.last("amount", ignorenulls=True, by="at").alias("latest"),
    F.count_distinct("amount").alias("amounts"),
    F.approx_count_distinct("id").alias("about"),
    F.collect_list("amount", limit=100).alias("list"),
    F.collect_set("amount", limit=100).alias("set"),
    F.top("id", 3, by="amount").alias("top"),
    F.approx_percentile("id", [0.1, 0.5]).alias("quantiles"),
    F.udaf(_Pairs(), "product", "amount").alias("pairs"),
)


def _longest_row(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """An output for every row; now and then the key is forgotten."""
    ids = state.get() or []
    for row in rows:
        ids = [*ids, row["id"]]
        yield {"id": row["id"], "ids": len(ids), "sum": sum(ids)}
        if row["amount"] == 50:
            ids = []
    if ids:
        state.update(ids)
    else:
        state.clear()


def _bought(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """Everything that a function may keep, and timers behind it, before it and at once."""
    for row in rows:
        id_, product = row["id"], row["product"]
        state.update((state.get() or 0) + 1)
        state.products.update_value(product, (state.products.get_value(product) or 0) + 1)
        state.ids.append_value(id_)
        if row["amount"] == 50:
            state.last.clear()
            state.products.remove_key("tea")
        else:
            state.last.update(id_)
        state.timers.at(row["at"] + 1_500 * (id_ % 4) - 1_000)
        if id_ % 5 == 0:
            state.timers.delete(row["at"] + 500)
        yield {"id": id_, "n": state.get(), "products": sorted(state.products.iterator()), "ids": state.ids.get()}


def _looked(_: str, time_ms: int, state: Any) -> Iterator[dict[str, Any]]:
    if state.last.exists():
        state.last.clear()
        state.timers.at(time_ms + 2_000)
    yield {"at": time_ms, "n": state.get(), "products": sorted(state.products.keys()), "ids": state.ids.get()}


def bought(orders: Stream) -> Stream:
    """A function with stores and timers."""
    return orders.group_by("customer").process(
        _bought,
        ["id", "product", "amount", "at"],
        name="bought",
        stores=[map_state("products", ttl="4 seconds"), list_state("ids", ttl="3 seconds"), value_state("last")],
        on_timer=_looked,
    )


def _sorted_out(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[Any]:
    """Rows of its own, and of outputs with a name: by what the row says, by what the state does, and by none."""
    for row in rows:
        state.update((state.get() or 0) + 1)
        if row["amount"] is None:
            yield "unpaid", {"id": row["id"], "n": state.get()}
        elif row["amount"] > 1:
            yield "paid", {"id": row["id"], "product": row["product"], "amount": row["amount"]}
            yield "unread", {"id": row["id"]}
        if state.get() % 3 == 0:
            yield {"n": state.get()}


_OUTPUTS: Final = {
    "unpaid": "id BIGINT, n BIGINT",
    "paid": "id BIGINT, product STRING, amount BIGINT",
    "unread": "id BIGINT",
}


def sorted_out(orders: Stream) -> Stream:
    """A function with outputs."""
    return orders.group_by("customer").process(
        _sorted_out, ["id", "product", "amount"], name="sorted", schema="n BIGINT", outputs=_OUTPUTS
    )


def _composed_outputs() -> StatefulJob:
    """Nobody reads its own rows; one output is grouped, joined and written."""

    def rings(_: str, time_ms: int, state: Any) -> Iterator[Any]:
        yield "unpaid", {"id": time_ms, "n": state.get()}

    def sets(key: str, rows: list[dict[str, Any]], state: Any) -> Iterator[Any]:
        state.timers.at(rows[0]["at"] + 1_000)
        yield from _sorted_out(key, rows, state)

    made = _KEYED.group_by("customer").process(
        sets, ["id", "product", "amount", "at"], name="sorted", outputs=_OUTPUTS, on_timer=rings
    )
    paid, unpaid = made.output("paid"), made.output("unpaid")
    newest = unpaid.to_table("customer", name="newest")
    return StatefulJob(
        "tested",
        paid.group_by("product").aggregate(F.sum("amount").alias("sum"), name="sums").sink("sums"),
        paid.sink("paid"),
        unpaid.union(unpaid).sink("unpaid", key="customer"),
        newest.sink("newest"),
    )


def _windows_of_outputs() -> StatefulJob:
    """What a function and its timers put out, with event times, in windows behind."""

    def sets(_: str, rows: list[dict[str, Any]], state: Any) -> Iterator[Any]:
        for row in rows:
            state.timers.at(row["at"] + 1_500)
            yield {"id": row["id"], "at": row["at"]}

    def rings(_: str, time_ms: int, state: Any) -> Iterator[Any]:
        yield "rung", {"at": time_ms}

    made = _KEYED.group_by("product").process(
        sets, ["id", "at"], name="put", schema="id BIGINT, at BIGINT", outputs={"rung": "at BIGINT"},
        on_timer=rings, event_time="at",
    )  # fmt: skip
    seconds = window("at", "1 second")
    count = F.count().alias("n")
    return StatefulJob(
        "tested",
        made.group_by("id", seconds).aggregate(count, name="by-id", emit="close").sink("by-id"),
        made.output("rung").group_by("product", seconds).aggregate(count, name="rung", emit="close").sink("rung"),
    )


def _of_window(_: str, rows: list[dict[str, Any]], window: Any) -> Iterator[dict[str, Any]]:
    """A row for the window, and one for each that was paid."""
    yield {"n": len(rows), "ids": [row["id"] for row in rows], "ms": (window.end - window.start).total_seconds() * 1000}
    for row in rows:
        if row["amount"]:
            yield {"id": row["id"], "amount": row["amount"]}


def _one(result: Any) -> StatefulJob:
    return StatefulJob("tested", result.sink("out"))


def _orders(result: Any, *, once: bool = False) -> Operation:
    return Operation(job=_one(result), draw=_order, once=once)


def _in_time() -> Iterator[tuple[str, Operation]]:
    kinds = {
        "tumbling": window("at", "4 seconds"),
        "hopping": window("at", "4 seconds", "1 second"),
        "session": session_window("at", "1 second"),
    }
    groups: dict[str, Callable[[Any], GroupedStream]] = {
        "": lambda kind: _KEYED.group_by("customer", kind),
        "-repartitioned": lambda kind: _KEYED.group_by("product", kind),
    }
    for name, kind in kinds.items():
        for emit in ("update", "close"):
            for where, grouped in groups.items():
                result = grouped(kind).aggregate(*_MERGED, name="windows", emit=emit)
                yield f"{name}-{emit}{where}", _orders(result, once=emit == "close")
        states = groups["-repartitioned"](kind).aggregate(*_OF_STATES, name="windows", emit="close")
        yield f"{name}-states", _orders(states, once=True)
        for where, grouped in groups.items():
            called = grouped(kind).process(_of_window, ["amount", "id"], name="windows")
            yield f"{name}-process{where}", _orders(called, once=True)


def _joins() -> Iterator[tuple[str, Operation]]:
    of_streams: tuple[How, ...] = ("inner", "left")
    for of_a_stream in of_streams:
        for history in (None, "3 seconds"):
            joined = _PLAIN.join(_CUSTOMERS, on="customer", how=of_a_stream, history=history, name="joined")
            name = f"stream-table-{of_a_stream}{'-history' if history else ''}"
            yield name, Operation(job=_one(joined), draw=_order_or(_customer), once=True)
    kinds: tuple[How, ...] = ("inner", "left", "outer")
    for how in kinds:
        tables = _CUSTOMERS.join(_LIMITS, on="customer", how=how, name="joined")
        yield f"table-table-{how}", Operation(job=_one(tables), draw=_customer_or_limit)
    for how in of_streams:
        named = _ORDERS_TABLE.join(_CUSTOMERS, on="customer", how=how, name="joined")
        yield f"foreign-key-{how}", Operation(job=_one(named), draw=_order_row_or_customer)
    for how in kinds:
        near = _SHOWN.join(_CLICKS, on="ad", how=how, before="1 second", after="5 seconds", name="joined")
        yield f"stream-stream-{how}", Operation(job=_one(near), draw=_shown_or_clicked, once=True)


def _union(*others: Stream) -> Stream:
    return _PLAIN.union(*others)


_SORTED_OUT: Final = sorted_out(_PLAIN)

OPERATIONS: Final[Mapping[str, Operation]] = {
    "aggregate": _orders(_PLAIN.group_by("customer").aggregate(*_MERGED, *_ORDERED, name="sums")),
    "aggregate-combined": _orders(_PLAIN.group_by("product").aggregate(*_MERGED, name="sums")),
    "aggregate-each-row": _orders(_PLAIN.group_by("product").aggregate(*_MERGED, name="sums", combine=False)),
    "aggregate-states": _orders(
        _PLAIN.group_by("customer").aggregate(*_OF_STATES, F.variance("amount").alias("variance"), name="sums")
    ),
    "aggregate-states-combined": _orders(_PLAIN.group_by("product").aggregate(*_OF_STATES, name="sums")),
    "process": _orders(_PLAIN.group_by("customer").process(_longest_row, ["id", "amount"], name="ids"), once=True),
    "process-repartitioned": _orders(
        _PLAIN.group_by("product").process(_longest_row, ["id", "amount"], name="ids"), once=True
    ),
    "process-stores-timers": _orders(bought(_KEYED), once=True),
    "process-outputs": Operation(
        job=StatefulJob(
            "tested",
            _SORTED_OUT.sink("out"),
            *(_SORTED_OUT.output(name).sink(name) for name in ("unpaid", "paid")),
        ),
        draw=_order,
        once=True,
    ),
    "process-outputs-composed": Operation(job=_composed_outputs(), draw=_order),
    "process-outputs-in-windows": Operation(job=_windows_of_outputs(), draw=_order, once=True),
    "drop-duplicates": _orders(_KEYED.drop_duplicates("customer", within="3 seconds"), once=True),
    "drop-duplicates-repartitioned": _orders(_KEYED.drop_duplicates("product", within="3 seconds"), once=True),
    "sink-of-rows": _orders(_PLAIN, once=True),
    "table-grouped": Operation(
        job=_one(_CUSTOMERS.group_by("country").aggregate(F.count().alias("customers"), name="groups")), draw=_customer
    ),
    "table-of-aggregates-grouped": _orders(
        _PLAIN.group_by("customer")
        .aggregate(F.sum("amount").alias("spent"), F.count().alias("n"), name="sums")
        .group_by("spent")
        .aggregate(F.avg("n").alias("mean"), F.stddev_pop("n").alias("spread"), name="groups")
    ),
    "table-of-a-stream": _orders(_KEYED.to_table("customer", name="newest")),
    "table-of-a-stream-repartitioned": _orders(_KEYED.to_table("product", name="newest")),
    "union-of-rows": Operation(
        job=StatefulJob("tested", _union(_RETURNS).sink("out", key="customer")), draw=_order_or_return, once=True
    ),
    "union-aggregated": Operation(
        job=_one(_union(_RETURNS).group_by("customer").aggregate(*_MERGED, name="sums")), draw=_order_or_return
    ),
    **dict(_in_time()),
    **dict(_joins()),
}
