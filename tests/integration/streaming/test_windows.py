"""Which windows a row falls in, against Spark's; and a job with windows whose event time Spark decodes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from airflow_provider.streaming import StatefulJob, session_window, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.windowed_aggregate import starts_of_rows
from airflow_provider.streaming.terms.windows import Window
from airflow_provider.testing import InputRecord, JobTester, check_batching
from airflow_provider.testing.records import Counts

pytestmark = pytest.mark.xdist_group("spark-2")

CASES = [
    ("1 hour", None, None),
    ("1 day", None, "6 hours"),
    ("10 seconds", "5 seconds", None),
    ("10 seconds", "3 seconds", "1 second"),
    ("1 week", "1 day", "2 hours"),
    ("250 milliseconds", "100 milliseconds", None),
]
GAP = "5 seconds"

# In a process of its own: a Spark context in the tests' process would be everybody's.
BY_SPARK = """
import json, sys
from pyspark.sql import SparkSession, functions as F
times, cases, gap = json.load(open(sys.argv[1]))
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
rows = spark.createDataFrame(list(enumerate(times)), "i INT, ms BIGINT").coalesce(1)
rows = rows.withColumn("at", F.timestamp_millis("ms")).cache()
found = []
for size, slide, start in cases:
    windows = F.window("at", size, slide, start)
    pairs = rows.select("i", windows.alias("w")).selectExpr("i", "unix_millis(w.start) s", "unix_millis(w.end) e")
    found.append(sorted([r.i, r.s, r.e] for r in pairs.collect()))
sessions = rows.groupBy(F.session_window("at", gap).alias("w"), (F.col("i") % 3).alias("k")).count()
sessions = sessions.selectExpr("k", "unix_millis(w.start) s", "unix_millis(w.end) e", "count")
json.dump([found, sorted([r[0], r.s, r.e, r[3]] for r in sessions.collect())], open(sys.argv[2], "w"))
"""


@pytest.mark.long
def test_rows_fall_in_the_windows_that_they_fall_in_with_spark(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    times = [0, -1, 1, -3_600_000, 3_600_000, 5_000, 10_000]
    times += [choose.randrange(-20_000_000_000, 2_000_000_000_000) for _ in range(200)]
    times += [choose.randrange(-40, 40) * choose.choice([1_000, 2_500, 1_250]) for _ in range(150)]
    given, answer = tmp_path / "times.json", tmp_path / "by_spark.json"
    given.write_text(json.dumps([times, CASES, GAP]))
    subprocess.run(
        [sys.executable, "-c", BY_SPARK, str(given), str(answer)],
        check=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    windows_of_spark, sessions_of_spark = json.loads(answer.read_text())

    for case, expected in zip(CASES, windows_of_spark, strict=True):
        windows = window("at", *case)
        assert pairs_of(windows, times) == expected, case
    assert sessions_of(times) == sessions_of_spark


def pairs_of(windows: Window, times: list[int]) -> list[list[int]]:
    rows, starts = starts_of_rows(windows, np.array(times, np.int64))
    return sorted(
        [at, start, start + windows.size_ms] for at, start in zip(rows.tolist(), starts.tolist(), strict=True)
    )


def sessions_of(times: list[int]) -> list[list[int]]:
    """By the tester, with a watermark that closes nothing."""
    job = StatefulJob(
        "sessions",
        stream("times", schema="k STRING, at BIGINT", key="k", event_time="at", watermark="40000 weeks")
        .group_by("k", session_window("at", GAP))
        .aggregate(F.count().alias("n"), name="state"),
    )
    with JobTester(job) as tester:
        rows = [{"k": str(number % 3), "at": at} for number, at in enumerate(times)]
        for begin in range(0, len(rows), 100):
            tester.pipe_inputs(rows[begin : begin + 100])
        found = [(int(key), state) for key in "012" for state in tester.state(key)]
    return sorted(
        [key, *map(ms, (state["window"]["start"], state["window"]["end"])), state["n"]] for key, state in found
    )


def ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def test_event_time_may_be_a_timestamp_that_a_step_makes() -> None:
    job = StatefulJob(
        "made",
        stream("orders", schema="k STRING, day STRING, clock STRING", key="k", event_time="at", watermark="1 hour")
        .filter("day IS NOT NULL", name="no_day")
        .with_column("at", "to_timestamp(concat_ws(' ', day, clock))")
        .group_by("k", window("at", "1 day"))
        .aggregate(F.count().alias("n"))
        .sink("out"),
    ).on_error("skip")
    with JobTester(job) as tester:
        tester.pipe_input({"k": "a", "day": "1969-12-31", "clock": "23:59:59.999999"})
        tester.pipe_input({"k": "a", "day": None, "clock": "01:00:00"})
        tester.pipe_input({"k": "a", "day": "1970-01-01", "clock": None})
        (output, second) = tester.read_output()
        assert output.value["window"] == {"start": "1969-12-31T00:00:00.000Z", "end": "1970-01-01T00:00:00.000Z"}
        assert second.value["window"]["start"] == "1970-01-01T00:00:00.000Z"
        assert tester.counts.filtered == {"no_day": 1}


@pytest.mark.parametrize("time", ["at", None], ids=["column", "of-the-record"])
def test_event_time_goes_through_an_internal_topic_as_it_is(time: str | None) -> None:
    orders = stream("orders", schema="k STRING, at TIMESTAMP", event_time=time, watermark="1 hour")
    days = orders.group_by("k", window(time or "_source.timestamp", "1 day")).aggregate(F.count().alias("n"))
    with JobTester(StatefulJob("repartitioned", days.sink("out"))) as tester:
        for at in ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z", "1970-01-01T23:59:59.999999Z"):
            of_record = round(datetime.fromisoformat(at).timestamp() * 1000 - 0.5)
            tester.pipe_input({"k": "a", "at": at}, key="x", timestamp_ms=of_record)
        last = {record.key: record.value["n"] for record in tester.read_output()}

        assert last == {"a@1969-12-31T00:00:00.000Z": 1, "a@1970-01-01T00:00:00.000Z": 2}


def test_rows_of_one_record_are_late_together_or_not_at_all() -> None:
    visits = stream("visits", schema="k STRING, ats ARRAY<BIGINT>", event_time="at", watermark="0 seconds")
    times = visits.select("k", "explode(ats) AS at").filter("at <> 13", name="unlucky")
    hours = times.group_by("k", window("at", "1 hour"), trust_partitioning=True).aggregate(F.count().alias("n"))
    hour = 3_600_000
    visits_of = [[5, 6, 13], [2 * hour], [7, 2 * hour + 1], [8, 9], [], [13]]
    records = [InputRecord({"k": "a", "ats": ats}, key="a") for ats in visits_of]
    with JobTester(job := StatefulJob("visited", hours.sink("out"))) as tester:
        tester.pipe_inputs(records)
        last = {record.key: record.value["n"] for record in tester.read_output()}

        assert last == {"a@1970-01-01T00:00:00.000Z": 2, "a@1970-01-01T02:00:00.000Z": 2}
        assert tester.counts == Counts(processed=6, filtered={"no_at": 1, "unlucky": 1}, failed=0, late=1)
    check_batching(job, records, cuts=2)
