"""Steps that make several rows of a record, or none, as Spark carries them out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

# In a process of its own: a Spark context in the tests' process would be everybody's.
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import stream
from airflow_provider.streaming.driver.spark.source_query import rows_of_source
from airflow_provider.streaming.planner.compiled_job import SourceSpec

spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").getOrCreate()
)
KAFKA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)

def rows(stream, key, columns, values, keeps_records=False, with_value=False):
    spec = SourceSpec(
        application_id="app", topic=stream.topic, schema=stream.schema, steps=stream.steps, key_name=key,
        columns=columns, decoded_by_worker=False, keeps_records=keeps_records, max_offsets_per_trigger=None,
        kafka_options=(),
    )
    records = [
        (None, value if isinstance(value, (bytes, type(None))) else json.dumps(value).encode(), "t", 0, at, None, 0)
        for at, value in enumerate(values)
    ]
    found = rows_of_source(spark.createDataFrame(records, KAFKA), spec).collect()
    value = ("__value",) if keeps_records or with_value else ()
    own = ("__offset", "__filtered", "__corrupt", "__key", *value, *columns)
    plain = lambda value: bytes(value).decode() if isinstance(value, (bytes, bytearray)) else value
    return [[plain(row[name]) for name in own] for row in found]

lines = stream("lines", schema="line STRING, at STRING")
words = lines.select("explode(split(lower(line), '[^a-z]+')) AS word").filter("word <> ''", name="empty")
tags = stream("posts", schema="author STRING, tags ARRAY<STRING>, votes MAP<STRING, INT>")
late = tags.filter("author <> 'bot'", name="bots").select("*", "explode(tags) AS tag").filter("tag <> 'x'", name="x")
outer = tags.select("author AS who", "explode_outer(tags) AS tag")
votes = tags.select("author", "explode(votes) AS (voter, vote)", name="nobody").with_column("double", "vote * 2")
twice = tags.select("author", "explode(tags) AS tag").select("explode(split(tag, '-')) AS part", "author", "tag")
posts = [
    {"author": "ann", "tags": ["a", "x", "b-c"], "votes": {"bob": 1, "cara": 2}}, {"author": "ann", "tags": []},
    {"author": "bot", "tags": ["a", "b"]}, {"author": "cara", "tags": None, "votes": {}}, b"no JSON",
    {"author": "dan", "tags": [None]},
]
two = stream("o", schema="a STRING, b INT, c DOUBLE, raw BINARY")
by = lambda *names: two.group_by(*names)
pairs = [
    {"a": "x,y", "b": 1, "c": -0.0}, {"a": "x", "b": None, "c": 0}, {"a": 'q"\\\\', "b": 2, "c": 0.5},
    {"a": "", "b": 0, "c": 1e20},
]
bytes_ = stream("raw").with_column("text", "CAST(value AS STRING)")
try:
    rows(tags.with_column("pair", "struct(author, 1)").group_by("author", "pair").stream, "author", (), [])
    grouped = tags.with_column("pair", "struct(author, 1)").group_by("author", "pair")
    from dataclasses import replace
    rows(replace(grouped.stream, steps=grouped.steps), grouped.key, (), posts)
    refused = ""
except ConfigurationError as error:
    refused = str(error)
from dataclasses import replace
def keyed(grouped, values):
    return [row[3] for row in rows(replace(grouped.stream, steps=grouped.steps), grouped.key, (), values)]
print(json.dumps({
    "words": rows(words, "word", (), [{"line": "A b a"}, {"line": ""}, {"line": None}, None, b"{", {"line": "..."}]),
    "late": rows(late, "tag", ("author",), posts),
    "outer": rows(outer, "tag", ("who",), posts),
    "votes": rows(votes, "voter", ("author", "vote", "double"), posts),
    "twice": rows(twice, "part", ("tag",), posts[:2]),
    "kept": rows(words, "word", (), [{"line": "A b"}], keeps_records=True),
    "once": rows(twice, "part", (), [{"author": "a", "tags": ["b-c", "d"]}, {"author": "e"}, b"{"], with_value=True),
    "ab": keyed(by("a", "b"), pairs), "bc": keyed(by("b", "c"), pairs), "ca": keyed(by("c", "a"), pairs),
    "bytes": keyed(bytes_.group_by("value", "text"), [b"ok", b"\\xff", None]),
    "refused": refused,
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    folder: Path = tmp_path_factory.mktemp("row-steps")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    results: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return results


NOT_JSON = "the value is not JSON of the job's schema"


def test_every_word_is_a_row_and_every_record_leaves_one(found: dict[str, Any]) -> None:
    assert found["words"] == [
        [0, None, None, "a"],
        [0, None, None, "b"],
        [0, None, None, "a"],
        [1, 1, None, ""],
        [2, 0, None, None],
        [3, 0, None, None],
        [4, None, NOT_JSON, None],
        [5, 1, None, ""],
        [5, 1, None, ""],
    ]


def test_row_keeps_the_mark_of_the_first_step_that_dropped_it(found: dict[str, Any]) -> None:
    assert found["late"] == [
        [0, None, None, "a", "ann"],
        [0, 2, None, "x", "ann"],
        [0, None, None, "b-c", "ann"],
        [1, 1, None, None, "ann"],
        [2, 0, None, None, "bot"],
        [3, 1, None, None, "cara"],
        [4, None, NOT_JSON, None, None],
        [5, 2, None, None, "dan"],
    ]


def test_outer_explode_drops_nothing(found: dict[str, Any]) -> None:
    assert [(row[0], row[1], row[3], row[4]) for row in found["outer"] if row[0] in (0, 1, 3)] == [
        (0, None, "a", "ann"),
        (0, None, "x", "ann"),
        (0, None, "b-c", "ann"),
        (1, None, None, "ann"),
        (3, None, None, "cara"),
    ]


def test_map_comes_apart_into_two_columns(found: dict[str, Any]) -> None:
    assert found["votes"][:3] == [
        [0, None, None, "bob", "ann", 1, 2],
        [0, None, None, "cara", "ann", 2, 4],
        [1, 0, None, None, "ann", None, None],
    ]


def test_rows_of_a_row_are_those_of_its_record(found: dict[str, Any]) -> None:
    assert [(row[0], row[1], row[3], row[4]) for row in found["twice"]] == [
        (0, None, "a", "a"),
        (0, None, "x", "x"),
        (0, None, "b", "b-c"),
        (0, None, "c", "b-c"),
        (1, 0, None, None),
    ]


def test_every_row_carries_its_record_where_that_may_become_a_dead_letter(found: dict[str, Any]) -> None:
    assert [row[4] for row in found["kept"]] == ['{"line": "A b"}'] * 2


def test_else_the_first_row_of_a_record_carries_it(found: dict[str, Any]) -> None:
    whole = '{"author": "a", "tags": ["b-c", "d"]}'
    assert [row[4] for row in found["once"]] == [whole, None, None, '{"author": "e"}', "{"]


def test_key_of_several_columns_is_the_array_of_their_texts(found: dict[str, Any]) -> None:
    assert found["ab"] == ['["x,y","1"]', None, '["q\\"\\\\","2"]', '["","0"]']
    assert found["bc"] == ['["1","0.0"]', None, '["2","0.5"]', '["0","1.0E20"]']
    assert found["ca"] == ['["0.0","x,y"]', '["0.0","x"]', '["0.5","q\\"\\\\"]', '["1.0E20",""]']


def test_bytes_that_are_no_text_are_no_part_of_a_key(found: dict[str, Any]) -> None:
    assert found["bytes"] == ['["ok","ok"]', None, None]


def test_column_without_a_text_of_its_own_is_no_part_of_a_key(found: dict[str, Any]) -> None:
    assert "group_by() names the column 'pair' of type struct" in found["refused"]
