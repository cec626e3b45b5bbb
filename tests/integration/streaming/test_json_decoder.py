"""The worker's decoding against Spark's."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider.streaming.json.json_decoder import JsonDecoder

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

SCHEMA = "name STRING, amount DOUBLE, quantity INT, at BIGINT, paid BOOLEAN"
# In a process of its own: a Spark context in the tests' process would be everybody's.
BY_SPARK = """
import json, sys
from pyspark.sql import SparkSession, functions as F
values = json.load(open(sys.argv[1]))
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.createDataFrame([(i, v) for i, v in enumerate(values)], "i INT, v STRING").coalesce(1)
options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
parsed = rows.select("i", F.from_json("v", sys.argv[2] + ", bad STRING", options).alias("p")).select("i", "p.*")
json.dump([
    None if r.bad is not None else [repr(x) for x in (r.name, r.amount, r.quantity, r.at, r.paid)]
    for r in parsed.orderBy("i").collect()
], open(sys.argv[3], "w"))
"""


def random_token(choose: random.Random) -> str:
    return choose.choice(
        [
            "null", "true", "false", "0", "-1", "7", "2147483647", "2147483648", "-9223372036854775808", "1.0", "0.1",
            "1e3", "-0.0", "3.10", '""', '"x"', '"é \\u00e9 \\n \\""', '"NaN"', '"Infinity"', '"5"', "[]", "[1, 2]",
            '{"a": 1}', str(choose.randrange(-(10**12), 10**12)), repr(choose.uniform(-1e6, 1e6)),
        ]
    )  # fmt: skip


def random_value(choose: random.Random) -> str:
    names = choose.sample(["name", "amount", "quantity", "at", "paid", "other"], choose.randrange(7))
    text = "{" + ", ".join(f'"{name}":{random_token(choose)}' for name in names) + "}"
    if choose.random() < 0.05:
        text = text[: choose.randrange(1, len(text))]
    return text


def test_worker_decodes_json_as_spark_does(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    values = [random_value(choose) for _ in range(3000)]
    given, answer = tmp_path / "values.json", tmp_path / "by_spark.json"
    given.write_text(json.dumps(values))
    subprocess.run(
        [sys.executable, "-c", BY_SPARK, str(given), SCHEMA, str(answer)],
        check=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stderr=subprocess.DEVNULL,
    )
    decoder = JsonDecoder.of(SCHEMA)
    assert decoder is not None
    decoded = decoder.decode(pa.chunked_array([[value.encode() for value in values]], pa.binary()))
    columns = [decoded.columns[field.name].to_pylist() for field in decoder.fields]
    ours = [None if at in decoded.bad else [repr(column[at]) for column in columns] for at in range(len(values))]
    by_spark = json.loads(answer.read_text())
    different = [(v, a, b) for v, a, b in zip(values, ours, by_spark, strict=True) if a != b]
    assert not different, different[:5]
    assert sum(row is None for row in by_spark) > 100
