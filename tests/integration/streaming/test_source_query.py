"""The plan from Kafka's records to the active step's rows, on a real Spark, from records at rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

# In a process of its own: a Spark context in the tests' process would be everybody's.
PLAN = """
import datetime, json, sys
from pyspark.sql import SparkSession
from airflow_provider.streaming import StatefulJob, functions as F, stream
from airflow_provider.streaming.driver.spark.source_query import rows_of_source
from airflow_provider.streaming.planner.compile import TopicFacts, compile_job
from airflow_provider.streaming.planner.row_decoder import SqlSession
from airflow_provider.testing.source_rows import types_of_source

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
values = [b'{"customer":"a","amount":1.5}', b'{"customer":"b"}', b'nonsense', None, b'{"customer":null,"amount":2}']
records = [("orders", 3, 10 + i, at, b"key", value) for i, value in enumerate(values)]
raw = spark.createDataFrame(
    records, "topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, key BINARY, value BINARY"
)
def job_of(rows, aggregate, key="customer"):
    return StatefulJob("app", rows.group_by(key).aggregate(aggregate, name="state"))


plain = stream("orders", schema="customer STRING, amount DOUBLE", key="customer")
stepped = (
    plain.filter("amount IS NOT NULL", name="no_amount")
    .with_column("cents", "CAST(amount * 100 AS BIGINT)")
    .filter("cents > 100", name="small")
)
many = plain
for number in range(130):
    many = many.filter(f"amount IS NULL OR amount != {number}", name=f"not_{number}")
many = many.filter("amount != 1.5", name="last")
jobs = {
    "many filters": job_of(many, F.count()),
    "in the worker": job_of(plain, F.sum("amount")),
    "in the worker, with letters": job_of(plain, F.sum("amount")).on_error("dead_letter", "letters"),
    "in Spark": job_of(stepped, F.sum("cents")),
    "in Spark, with letters": job_of(stepped, F.sum("cents")).on_error("dead_letter", "letters"),
    "raw": job_of(stream("orders"), F.count(), "key"),
}
by_spark = SqlSession(ansi=False)  # so that it takes all steps
facts = TopicFacts(partitions={"orders": 4}, delete_retention_ms={"app-state-changelog": 86_400_000})
plans = {
    name: [
        {k: bytes(v).decode() if isinstance(v, (bytes, bytearray)) else v for k, v in row.asDict().items()}
        for row in rows_of_source(raw, compile_job(job, facts, types_of_source, by_spark).stages[0].source).collect()
    ]
    for name, job in jobs.items()
}
counted = stream("orders", schema="customer STRING").group_by("customer").aggregate(F.count())
two = StatefulJob("two", counted.sink("out"))
facts = TopicFacts(
    partitions={"orders": 4, "two-out-repartition": 4},
    delete_retention_ms={"two-0-commits": 86_400_000, "two-out-changelog": 86_400_000},
)
behind = rows_of_source(raw, compile_job(two, facts, types_of_source).stages[1].source).collect()
plans["behind a repartition"] = [
    {k: bytes(v).decode() if isinstance(v, (bytes, bytearray)) else v for k, v in row.asDict().items()}
    for row in behind
]
json.dump(plans, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    answer = tmp_path_factory.mktemp("plans") / "plans.json"
    subprocess.run(
        [sys.executable, "-c", PLAN, str(answer)],
        check=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stderr=subprocess.DEVNULL,
    )
    read: dict[str, list[dict[str, Any]]] = json.loads(answer.read_text())
    return read


def test_every_record_comes_out_with_its_place(plans: dict[str, list[dict[str, Any]]]) -> None:
    for rows in plans.values():
        assert [(row["__partition"], row["__offset"], row["__source_key"]) for row in rows] == [
            (3, offset, "key") for offset in range(10, 15)
        ]


@pytest.mark.parametrize("name", ["in the worker", "behind a repartition"])
def test_worker_gets_the_records_as_they_are(plans: dict[str, list[dict[str, Any]]], name: str) -> None:
    assert set(plans[name][0]) == {"__partition", "__offset", "__source_key", "__value"}
    assert [row["__value"] for row in plans[name]][2:4] == ["nonsense", None]


def test_filters_mark_rows_in_their_order_and_never_what_does_not_decode(
    plans: dict[str, list[dict[str, Any]]],
) -> None:
    rows = plans["in Spark"]
    assert [row["__filtered"] for row in rows] == [None, 0, None, 0, None]
    assert [row["__corrupt"] is not None for row in rows] == [False, False, True, False, False]
    assert [row["__key"] for row in rows] == ["a", "b", None, None, None]
    assert [row["cents"] for row in rows] == [150, None, None, None, 200]


def test_filters_may_be_more_than_a_byte_counts(plans: dict[str, list[dict[str, Any]]]) -> None:
    assert [row["__filtered"] for row in plans["many filters"]] == [130, 130, None, 130, 2]


@pytest.mark.parametrize("name", ["in the worker, with letters", "in Spark, with letters"])
def test_dead_letters_need_the_record_as_it_was(plans: dict[str, list[dict[str, Any]]], name: str) -> None:
    assert plans[name][2]["__value"] == "nonsense"
    assert {row["__timestamp_ms"] for row in plans[name]} == {1767225600000}


def test_bytes_are_left_as_they_are(plans: dict[str, list[dict[str, Any]]]) -> None:
    assert {row["__key"] for row in plans["raw"]} == {"key"}
    assert {row["__corrupt"] for row in plans["raw"]} == {None}
