"""Random values: the worker's decoding, Spark's decoding and plain Spark come to the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

# In a process of its own: a Spark context in the tests' process would be everybody's.
SCRIPT = r"""
import datetime, json, math, random, sys
from pyspark.sql import SparkSession, functions as S
from airflow_provider.streaming import StatefulJob, functions as F, stream
from airflow_provider.testing import InputRecord, JobTester

seed = int(sys.argv[2])
choose = random.Random(seed)
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
PLAIN = "k STRING, s STRING, d DOUBLE, i INT, b BIGINT, f BOOLEAN"
TOKENS = [
    "null", "true", "false", "0", "-0", "-0.0", "-1", "7", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "1.0", "0.1", "1e3", "1E-7", "1e400", "3.10", '""', '"x"', '"\\u00e9\\n\\""', '"NaN"',
    '"Infinity"', '"-INF"', '"5"', "[]", "[1, 2.50]", '{"a" : 1, "a": null}', '"\\ud83d\\ude00"', "1" * 1500,
    "NaN", "Infinity", "-Infinity", '"\\ud800"', '"\\udc00x"', "'x'", "01", "+1", ".5", "1.", "\xff", '"\xff"',
    '"\xe9"', '"a\tb"', '"\\q"', "[" * 400 + "]" * 400, "[" * 600 + "]" * 600, '{"a":' * 2000 + "1" + "}" * 2000, "",
]
WRAPPED = ["%s x", "%s%s", "[%s]", "%s,", "\xef\xbb\xbf%s", " %s \n", "%s\x00", "/**/%s"]
ODD = ["", " ", "null", "7", '"x"', "[]", "{", "}", "{}", "{'k':1}", "{k:1}", "\xff\xfe"]


def value():
    if choose.random() < 0.03:
        return choose.choice(ODD).encode("latin-1")
    names = choose.choices(["k", "k", "s", "d", "i", "b", "f", "other", "oth\xffer"], k=choose.randrange(7))
    # Half of them have good keys, so that there is something to group.
    fields = [("k", json.dumps(choose.choice("abc\xe9")))] if choose.random() < 0.7 else []
    fields += [(name, choose.choice(TOKENS[:30] if choose.random() < 0.9 else TOKENS)) for name in names if name != "k"]
    if choose.random() < 0.1:
        fields += [("k", choose.choice(TOKENS)), ("i", "1")]
    text = "{" + ", ".join('"%s":%s' % field for field in fields) + "}"
    if choose.random() < 0.04:
        wrapped = choose.choice(WRAPPED)
        text = wrapped.replace("%s", text)
    if choose.random() < 0.03:
        text = text[: choose.randrange(len(text))]
    return text.encode("latin-1")


def run(result, values):
    job = StatefulJob("app", result.sink("out")).on_error("dead_letter", "letters")
    with JobTester(job) as tester:
        for begin in range(0, len(values), 1000):
            tester.pipe_inputs(
                [InputRecord(v, key=b"x", partition=0, timestamp_ms=1) for v in values[begin : begin + 1000]]
            )
        return {
            "states": {key: as_texts(state) for key, state in tester.states().items()},
            "output": [(r.key, r.value) for r in tester.read_output()],
            "counts": [tester.counts.processed, tester.counts.failed],
            "letters": [letter.offset for letter in tester.dead_letters()],
            "reasons": [letter.message[:120] for letter in tester.dead_letters()],
        }


def as_text(v):
    if isinstance(v, float) and not math.isfinite(v):
        return "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity"
    if isinstance(v, datetime.datetime):
        return v.strftime("%Y-%m-%dT%H:%M:%S.%f")
    if isinstance(v, datetime.date):
        return v.isoformat()
    return v if v is None or isinstance(v, (bool, int, str)) else float(v)


def as_texts(state):
    return {n: as_text(v) for n, v in state.items()} if isinstance(state, dict) else state


def by_spark(schema, values, bad, key, aggregates):
    bad = set(bad)
    good = [(bytearray(v),) for at, v in enumerate(values) if at not in bad and v is not None]
    rows = spark.createDataFrame(good, "v BINARY").select(
        S.from_json(S.col("v").cast("string"), schema, {"mode": "FAILFAST", "maxNumLen": "2000000000"}).alias("v")
    ).select("v.*")
    found = rows.groupBy(key).agg(*[a.alias(n) for n, a in aggregates.items()])
    found = found.withColumn("_k", S.col(key).cast("string")).where("_k IS NOT NULL")
    # Of doubles, groupBy may keep either zero as the name of its group.
    name = (lambda k: "0.0" if k == "-0.0" else k) if key in ("r", "x") else str
    return {name(r["_k"]): {n: as_text(r[n]) for n in aggregates} for r in found.collect()}


values = [value() for _ in range(4000)]
aggregates = (
    F.count().alias("n"), F.count("s").alias("ns"), F.sum("i").alias("si"), F.mean("i").alias("mi"),
    F.min("d").alias("ld"), F.max("d").alias("gd"), F.min("s").alias("ls"), F.max("s").alias("gs"),
    F.min("b").alias("lb"), F.max("b").alias("gb"), F.count("f").alias("nf"), F.last("s").alias("last"),
)
plain = stream("in", schema=PLAIN, key="k")
worker = run(plain.group_by("k").aggregate(*aggregates), values)
filtered = run(plain.filter("true", name="none").group_by("k").aggregate(*aggregates), values)
wanted = by_spark(PLAIN, values, worker["letters"], "k", {
    "n": S.count("*"), "ns": S.count("s"), "si": S.sum("i"), "mi": S.avg("i"), "ld": S.min("d"), "gd": S.max("d"),
    "ls": S.min("s"), "gs": S.max("s"), "lb": S.min("b"), "gb": S.max("b"), "nf": S.count("f"),
})

RICH = (
    "k STRING, p DECIMAL(20,2), w DECIMAL(38,10), r FLOAT, x DOUBLE, q SMALLINT, at TIMESTAMP, here TIMESTAMP_NTZ, "
    "day DATE, o STRUCT<a: INT, l: ARRAY<STRING>, m: MAP<STRING, DATE>>"
)


def rich():
    def some(make):
        return make() if choose.random() < 0.8 else None

    day = lambda: str(datetime.date(2000, 1, 1) + datetime.timedelta(days=choose.randrange(-50000, 50000)))
    clock = lambda: "%02d:%02d:%02d" % (choose.randrange(24), choose.randrange(60), choose.randrange(60))
    fields = {
        "k": choose.choice("abc"),
        "p": some(lambda: "%d.%02d" % (choose.randrange(-(10**17), 10**17), choose.randrange(100))),
        "w": some(lambda: "%d.%010d" % (choose.randrange(10**20), choose.randrange(10**10))),
        "r": some(lambda: choose.choice([0.1, -0.25, 3.4e38, 1e-45, choose.uniform(-9, 9)])),
        "x": some(lambda: choose.choice([0.0, -0.0, 1.5, -1.5, 1e300])),
        "q": some(lambda: choose.randrange(-3, 3)),
        "at": some(lambda: day() + "T" + clock() + choose.choice(["Z", "+02:00", "-05:30", ".123456Z", ""])),
        "here": some(lambda: day() + "T" + clock() + choose.choice(["", ".5"])),
        "day": some(day),
        "o": some(lambda: {"a": some(lambda: 1), "l": ["x", None], "m": {"d": day()}}),
    }
    text = json.dumps({name: v for name, v in fields.items() if v is not None})
    for name in ("p", "w"):  # as numbers
        text = text.replace(f'"{name}": "{fields[name]}"', f'"{name}": {fields[name]}')
    for name in ("x",):
        if choose.random() < 0.1:
            text = text.replace(f'"{name}": {fields[name]}', f'"{name}": "NaN"')
    return text.encode()


# Spark takes each of these for something that nobody wrote.
MISREAD = [b'{"k":"a","p":"1,5"}', b'{"k":"a","at":"10:00:00"}', b'{"k":"a","at":1700000000000}']
records = [rich() for _ in range(1500)]
columns = ["p", "w", "r", "x", "q", "at", "here", "day"]
source = stream("in", schema=RICH, key="k")
results = {
    **{f"sum_{c}": F.sum(c) for c in ("p", "w", "q")}, **{f"mean_{c}": F.mean(c) for c in ("p", "q")},
    **{f"min_{c}": F.min(c) for c in columns}, **{f"max_{c}": F.max(c) for c in columns}, "count_o": F.count("o"),
}
rich_tester = run(source.group_by("k").aggregate(*[a.alias(n) for n, a in results.items()]), records + MISREAD)
functions = {"sum": S.sum, "mean": S.avg, "min": S.min, "max": S.max, "count": S.count}
rich_spark = by_spark(
    RICH, records + MISREAD, rich_tester["letters"], "k",
    {n: functions[n.partition("_")[0]](n.partition("_")[2]) for n in results},
)


def keep(key, rows, state):
    state.update([*(state.get() or []), *rows][-3:])


kept = run(source.group_by("k").process(keep, columns=[*columns, "o"]), records)
keys = {}
for name in columns:
    by_key = run(stream("in", schema=RICH, key=name).group_by(name).aggregate(F.count().alias("n")), records)
    bad = by_key["letters"]
    groups = by_spark(RICH, records, bad, name, {"n": S.count("*")})
    keys[name] = [
        sorted((k, row["n"]) for k, row in by_key["states"].items()),
        sorted((k, row["n"]) for k, row in groups.items()),
    ]
kept_types = {
    key: [{n: type(v).__name__ for n, v in row.items() if v is not None} for row in rows]
    for key, rows in kept["states"].items()
}
json.dump({
    "worker": worker, "filtered": filtered, "spark": wanted, "values": [v.decode("latin-1") for v in values],
    "rich": rich_tester, "rich by spark": rich_spark, "keys": keys, "kept": kept_types,
    "kept failed": kept["counts"][1],
}, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    path = tmp_path_factory.mktemp("values") / "results.json"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(seed)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr[-4000:]}"
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def test_filter_changes_nothing_of_what_counts(results: dict[str, Any]) -> None:
    worker, filtered = results["worker"], results["filtered"]
    only_one = sorted({*worker["letters"]} ^ {*filtered["letters"]})
    assert not only_one, [results["values"][at][:200] for at in only_one[:5]]
    assert {name: worker[name] for name in ("states", "output", "counts")} == {
        name: filtered[name] for name in ("states", "output", "counts")
    }
    assert len(worker["letters"]) > 200


def test_plain_types_come_to_what_spark_makes_of_the_good_records(results: dict[str, Any]) -> None:
    states = {key: {n: v for n, v in row.items() if n != "last"} for key, row in results["worker"]["states"].items()}
    assert states == results["spark"]
    assert len(states) > 3


def test_decimals_floats_dates_and_times_come_to_what_spark_makes_of_them(results: dict[str, Any]) -> None:
    def same(value: Any) -> Any:
        return value.removesuffix("Z") if isinstance(value, str) else value

    states = {key: {n: same(v) for n, v in row.items()} for key, row in results["rich"]["states"].items()}
    by_spark = results["rich by spark"]
    for key, row in by_spark.items():
        for name in ("min_r", "max_r"):  # Spark's own client has a FLOAT as the double nearest to it
            assert states[key].pop(name) == pytest.approx(row.pop(name), rel=1e-6)
    assert states == by_spark
    assert results["rich"]["letters"] == [1500, 1501, 1502]
    assert all(
        word in why for word, why in zip(("'1,5'", "no date", "seconds"), results["rich"]["reasons"], strict=True)
    )


@pytest.mark.parametrize("column", ["p", "w", "r", "x", "q", "at", "here", "day"])
def test_keys_of_any_type_are_the_groups_of_spark(results: dict[str, Any], column: str) -> None:
    ours, by_spark = results["keys"][column]
    assert ours == by_spark


def test_row_of_process_is_kept_with_its_types(results: dict[str, Any]) -> None:
    kinds = {
        "p": "Decimal", "w": "Decimal", "r": "float", "x": "float", "q": "int", "at": "datetime", "here": "datetime",
        "day": "date", "o": "dict",
    }  # fmt: skip
    assert results["kept failed"] == 0
    rows = [row for rows in results["kept"].values() for row in rows]
    assert rows
    for row in rows:
        assert row == {name: kinds[name] for name in row}
