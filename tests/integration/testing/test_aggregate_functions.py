"""Aggregate functions on random rows, compared with those of Spark that have their names."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.integration.testing.script_results import script_results

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

SCRIPT = """
import json, random, sys
from pyspark.sql import SparkSession
from airflow_provider.streaming import StatefulJob, functions as F, stream
from airflow_provider.testing import JobTester

FILTER = "amount > 10 OR text = 'a'"
SCHEMA = "k STRING, id BIGINT, amount DOUBLE, price DECIMAL(12,2), text STRING, flag BOOLEAN, day DATE, at TIMESTAMP"
COLUMNS = ["id", "amount", "price", "text", "flag", "day", "at"]
ours, theirs = [], []
def both(name, aggregate, sql):
    for filter in (None, FILTER):
        ours.append(aggregate(filter).alias(f"{name} {len(ours)}"))
        theirs.append(sql if filter is None else f"{sql} FILTER (WHERE {filter})")
for c in COLUMNS:
    both(f"max_by {c}", lambda f, c=c: F.max_by(c, "id", filter=f), f"max_by({c}, id)")
    both(f"min_by {c}", lambda f, c=c: F.min_by(c, "id", filter=f), f"min_by({c}, id)")
    both(f"list {c}", lambda f, c=c: F.collect_list(c, limit=99, filter=f), f"sort_array(collect_list({c})!)")
    both(f"set {c}", lambda f, c=c: F.collect_set(c, limit=99, filter=f), f"sort_array(collect_set({c})!)")
    both(f"distinct {c}", lambda f, c=c: F.count_distinct(c, filter=f), f"count(DISTINCT {c})")
    both(f"pairs {c}", lambda f, c=c: F.count_distinct(c, "text", filter=f), f"count(DISTINCT {c}, text)")
    for name in ("count", "min", "max"):
        both(f"{name} {c}", lambda f, c=c, name=name: getattr(F, name)(c, filter=f), f"{name}({c})")
for c in ("id", "amount", "price"):
    for name in ("sum", "mean", "variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop"):
        both(f"{name} {c}", lambda f, c=c, name=name: getattr(F, name)(c, filter=f), f"{name}({c})")
both("rows", lambda f: F.count(filter=f), "count(*)")
theirs = [
    text.replace("!)", ")") if "FILTER" not in text
    else text.replace(f"!) FILTER (WHERE {FILTER})", f" FILTER (WHERE {FILTER}))")
    for text in theirs
]
chance = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else SEED)
def row(number):
    pick = lambda *values: chance.choice([None, *values])
    return {
        "k": chance.choice("xyz"), "id": number * 7 % 61, "amount": pick(0.5, -3.25, 12.0, 1e9, "NaN", "Infinity"),
        "price": pick(0.05, 12.5, -7), "text": pick("a", "b", "\\u00e9", ""), "flag": pick(True, False),
        "day": pick("2026-01-31", "1969-12-31"), "at": pick("2026-01-31T10:00:00Z", "2026-01-31T10:00:00.000001Z"),
    }
rows = [row(number) for number in range(60)]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.createDataFrame([[json.dumps(row)] for row in rows], "value STRING").selectExpr(
    f"from_json(value, '{SCHEMA}') AS v"
).select("v.*").createOrReplaceTempView("given")
names = [aggregate.name for aggregate in ours]
listed = ", ".join(f"{text} AS `{name}`" for name, text in zip(names, theirs))
of_spark = {r["k"]: r.asDict() for r in spark.sql(f"SELECT k, {listed} FROM given GROUP BY k").collect()}
found = {}
for way, options in {"by key": {"trust_partitioning": True}, "combined": {}}.items():
    grouped = stream("rows", schema=SCHEMA).group_by("k", **options)
    with JobTester(StatefulJob("app", grouped.aggregate(*ours, name="kept").sink("out"))) as tester:
        for at in range(0, len(rows), 13):
            tester.pipe_inputs(rows[at : at + 13])
        found[way] = tester.states("kept")
def plain(value):
    if isinstance(value, list):
        return [plain(one) for one in value]
    if hasattr(value, "astimezone"):
        return str(value.replace(tzinfo=None))
    return float(repr(value)) if isinstance(value, float) else str(value)
results = {
    way: [
        [key, name, plain(of_spark[key][name]), plain(states[key][name])] for key in of_spark for name in names
    ]
    for way, states in found.items()
}
json.dump(results, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[Any]]]:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    folder: Path = tmp_path_factory.mktemp("results")
    read, _ = script_results(SCRIPT.replace("SEED)", f"{seed})"), folder)
    return read


@pytest.mark.parametrize("way", ["by key", "combined"])
def test_functions_come_to_what_those_of_spark_come_to(results: dict[str, list[list[Any]]], way: str) -> None:
    assert len(results[way]) > 300
    wrong = [found for found in results[way] if not same(*found[2:])]
    assert wrong == []


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9, nan_ok=True)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
