"""The shop's job comes to what its judge computes, where no instance is lost."""

from __future__ import annotations

import json
import random
import zlib
from typing import Any

from airflow_provider.testing import InputRecord, JobTester
from tests.chaos.shop_job import job_of
from tests.chaos.shop_judge import closed_windows, first_rows, products, reviews, sizes

Row = dict[str, Any]
SINKS = [f"shop-{name}" for name in ("windows", "unique", "reviews", "sizes", "products")]


def test_job_comes_to_what_its_judge_computes() -> None:
    chance = random.Random(7)
    at = 1_000_000
    partitions: list[list[Row]] = [[], []]
    for number in range(400):
        at += chance.randrange(400)
        customer = f"customer-{chance.randrange(12)}"
        late = chance.choice([0, 0, 0, 2_000, 30_000])
        partitions[zlib.crc32(customer.encode()) % 2].append(
            {
                "id": number,
                "customer": customer,
                "product": f"product-{chance.randrange(9)}",
                "amount": chance.choice([0, 1, 5]),
                "at": at - late,
            }
        )

    with JobTester(job_of(), partitions=2) as tester:
        for begin in range(0, 250, 50):
            tester.pipe_inputs(
                InputRecord(json.dumps(row), key=row["customer"], partition=partition, topic="shop-orders")
                for partition, rows in enumerate(partitions)
                for row in rows[begin : begin + 50]
            )
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
