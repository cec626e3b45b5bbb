"""What the worker computes of steps is what Spark computes."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider.streaming.aggregates.windowed_aggregate import bounds_column
from airflow_provider.streaming.expressions.expression import ARROW, Expression
from airflow_provider.streaming.expressions.letters import lower, upper
from airflow_provider.streaming.expressions.spark_sql import LeftToSparkError, parse_expression
from airflow_provider.streaming.expressions.worker_steps import RawDecoder, SteppedDecoder
from airflow_provider.streaming.json.json_decoder import WINDOW, JsonDecoder, JsonField
from airflow_provider.streaming.json.json_rows import json_rows
from airflow_provider.streaming.json.spark_json import SparkJson
from airflow_provider.streaming.planner.compiled_job import SourceSpec
from airflow_provider.streaming.planner.stage_spec import InputSpec
from airflow_provider.streaming.terms.event_time import EVENT_MS, EventTime
from airflow_provider.streaming.terms.steps import CompositeKey, Filter, LatestTime, Select, Selected, Step, WithColumn
from airflow_provider.streaming.worker.step.arrival import rows_by_partition
from airflow_provider.testing.in_memory_clients import Record
from airflow_provider.testing.source_rows import SourceRecord, SourceRows, local_spark
from tests.integration.testing.spark_expressions import KINDS, Expressions, rows
from tests.unit.streaming.worker.bench import job_spec

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

EXPRESSIONS, AT_ONCE, ROWS = 600, 50, 60
RAISES = "raises"


@pytest.fixture
def spark() -> SparkSession:
    return local_spark()


def by_worker(expression: Expression, table: pa.Table) -> list[Any]:
    values = expression.of({name: table.column(name).combine_chunks() for name in table.column_names})
    found = pa.repeat(values, table.num_rows) if isinstance(values, pa.Scalar) else values
    assert found.type == ARROW[expression.kind]
    listed: list[Any] = found.to_pylist()
    return listed


def by_spark(frame: DataFrame, texts: Sequence[str]) -> list[list[Any] | str]:
    """Of expressions together, and of each by itself where one of them fails."""
    try:
        found = frame.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(texts))).toArrow()
    except PySparkException:
        if len(texts) == 1:
            return [RAISES]
        middle = len(texts) // 2
        return by_spark(frame, texts[:middle]) + by_spark(frame, texts[middle:])
    return [found.column(number).to_pylist() for number in range(len(texts))]


def plain(values: list[Any] | str) -> object:
    """To be compared: a NaN is a NaN, and -0.0 is not 0.0."""
    if isinstance(values, str):
        return values
    return [(type(one), repr(one) if isinstance(one, float) and not math.isnan(one) else str(one)) for one in values]


def test_random_expressions_come_to_what_spark_makes_of_them(spark: SparkSession) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    draw, done = Expressions(chance), 0
    while done < EXPRESSIONS:
        table = rows(chance, ROWS)
        frame = spark.createDataFrame(table).coalesce(1).persist()
        drawn = dict[str, Expression]()
        while len(drawn) < AT_ONCE:
            text = draw.draw()
            try:
                drawn[text] = parse_expression(text, KINDS)
            except LeftToSparkError:
                continue
        found = {text: by_worker(expression, table) for text, expression in drawn.items()}
        needed = dict(zip(found, by_spark(frame, list(found)), strict=True))
        frame.unpersist()
        for text, values in found.items():
            assert plain(values) == plain(needed[text]), text
        done += len(found)


STEPS: Sequence[Step] = (
    Filter("a IS NOT NULL", "no_a"),
    WithColumn("cents", "CAST(b AS DOUBLE) * 100"),
    Filter("cents > 0 OR c", "free"),
    Select((Selected("*", ()), Selected("concat(a, 'x')", ("ax",)), Selected("CAST(b AS STRING)", ("text",)))),
    CompositeKey("a,text,c", ("a", "text", "c")),
)
TEXTS = (None, "", "ann", 'q"uote', "back\\slash", "new\nline", "\x00\x1f\x7f", "é日😀", "/", "\u2028")


def test_steps_one_after_the_other_come_to_what_spark_makes_of_them(spark: SparkSession) -> None:
    chance = random.Random(5)
    values = [
        json.dumps(
            {"a": chance.choice(TEXTS), "b": chance.choice([None, 0, 1, -7]), "c": chance.choice([None, True, False])}
        )
        for _ in range(200)
    ]
    decoder = JsonDecoder.of("a STRING, b BIGINT, c BOOLEAN")
    assert decoder is not None

    decoded = SteppedDecoder.of(decoder, STEPS).decode(
        pa.chunked_array([[one.encode() for one in values]], pa.binary())
    )

    frame = spark.createDataFrame([(number, value) for number, value in enumerate(values)], "number INT, value STRING")
    frame = frame.selectExpr("number", "from_json(value, 'a STRING, b BIGINT, c BOOLEAN') AS v").select("number", "v.*")
    frame = frame.selectExpr(
        "number",
        "CASE WHEN a IS NULL THEN 0 WHEN NOT coalesce(CAST(b AS DOUBLE) * 100 > 0 OR c, false) THEN 1 END AS filtered",
        "a", "b", "c", "CAST(b AS DOUBLE) * 100 AS cents", "concat(a, 'x') AS ax", "CAST(b AS STRING) AS text",
    )  # fmt: skip
    whole = "CASE WHEN a IS NOT NULL AND text IS NOT NULL AND c IS NOT NULL THEN to_json(array(a, text, string(c))) END"
    needed = frame.selectExpr("*", f"{whole} AS `a,text,c`").toArrow().sort_by("number")
    assert decoded.filtered is not None
    assert decoded.filtered.to_pylist() == needed.column("filtered").to_pylist()
    assert list(decoded.columns) == ["a", "b", "c", "cents", "ax", "text", "a,text,c"]
    for name, column in decoded.columns.items():
        assert column.to_pylist() == needed.column(name).to_pylist(), name


PLACES = "abcXY ,;.-_09ÉßΣİ\u2028\n\t日😀\ua7cb"
SPLITS = ("' '", "', '", "'[^a-z]+'", "'[ ,;]+'", "'[a-c]'", "'b+'", "'-'", "'[^A-Za-z0-9]'", "'ab+c'", "'_+[0-9]'")
RAW = [
    b"", b" ", b"a b", b" a  b ", b"A-b\xff c", b"\xed\xa0\xac x", b"\xe2\xa9A\xed\xac", b"\xc0\xaf", b"a\x00b", None,
    b"\xf0\x9f\x98", "É,é;ΑΣ ς".encode(), b"\xed\xa0", b"\xf4\x90\x80\x80 \xf5",
]  # fmt: skip
BYTES = b"".join(value or b"" for value in RAW)


def rows_both_ways(
    schema: str | None,
    steps: tuple[Step, ...],
    values: Sequence[bytes | None],
    *,
    plain: JsonDecoder | None = None,
    event_time: EventTime | None = None,
) -> tuple[pa.Table, ...]:
    """What reaches the active step, made by the worker and made by Spark."""
    plain = JsonDecoder.of(schema) if schema is not None and plain is None else plain
    decoder = SteppedDecoder.of(RawDecoder() if plain is None else plain, steps)
    source = SourceSpec(
        application_id="app",
        topic="in",
        schema=schema,
        steps=steps,
        key_name="word",
        columns=tuple(sorted(decoder.kinds)),
        decoded_by_worker=True,
        keeps_records=False,
        max_offsets_per_trigger=None,
        kafka_options=(),
        event_time=event_time,
    )
    records = [
        SourceRecord(partition=0, offset=at, record=Record(key=b"k", value=value, timestamp_ms=at))
        for at, value in enumerate(values)
    ]
    found = list[pa.Table]()
    for by_worker in (True, False):
        given = InputSpec(
            topic="in",
            key_name="word",
            decoder=decoder if by_worker else None,
            json=schema is not None,
            by_spark=SparkJson(schema),
            event_time=event_time,
        )
        spec = dataclasses.replace(job_spec(), input=given)
        batches = SourceRows(dataclasses.replace(source, decoded_by_worker=by_worker)).of(records)
        ((_, rows),) = rows_by_partition(spec, batches)
        times = () if event_time is None else (EVENT_MS,)
        found.append(rows.select(sorted({"__offset", "__filtered", "__corrupt", "__key", *times, *decoder.kinds})))
    return tuple(found)


WINDOWED = "word STRING, n BIGINT, at TIMESTAMP, window STRUCT<start: TIMESTAMP, end: TIMESTAMP>"


@pytest.mark.parametrize("behind", ["window", "of", "end_at", "_event_time"])
@pytest.mark.usefixtures("spark")
def test_windows_of_an_earlier_stage_are_those_that_spark_makes(behind: str) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    times = [None, 0, 1_700_000_000_000, 1_700_000_000_001, -5, 253_402_300_799_999, -62_135_596_800_000]
    times += [chance.randrange(-(10**12), 10**13) for _ in range(20)]
    rows = 200
    starts, ends = ([chance.choice(times) or 0 for _ in range(rows)] for _ in range(2))
    windows = bounds_column(starts, ends).to_pylist()
    given = [None if chance.random() < 0.1 else one for one in windows]
    at = pa.array([chance.choice(times) for _ in range(rows)], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    values: list[bytes | None] = list(
        json_rows(
            [
                ("word", pa.array([chance.choice(["a", "b"]) for _ in range(rows)])),
                ("n", pa.array([chance.choice([None, 1, 2]) for _ in range(rows)], pa.int64())),
                ("at", at),
                ("window", pa.array(given, bounds_column([], []).type)),
            ]
        )
    )
    values += [b'{"word":"a"}', b'{"word":"a","window":{}}', None]
    chance.shuffle(values)
    kinds = {"word": "STRING", "n": "BIGINT", "at": "TIMESTAMP", "window": WINDOW}
    plain = JsonDecoder.of_fields([JsonField(name, kind) for name, kind in kinds.items()])
    steps: tuple[Step, ...] = (
        WithColumn("end_at", "window.end"),
        Filter("n IS NULL OR n > 1", "small"),
        LatestTime(("window", "at")),
        Select((Selected("*", ()), Selected("window", ("of",)), Selected("window.start", ("began",)))),
        Filter("began < end_at OR window.start IS NULL", "empty"),
    )

    by_worker, by_spark_alone = rows_both_ways(WINDOWED, steps, values, plain=plain, event_time=EventTime(behind, 0))

    assert by_worker.to_pylist() == by_spark_alone.to_pylist()
    assert by_worker.schema.field("window").type == by_spark_alone.schema.field("window").type


@pytest.mark.parametrize("generator", ["explode", "explode_outer"])
@pytest.mark.parametrize("raw", [False, True], ids=["json", "bytes"])
@pytest.mark.usefixtures("spark")
def test_rows_of_what_is_taken_apart_are_those_that_spark_makes(generator: str, raw: bool) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for split in SPLITS:
        texts = ["".join(chance.choice(PLACES) for _ in range(chance.randrange(12))) for _ in range(60)]
        if raw:
            values = [*RAW, *(text.encode() for text in texts), bytes(chance.choices(BYTES, k=5))]
            line = "CAST(value AS STRING)"
            steps: tuple[Step, ...] = (Filter("value IS NOT NULL", "empty"),) if chance.random() < 0.5 else ()
        else:
            values = [json.dumps({"line": text, "n": chance.choice([None, 1, 2])}).encode() for text in texts]
            values += [b"{", b"null", b'{"n": "x"}', b"{}", None]
            line, steps = "line", (Filter("n IS NULL OR n > 1", "small"),)
        chance.shuffle(values)
        inner = chance.choice([line, f"lower({line})", f"upper({line})", *([] if raw else [f"trim({line})"])])
        others = () if raw else (Selected("n", ("n",)), Selected("concat(line, 'x')", ("whole",)))
        step = Select(
            (*others, Selected(f"split({inner}, {split})", ("word",), generator)),
            "none" if generator == "explode" else None,
        )
        behind = (Filter("word <> '' OR word IS NULL", "blank"), WithColumn("long", "length(word) > 2"))
        twice = Select((Selected("long", ("long",)), Selected("split(word, '[a-b]')", ("word",), "explode")), "gone")
        all_steps = (*steps, step, *behind, *([twice] if chance.random() < 0.5 else []))

        by_worker, by_spark_alone = rows_both_ways(None if raw else "line STRING, n BIGINT", all_steps, values)

        assert by_worker.to_pylist() == by_spark_alone.to_pylist(), (inner, split)


@pytest.mark.parametrize("around", ["{}", "aΣ{}", "aΣ{}b", "{}Σ", "İ{}ΣA"])
def test_letters_are_those_that_spark_makes(spark: SparkSession, around: str) -> None:
    for first in range(0, 0x20000, 0x8000):  # behind these planes there are no letters
        texts = [around.format(chr(at)) for at in range(first, first + 0x8000) if not 0xD800 <= at < 0xE000]
        found = spark.createDataFrame(pa.table({"s": texts})).selectExpr("lower(s)", "upper(s)").toArrow()
        assert found.column(0).to_pylist() == list(map(lower, texts))
        assert found.column(1).to_pylist() == list(map(upper, texts))
