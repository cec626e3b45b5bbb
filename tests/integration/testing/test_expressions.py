"""What the worker computes of steps is what Spark computes."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider.streaming.expressions.expression import ARROW, Expression
from airflow_provider.streaming.expressions.spark_sql import LeftToSparkError, parse_expression
from airflow_provider.streaming.expressions.worker_steps import SteppedDecoder
from airflow_provider.streaming.json.json_decoder import JsonDecoder
from airflow_provider.streaming.terms.steps import CompositeKey, Filter, Select, Selected, Step, WithColumn
from airflow_provider.testing.source_rows import local_spark
from tests.integration.testing.spark_expressions import KINDS, Expressions, rows

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
