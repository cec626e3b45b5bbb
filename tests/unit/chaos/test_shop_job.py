"""The shop's job comes to what its judge computes, where no instance is lost."""

from __future__ import annotations

import json
import random
import zlib
from typing import Any

from airflow_provider.testing import InputRecord, JobTester
from tests.chaos.judge import Record
from tests.chaos.shop_job import job_of
from tests.chaos.shop_judge import closed_windows, first_rows, products, reviews, sizes, stamps

Row = dict[str, Any]
SINKS = [f"shop-{name}" for name in ("windows", "unique", "reviews", "sizes", "products", "stamped")]

READ = (4, 9, 29, 114, 124, 138)
"""Customers that have been read before each piece of the orders, and at last."""


def of(row: Row) -> int:
    return zlib.crc32(row["customer"].encode()) % 2


def changed(rows: list[Row]) -> list[InputRecord]:
    return [
        InputRecord(json.dumps(row), key=row["customer"], partition=of(row), topic="shop-versions")
        for row in sorted(rows, key=of)
    ]


def test_job_comes_to_what_its_judge_computes() -> None:
    chance = random.Random(7)
    at = 1_000_000
    partitions: list[list[Row]] = [[], []]
    # What is asked of a version holds once both partitions have had a record, and no silence.
    customers: list[Row] = [
        {"customer": f"customer-{customer}", "version": -n, "changed": at - n * 40_000}
        for n in (2, 1)
        for customer in (0, 4)
    ]
    for number in range(400):
        at += chance.randrange(400)
        customer = f"customer-{chance.randrange(12)}"
        late = chance.choice([0, 0, 0, 2_000, 30_000])
        if number % 3 == 0:
            customers.append({"customer": f"customer-{chance.randrange(10)}", "version": number, "changed": at})
        order = {
            "id": number,
            "customer": customer,
            "product": f"product-{chance.randrange(9)}",
            "amount": chance.choice([0, 1, 5]),
            "at": at - late,
        }
        partitions[of(order)].append(order)

    with JobTester(job_of(), partitions=2) as tester:
        tester.pipe_inputs(changed(customers[: READ[0]]))
        for begin in range(0, 250, 50):
            tester.pipe_inputs(
                InputRecord(json.dumps(row), key=row["customer"], partition=partition, topic="shop-orders")
                for partition, rows in enumerate(partitions)
                for row in rows[begin : begin + 50]
            )
            # The table is behind its stream, and then ahead of it.
            tester.pipe_inputs(changed(customers[READ[begin // 50] : READ[begin // 50 + 1]]))
            tester.restart()
        found = {sink: tester.read_output(sink) for sink in SINKS}

    def same(sink: str, rows: list[Row]) -> None:
        assert rows
        assert sorted(json.dumps(record.value) for record in found[sink]) == sorted(map(json.dumps, rows))

    def newest(sink: str) -> dict[str | None, Row]:
        return {record.key: record.value for record in found[sink]}

    windows = [row for rows in partitions for row in closed_windows(rows)[0]]
    same("shop-windows", windows)
    same("shop-unique", [row for rows in partitions for row in first_rows(rows)[0]])
    same("shop-reviews", [row for rows in partitions for row in reviews(rows)])
    assert newest("shop-sizes") == sizes(windows)
    assert newest("shop-products") == products(row for rows in partitions for row in rows)
    changes = [
        Record(of(row), n, row["customer"].encode(), json.dumps(row).encode()) for n, row in enumerate(customers)
    ]
    over, versions = stamps(dict(enumerate(partitions)), changes)
    met = {record.value["id"]: record.value["version"] for record in found["shop-stamped"]}
    assert sorted(met) == sorted(row["id"] for row in over)
    assert len(versions) > 200
    assert {number: met[number] for number in versions} == versions
