"""The tester on jobs whose steps need Spark."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.testing.script_results import script_results

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

SCRIPT = """
import dataclasses, json, sys
import pyarrow as pa, pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession, functions as S
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, functions as F, stream
from airflow_provider.testing import InputRecord, JobTester, check_batching


def job_of(rows, *aggregates, key="customer", trust=False):
    return StatefulJob("app", rows.group_by(key, trust_partitioning=trust).aggregate(*aggregates).sink("out"))


plain = stream("orders", schema="customer STRING, amount DOUBLE", key="customer")
sums = [F.count().alias("orders"), F.sum("amount").alias("spent")]
filtered = plain.filter("amount IS NOT NULL", name="no_amount").filter("amount < 100", name="too_much")
stepped = filtered.with_column("day", "to_date(_source.timestamp)").with_column("half", "amount / 2")
nested = stream("orders", schema="who STRUCT<name STRING>, tags ARRAY<STRING>")
nested = nested.with_column("name", "who.name").with_column("tag", "get(tags, 0)")
jobs = {
    "in the worker": job_of(plain, *sums).on_error("dead_letter", "letters"),
    "in Spark": job_of(plain.with_column("x", "sqrt(1)"), *sums).on_error("dead_letter", "letters"),
    "stepped": job_of(stepped, *sums, F.max("day").alias("day"), F.sum("half").alias("half")).on_error("skip"),
    "nested": job_of(nested, F.last("tag").alias("tag"), key="name", trust=True),  # its records have no keys
    "raw": job_of(stream("orders"), F.count().alias("n"), key="key"),
    "guarded": job_of(
        plain.filter("amount <> 0", name="nothing").with_column("part", "sqrt(1) / amount").with_column(
            "whole", "sqrt(1) / coalesce(amount, 0)"
        ),
        F.sum("part").alias("parts"),
        F.sum("whole").alias("wholes"),
    ).on_error("skip"),
}
orders = [
    {"customer": "ann", "amount": 2.5}, {"customer": "bob", "amount": None}, {"customer": "ann", "amount": 500},
    "no JSON", {"customer": None, "amount": 1}, {"customer": "cara", "amount": 1}, {"customer": "ann", "amount": 4},
]
records = {
    "nested": [{"who": {"name": "ann"}, "tags": ["a", "b"]}, {"who": {"name": "bob"}, "tags": []}],
    "raw": [],
    "guarded": [{"customer": "ann", "amount": 0}, {"customer": "ann", "amount": 4}, "no JSON"],
}
SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate().conf.set(
    "spark.sql.session.timeZone", "UTC"
)
results = {}
for name, job in jobs.items():
    with JobTester(job, partitions=2) as tester:
        if name == "raw":
            tester.pipe_input(b"\\xff", key="k")
        given = [InputRecord(value, timestamp_ms=1_767_225_600_123) for value in records.get(name, orders)]
        tester.pipe_inputs(given[:3])
        tester.pipe_inputs(given[3:])
        tester.restart(store="empty")
        tester.promote_standby()
        results[name] = {
            "states": tester.states(),
            "output": [(r.key, r.value) for r in tester.read_output()],
            "counts": dataclasses.asdict(tester.counts),
            "letters": [(str(l.value), l.partition, l.offset, l.error, l.timestamp_ms) for l in tester.dead_letters()],
        }
with JobTester(jobs["in Spark"], partitions=2) as tester:
    tester.pipe_inputs(orders)
    doubled = job_of(plain.with_column("twice", "amount * 2"), *sums, F.max("twice").alias("most"))
    tester.restart(job=doubled.on_error("skip"))
    before = tester.states()
    tester.pipe_input({"customer": "ann", "amount": 6})
    refused = []
    for job in (
        job_of(plain.with_column("amount", "CAST(amount AS BIGINT)"), *sums),
        job_of(plain.with_column("customer", "CAST(NULL AS INT)"), *sums, trust=True),
        job_of(plain.with_column("twice", "amount * to"), *sums),
    ):
        try:
            tester.restart(job=job)
        except ConfigurationError as error:
            refused.append(str(error))
    results["changed"] = {"before": before, "refused": refused}
def batching(steps, column):
    # What each step comes to in one micro-batch after another is what the state has.
    job = job_of(steps, F.first(column).alias("first"), F.last(column).alias("last")).on_error("skip")
    spark.sparkContext.setJobGroup(column, column)
    try:
        check_batching(job, [{"customer": "ann", "amount": n} for n in range(8)], seed=1, cuts=2, faults=False)
        found = "same"
    except AssertionError as error:
        found = str(error).splitlines()[0]
    return {"found": found, "calls": len(spark.sparkContext.statusTracker().getJobIdsForGroup(column))}


check_batching(jobs["stepped"], orders, seed=1, cuts=1)
spark = SparkSession.getActiveSession()
mean = S.arrow_udf(lambda amounts: pa.array([pc.mean(amounts).as_py()] * len(amounts)), "double")
results["batching"] = {
    "half": batching(plain.with_column("half", "sqrt(amount)"), "half"),
    "place": batching(plain.with_column("place", "monotonically_increasing_id()"), "place"),
    "now": batching(plain.with_column("now", "unix_micros(current_timestamp())"), "now"),
    "mean": batching(plain.with_column("mean", mean(S.col("amount"))), "mean"),
}
print("A query of the user's own", file=sys.stderr, flush=True)
try:
    SparkSession.getActiveSession().sql("SELECT nothing_of_this_name")
except AnalysisException:
    pass
json.dump(results, open(sys.argv[1], "w"), default=repr)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    read, said = script_results(SCRIPT, tmp_path_factory.mktemp("results"))
    read["said"] = said.split("A query of the user's own")
    return read


def test_values_that_spark_decodes_come_to_the_same_as_those_of_the_worker(results: dict[str, Any]) -> None:
    assert results["in the worker"] == results["in Spark"]
    assert [letter[0] for letter in results["in Spark"]["letters"]] == [
        "b'no JSON'",
        'b\'{"customer":null,"amount":1}\'',
    ]


def test_filters_count_and_columns_are_added_as_in_production(results: dict[str, Any]) -> None:
    assert results["stepped"]["states"] == {
        "ann": {"orders": 2, "spent": 6.5, "day": "datetime.date(2026, 1, 1)", "half": 3.25},
        "cara": {"orders": 1, "spent": 1.0, "day": "datetime.date(2026, 1, 1)", "half": 0.5},
    }
    assert results["stepped"]["counts"] == {
        "processed": 7,
        "filtered": {"no_amount": 1, "too_much": 1},
        "failed": 2,
        "late": 0,
    }


def test_schema_with_nested_types_is_decoded(results: dict[str, Any]) -> None:
    assert results["nested"]["states"] == {"ann": {"tag": "a"}, "bob": {"tag": None}}


def test_row_that_was_dropped_or_does_not_decode_has_no_values_that_could_fail(results: dict[str, Any]) -> None:
    found = results["guarded"]

    assert found["states"] == {"ann": {"parts": 0.25, "wholes": 0.25}}
    assert (found["counts"]["filtered"], found["counts"]["failed"]) == ({"nothing": 1}, 1)


def test_source_without_a_schema_has_the_records_key(results: dict[str, Any]) -> None:
    assert results["raw"]["output"] == [["k", {"key": "k", "n": 1}]]


def test_changed_job_whose_types_spark_knows_goes_on_or_is_refused(results: dict[str, Any]) -> None:
    assert results["changed"]["before"]["ann"] == {"orders": 3, "spent": 506.5, "most": None}
    other_type, other_key, no_column = results["changed"]["refused"]
    assert "sum(amount) of type double became sum(amount) of type bigint" in other_type
    assert "group_by('customer') of type string became group_by('customer') of type bigint" in other_key
    assert "`to` cannot be resolved" in no_column
    assert "\n" not in no_column


def test_what_spark_refuses_is_said_once_and_other_queries_say_all_that_they_do(results: dict[str, Any]) -> None:
    refused, own = results["said"]

    assert "QueryContextLogger" not in refused
    assert "QueryContextLogger" in own


def test_batching_is_checked_with_one_call_of_spark_for_each_cut(results: dict[str, Any]) -> None:
    assert results["batching"]["half"] == {"found": "same", "calls": 3}


@pytest.mark.parametrize("step", ["place", "now", "mean"])
def test_step_that_depends_on_its_micro_batch_is_found(results: dict[str, Any], step: str) -> None:
    assert "The result depends on where micro-batches end" in results["batching"][step]["found"]
    assert results["batching"][step]["calls"] > 8  # each micro-batch was one of its own
