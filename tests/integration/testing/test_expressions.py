"""What the worker computes of steps is what Spark computes."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as S
from pyspark.sql.utils import get_active_spark_context

from airflow_provider.streaming import StatefulJob, stream, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.windowed_aggregate import bounds_column
from airflow_provider.streaming.expressions.computed import computed
from airflow_provider.streaming.expressions.expression import Expression, arrow_of
from airflow_provider.streaming.expressions.letters import lower, upper
from airflow_provider.streaming.expressions.spark_sql import parse_expression
from airflow_provider.streaming.expressions.spark_types import LeftToSparkError
from airflow_provider.streaming.expressions.worker_steps import RawDecoder, SteppedDecoder
from airflow_provider.streaming.json.json_decoder import WINDOW, JsonDecoder, JsonField
from airflow_provider.streaming.json.json_rows import json_rows
from airflow_provider.streaming.json.spark_json import SparkJson
from airflow_provider.streaming.planner.compiled_job import SourceSpec
from airflow_provider.streaming.planner.stage_spec import InputSpec
from airflow_provider.streaming.terms.event_time import EVENT_MS, EventTime
from airflow_provider.streaming.terms.steps import (
    CompositeKey,
    Filter,
    LatestTime,
    Select,
    Selected,
    Step,
    TypedKey,
    WithColumn,
)
from airflow_provider.streaming.worker.step.arrival import rows_by_partition
from airflow_provider.testing import JobTester
from airflow_provider.testing.in_memory_clients import Record
from airflow_provider.testing.source_rows import SourceRecord, SourceRows, local_spark
from tests.integration.testing.spark_expressions import KINDS, Expressions, rows
from tests.unit.streaming.worker.bench import job_spec

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark-2")]

EXPRESSIONS, AT_ONCE, ROWS = 600, 50, 60
RAISES = "raises"
RAISED = (PySparkException, Py4JJavaError)
"""Spark's own errors, and Java's where Spark has none, as of a time that is out of range."""


OPTIMIZER = (
    "BooleanSimplification", "ConstantFolding", "NullPropagation", "SimplifyConditionals", "SimplifyBinaryComparison",
    "OptimizeIn", "ReorderAssociativeOperator", "SimplifyCasts", "SimplifyCaseConversionExpressions",
    "PushFoldableIntoBranches", "UnwrapCastInBinaryComparison", "ReplaceNullWithFalseInPredicate",
    "LikeSimplification", "CombineConcats", "OptimizeJsonExprs", "OptimizeCsvJsonExprs", "SimplifyExtractValueOps",
    "RemoveDispensableExpressions",
)  # fmt: skip


@pytest.fixture
def spark() -> SparkSession:
    return local_spark()


@pytest.fixture
def as_written(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark that computes an expression as its text reads: what is needed, from the left to the right."""
    rules = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{name}" for name in OPTIMIZER)
    settings = {
        "spark.sql.optimizer.excludedRules": rules,
        "spark.sql.subexpressionElimination.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, known in before.items():
        spark.conf.unset(name) if known is None else spark.conf.set(name, known)


def by_worker(expression: Expression, table: pa.Table) -> list[Any]:
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    found, why = computed(expression, columns, pa.repeat(True, table.num_rows))
    assert found.type == arrow_of(expression.kind)
    return [
        RAISES if reason is not None else value
        for value, reason in zip(listed(found), [None] * len(found) if why is None else why.to_pylist(), strict=True)
    ]


def by_spark(frame: DataFrame, texts: Mapping[str, pa.DataType]) -> dict[str, list[Any] | str]:
    """Of expressions together, and of each by itself where Spark refuses one of them.

    Args:
        frame: with the column ``row``, from 0 on.
        texts: with the types that they are to have.
    """
    try:
        found = frame.select(*(tried(text).alias(text) for text in texts)).toArrow()
    except RAISED:
        if len(texts) == 1:
            # What stands there twice Spark computes ahead of all else, where nothing holds what it raises.
            (text,) = texts
            return {text: by_row(frame, text, 0, ROWS)}
        middle = len(texts) // 2
        pairs = list(texts.items())
        return by_spark(frame, dict(pairs[:middle])) | by_spark(frame, dict(pairs[middle:]))
    values = dict[str, list[Any] | str]()
    for number, (text, kind) in enumerate(texts.items()):
        column = found.column(number).combine_chunks()
        assert column.type.field(0).type == kind, text
        made = listed(pc.struct_field(column, 0))
        values[text] = [
            one if there else RAISES for one, there in zip(made, column.is_valid().to_pylist(), strict=True)
        ]
    return values


def by_row(frame: DataFrame, text: str, begin: int, end: int) -> list[Any]:
    """Of some rows, and of fewer where it raises for one of them."""
    try:
        found = frame.where(f"row >= {begin} AND row < {end}").selectExpr(f"{text} AS v").toArrow()
    except RAISED:
        if end - begin == 1:
            return [RAISES]
        middle = (begin + end) // 2
        return by_row(frame, text, begin, middle) + by_row(frame, text, middle, end)
    return listed(found.column(0).combine_chunks())


def tried(text: str) -> Column:
    """A struct of what an expression comes to, which is null where it raises."""
    jvm = get_active_spark_context()._jvm  # noqa: SLF001
    assert jvm is not None
    utils, made = jvm.org.apache.spark.sql.classic.ExpressionUtils, jvm.org.apache.spark.sql.catalyst.expressions

    def tree(column: Column) -> Any:
        return utils.expression(column._jc)  # noqa: SLF001

    value = Column(utils.column(made.KnownNullable(tree(S.expr(text)))))
    return Column(utils.column(made.TryEval(tree(S.struct(value.alias("v"))))))


def listed(values: pa.Array) -> list[Any]:
    """Times as numbers: Python has not all of them."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    found: list[Any] = values.to_pylist()
    return found


def plain(values: list[Any] | str) -> object:
    """To be compared: a NaN is a NaN, and -0.0 is not 0.0."""
    if isinstance(values, str):
        return values
    return [(type(one), repr(one) if isinstance(one, float) and not math.isnan(one) else str(one)) for one in values]


def test_random_expressions_come_to_what_spark_makes_of_them(as_written: SparkSession) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    draw, done = Expressions(chance), 0
    while done < EXPRESSIONS:
        table = rows(chance, ROWS)
        numbered = table.append_column("row", pa.array(range(ROWS), pa.int32()))
        frame = as_written.createDataFrame(numbered).coalesce(1).persist()
        drawn = dict[str, Expression]()
        while len(drawn) < AT_ONCE:
            text = draw.draw()
            try:
                drawn[text] = parse_expression(text, KINDS)
            except LeftToSparkError:
                continue
        found = {text: by_worker(expression, table) for text, expression in drawn.items()}
        needed = by_spark(frame, {text: arrow_of(one.kind) for text, one in drawn.items()})
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
    changes: bool = False,
) -> tuple[pa.Table, ...]:
    """What reaches the active step, made by the worker and made by Spark."""
    plain = JsonDecoder.of(schema) if schema is not None and plain is None else plain
    decoder = SteppedDecoder.of(RawDecoder() if plain is None else plain, steps, changes=changes)
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
        changes=changes,
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
        dropped = pc.or_(pc.is_valid(rows["__filtered"]), pc.is_valid(rows["__corrupt"]))
        for number, name in enumerate(rows.column_names):
            if name not in ("__offset", "__filtered", "__corrupt"):  # nothing else is looked at
                left = pc.if_else(dropped, pa.scalar(None, rows[name].type), rows[name])
                rows = rows.set_column(number, name, left)
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


@pytest.mark.parametrize("selected", ["word", "word, n AS _event_time", "*", "word, _event_time + 1 AS _event_time"])
@pytest.mark.usefixtures("spark")
def test_selection_keeps_the_time_of_a_joined_row(selected: str) -> None:
    given: list[bytes | None] = [json.dumps({"word": "a", "n": n, "_event_time": 10 * n}).encode() for n in range(9)]
    columns = [one.split(" AS ") for one in selected.split(", ")]
    chosen = tuple(Selected(one[0], () if one == ["*"] else (one[-1],)) for one in columns)
    steps: tuple[Step, ...] = (Select(chosen), Filter("word = 'a'", "other"))
    schema = "word STRING, n BIGINT, _event_time BIGINT"

    by_worker, by_spark_alone = rows_both_ways(schema, steps, given, event_time=EventTime("_event_time", 0))

    assert by_worker.to_pylist() == by_spark_alone.to_pylist()


@pytest.mark.usefixtures("spark")
def test_deletions_of_a_stream_of_changes_and_typed_keys_are_those_that_spark_makes() -> None:
    kinds = {"at": "TIMESTAMP", "cents": "DECIMAL(12,2)", "whole": "BIGINT", "small": "INT", "yes": "BOOLEAN"}
    kinds |= {"d": "DOUBLE", "day": "DATE"}
    texts = {
        "at": ["2024-02-29 12:00:00.12", "1969-12-31 23:59:59.999999", "+10000-01-01 00:00:00", "-0001-05-06 07:08:09"],
        "cents": ["0.00", "-0.05", "1234567890.12"],
        "whole": ["-9223372036854775808", "0"],
        "small": ["2147483647", "-1"],
        "yes": ["true", "false"],
        "day": ["2024-02-29", "+10000-01-01", "-0001-05-06"],
        "d": ["1.0E10", "-0.5", "NaN", "Infinity", "4.9E-324"],
    }
    rows = [{name: texts[name][at % len(texts[name])] for name in kinds} for at in range(30)]
    given: list[bytes | None] = [json.dumps(row | {"word": "a", "n": at % 3}).encode() for at, row in enumerate(rows)]
    given[3] = given[17] = None
    schema = ", ".join(["word STRING", "n BIGINT", *(f"{name} STRING" for name in kinds)])
    steps: tuple[Step, ...] = (*(TypedKey(name, kind) for name, kind in kinds.items()), Filter("n > 0", "none"))

    by_worker, by_spark_alone = rows_both_ways(schema, steps, given, changes=True)

    for name in by_worker.column_names:
        found, needed = by_worker[name].combine_chunks(), by_spark_alone[name].combine_chunks()
        assert plain(listed(found)) == plain(listed(needed)), name


@pytest.mark.usefixtures("spark")
def test_structs_and_days_are_those_that_spark_makes() -> None:
    geo = "STRUCT<lat: DOUBLE, price: DECIMAL(5,2), a: STRUCT<b: STRUCT<n: INT>>>"
    inner = f"STRUCT<city: STRING, since: DATE, at: TIMESTAMP, geo: {geo}>"
    schema = f"word STRING, at TIMESTAMP, home {inner}, away {inner}"
    homes: list[Any] = [
        None, {}, {"city": "Graz", "since": "2024-02-29", "at": "2026-01-01 10:00:00", "geo": {"lat": 1.5, "price": 1}},
        {"city": "x", "geo": None, "at": "+10000-01-01 00:00:00"}, {"since": "1969"}, {"geo": {"price": -0.05}}, [],
        "x", {"city": 5}, {"since": "2026-13"}, {"at": "10:00"}, {"geo": {"lat": True}}, {"geo": {"price": "1,5"}},
        {"geo": {"a": {"b": {"n": 7}}}}, {"geo": {"a": {"b": None}}}, {"geo": {"a": {"b": {"n": -1}}}},
    ]  # fmt: skip
    times = ["2026-01-31 23:59:59.9", "1969-12-31 12:00:00", None]
    given: list[bytes | None] = [
        json.dumps(
            {"word": "a", "at": times[at % 3], "home": home, "away": homes[(at + at // 13) % len(homes)]}
        ).encode()
        for at, home in enumerate(homes * 13)
    ]
    steps: tuple[Step, ...] = (
        Filter("home.city IS NULL OR home.city <> 'x'", "other"),
        WithColumn("day", "coalesce(to_date(at), away.since)"),
        WithColumn("month", "date_trunc('MONTH', at)"),
        WithColumn("share", "home.geo.price / 0.3"),
        WithColumn("deep", "home.geo.a.b.n + 1"),
        Select((Selected("*", ()), Selected("home", ("again",)), Selected("away.geo.lat", ("lat",)))),
        CompositeKey("day,month", ("day", "month")),
        Filter("day >= DATE '1969-01-01' OR day IS NULL", "early"),
    )

    by_worker, by_spark_alone = rows_both_ways(schema, steps, given)

    assert by_worker.schema.field("home").type == by_spark_alone.schema.field("home").type
    assert sum(map(bool, by_worker["__corrupt"].to_pylist())) > 20
    for name in by_worker.column_names:
        found, needed = by_worker[name].combine_chunks(), by_spark_alone[name].combine_chunks()
        if name == "__corrupt":
            found, needed = found.is_valid(), needed.is_valid()
        assert found.equals(needed), name


@pytest.mark.parametrize("by", [("home.city",), ("home.city", "k"), ("day",), ("k", "day")], ids=" and ".join)
@pytest.mark.usefixtures("spark")
def test_fields_and_days_are_keys_and_times_whoever_makes_the_rows(by: tuple[str, ...]) -> None:
    schema = "k STRING, home STRUCT<city: STRING, n: INT, at: TIMESTAMP, since: DATE>"
    orders = stream("orders", schema=schema, key="k", event_time="home.at", watermark="0 seconds")
    found = list[Any]()
    for steps in (orders, orders.with_column("left_to_spark", "sha2(k, 256)")):
        results = (F.max("home.n"), F.max("home.since").alias("since"), F.count())
        rows = steps.with_column("day", "to_date(home.at)")
        counted = rows.group_by(*by, window("home.at", "1 day")).aggregate(*results, emit="close")
        job = StatefulJob("app", counted.group_by(by[0]).aggregate(F.count(), F.max("since")).sink("out"))
        with JobTester(job.on_error("skip")) as tester:
            for at in range(30):
                home = {"city": "xyz"[at % 3], "n": at, "at": f"2026-01-{1 + at % 9} 10:00:00", "since": f"{2000 + at}"}
                tester.pipe_input({"k": "ab"[at % 2], "home": home if at % 7 else {}}, key="ab"[at % 2])
            found.append([(one.key, one.value) for one in tester.read_output()])
    assert found[0] == found[1]
    assert len(found[0]) > 3


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
