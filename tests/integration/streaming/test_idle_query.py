"""A query without input, on a real Spark: it asks no broker for anything, and notices a record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider.jars.jar_sets import spark_kafka_jars
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec

pytestmark = pytest.mark.long

# In a process of its own: a Spark context in the tests' process would stay there for the next ones.
QUERY = """
import json, sys, time
from pathlib import Path
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from airflow_provider.common.task_id import TaskId
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.streaming import StatefulJob, functions as F, stream
from airflow_provider.streaming.driver.slots.input_wait import InputWait
from airflow_provider.streaming.driver.spark.source_query import SourceQuery
from airflow_provider.streaming.planner.compile import TopicFacts, compile_job
from airflow_provider.testing.source_rows import types_of_source

servers, topic, jars, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", jars).getOrCreate()
)
job = StatefulJob("app", stream(topic).group_by("key").aggregate(F.count(), name="state"))
facts = TopicFacts(partitions={topic: 1}, delete_retention_ms={"app-state-changelog": 86_400_000})
source, connection = compile_job(job, facts, types_of_source).stages[0].source, KafkaConnection(servers)
batches = []

def on_batch(query, rows):
    batches.append(sorted(row["__offset"] for row in rows.collect()))
    return {0: max([2, *(offset + 1 for batch in batches for offset in batch)])}

def until(there):
    deadline = time.monotonic() + 120
    while not there() and query.active and time.monotonic() < deadline:
        time.sleep(0.05)
    return there()

# Where the last record's marker lies: what is before it is processed.
query = SourceQuery(
    spark, source, connection, {TaskId(0, 0): 1}, Path(folder), on_batch,
    lambda partitions: InputWait(connection, topic, "app", partitions),
)
query.start()
found = {"first": until(lambda: len(batches) == 1)}
polls = 0
for _ in range(40):
    polls += query.waits_for_data
    time.sleep(0.05)
found["polls"] = polls
producer = Producer({"bootstrap.servers": servers})
producer.produce(topic, b"x", b"k", partition=0)
producer.flush(20.0)
found["second"] = until(lambda: len(batches) > 1)
query.end()
found |= {"batches": batches, "error": query.error, "active": query.active}
Path(folder).with_name("found.json").write_text(json.dumps(found))
"""


@pytest.fixture
def found(bootstrap_servers: str, application_id: str, tmp_path: Path) -> dict[str, Any]:
    topic = f"{application_id}-in"
    TopicAdmin(KafkaConnection(bootstrap_servers)).ensure([TopicSpec(name=topic, partitions=1)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(20.0)
    producer.begin_transaction()
    producer.produce(topic, b"x", b"k", partition=0)
    producer.commit_transaction(20.0)
    jars = ",".join(map(str, spark_kafka_jars()))
    subprocess.run(
        [sys.executable, "-c", QUERY, bootstrap_servers, topic, jars, str(tmp_path / "checkpoint")],
        check=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    read: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    return read


def test_query_that_begins_early_has_a_micro_batch_at_once_and_then_polls_no_more(found: dict[str, Any]) -> None:
    assert found["first"], "a micro-batch although nothing is there but a marker"
    assert found["polls"] == 0
    assert found["second"]
    assert found["batches"] == [[], [2]]
    assert (found["error"], found["active"]) == (None, False)
