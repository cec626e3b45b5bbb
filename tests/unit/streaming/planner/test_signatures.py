"""Signatures stand in the commits of running jobs: none of them changes, by no byte, without a reason that is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from airflow_provider.common.json_codec import to_json
from airflow_provider.streaming import StatefulJob, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.planner.compile import compile_job
from tests.builders import spark_types, topic_facts

ORDERS: Final = stream("orders", schema="id STRING, customer STRING, amount BIGINT, at BIGINT", key="customer")
TIMED: Final = stream(
    "orders", schema="customer STRING, amount DOUBLE, at TIMESTAMP", event_time="at", watermark="1 hour"
)
CUSTOMERS: Final = table("customers", schema="customer STRING, country STRING", key="customer")
ENRICHED: Final = ORDERS.join(CUSTOMERS, on="customer", name="enriched")
SUMS: Final = (F.count().alias("orders"), F.mean("amount").alias("mean"), F.max("amount").alias("most"))
JOBS: Final = {
    "one stage": StatefulJob("app", ORDERS.group_by("customer").aggregate(*SUMS).sink("out")),
    "two stages": StatefulJob("app", ORDERS.group_by("id").aggregate(*SUMS).sink("out")),
    "two stages, each row": StatefulJob("app", ORDERS.group_by("id").aggregate(*SUMS, combine=False).sink("out")),
    "windows": StatefulJob("app", TIMED.group_by("customer", window("at", "1 hour")).aggregate(*SUMS).sink("out")),
    "join for two sinks": StatefulJob(
        "app",
        ENRICHED.group_by("country").aggregate(F.sum("amount").alias("spent")).sink("by-country"),
        ENRICHED.sink("enriched-orders"),
        ENRICHED.group_by("id").aggregate(F.min("amount").alias("least")).sink("by-id"),
    ),
}
TYPES: Final = {"amount": pa.float64(), "at": pa.timestamp("us", tz="UTC")}
"""What Spark says of those that it decodes."""
WRITTEN: Final = json.loads(Path(__file__).with_name("signatures.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", JOBS)
def test_signatures_are_those_that_are_in_commits(name: str) -> None:
    job = compile_job(JOBS[name], topic_facts(JOBS[name]), spark_types(**TYPES))

    found = {stage.name: to_json(stage.spec.store.signature).decode() for stage in job.stages}

    assert found == {stage: json.dumps(kept, separators=(",", ":")) for stage, kept in WRITTEN[name].items()}
