from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider.common.json_codec import from_json
from airflow_provider.control.records.job_description import JobDescription, TopicKind
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import InMemory, StatefulJob, stream
from airflow_provider.streaming import functions as F

LINES = stream("lines", schema="line STRING")
WORDS = LINES.select("explode(split(line, ' ')) AS word").filter("word <> '\"'", name="empty")
JOB = StatefulJob(
    "app",
    WORDS.group_by("word").aggregate(F.count().alias("count")).sink("counts"),
    WORDS.group_by("word", partitions=3).aggregate(F.max("word").alias("most"), combine=False).sink("most"),
    WORDS.sink("words", key="word"),
).on_error("dead_letter", topic="letters")


def test_topics_are_listed_with_what_they_are_and_how_many_partitions_they_have() -> None:
    described = JOB.description().with_partitions({"lines": 4})

    assert [(t.name, t.kind, t.stage, t.partitions) for t in described.topics] == [
        ("lines", TopicKind.SOURCE, 0, 4),
        ("app-counts-repartition", TopicKind.REPARTITION, 0, 4),
        ("app-most-repartition", TopicKind.REPARTITION, 2, 3),
        ("app-counts-changelog", TopicKind.CHANGELOG, 1, 4),
        ("app-most-changelog", TopicKind.CHANGELOG, 3, 3),
        ("app-0-commits", TopicKind.COMMITS, 0, 4),
        ("app-2-commits", TopicKind.COMMITS, 2, 4),
        ("app-4-commits", TopicKind.COMMITS, 4, 4),
        ("counts", TopicKind.SINK, 1, 4),
        ("most", TopicKind.SINK, 3, 3),
        ("words", TopicKind.SINK, 4, 4),
        ("letters", TopicKind.DEAD_LETTERS, 0, 4),
    ]
    assert described.num_partitions == {0: 4, 1: 4, 2: 4, 3: 3, 4: 4}
    assert described.stores == ("counts", "most")


def test_partitions_that_only_the_cluster_knows_are_not_guessed() -> None:
    with pytest.raises(ConfigurationError, match="How many partitions 'lines' has is not known"):
        _ = JOB.description().num_partitions


def test_description_survives_json() -> None:
    assert from_json(JOB.describe("json"), JobDescription) == JOB.description()


def test_topics_of_an_earlier_version_are_remembered_until_a_reset() -> None:
    smaller = StatefulJob("app", *JOB.sinks[:1]).description()

    after = smaller.after(JOB.description())

    assert after.gone == ("app-most-repartition", "app-most-changelog", "app-2-commits", "app-4-commits")
    assert JOB.description().after(after).gone == ()
    assert smaller.after(None) == smaller


def test_text_says_what_each_stage_reads_does_and_writes() -> None:
    text = JOB.describe()

    assert text.splitlines()[:10] == [
        "app",
        "",
        "stage 0: counts-repartition",
        "  reads   lines",
        "  rows    by the workers",
        "  step    select explode(split(line, ' ')) AS word (counted as no_word where there is no element)",
        "  step    filter word <> '\"' (counted as empty where dropped)",
        "  key     word",
        "  does    combine count() AS count",
        "  store   none",
    ]
    assert "app-most-repartition    repartition   2      3" in text


def test_kind_of_a_store_is_said_where_it_is_not_rocksdb() -> None:
    kept = JOB.options(stores={"counts": InMemory()})

    assert "  store   counts, kept by memory" in kept.describe().splitlines()
    assert "  store   counts" in JOB.describe().splitlines()


def test_picture_joins_topics_and_stages() -> None:
    lines = [line.strip() for line in JOB.describe("mermaid").splitlines()]

    assert lines[0] == "flowchart LR"
    assert 't0(["lines"])' in lines
    assert 't2(["app-most-repartition<br/>3 partitions"])' in lines
    assert {"t0 --> s0", "s0 --> t1", "t1 --> s1", "s1 --> t8", 's1 --- k1[("counts")]', "s4 -.-> t11"} <= set(lines)
    assert any("word #lt;#gt; '#quot;'" in line for line in lines)


def test_format_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"describe\(\) got 'svg': choose one of 'text', 'mermaid', 'json'"):
        JOB.describe("svg")  # type: ignore[arg-type]


def test_job_is_described_without_spark_and_kafka(tmp_path: Path) -> None:
    script = """
import sys
from airflow_provider.streaming import StatefulJob, functions as F, stream
StatefulJob("a", stream("t", schema="w STRING").group_by("w").aggregate(F.count()).sink("s")).describe()
print([name for name in ("pyspark", "confluent_kafka", "airflow") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
