"""Where a step has no value for a record, that is the record's error, and nobody else's."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest

from airflow_provider.errors import DecodeError
from airflow_provider.streaming import StatefulJob, Stream, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.expressions.computed import computed
from airflow_provider.streaming.expressions.spark_sql import parse_expression
from airflow_provider.streaming.expressions.spark_types import LeftToSparkError
from airflow_provider.testing import JobTester

ORDERS = stream("orders", "customer STRING, amount BIGINT, quantity BIGINT, code STRING", key="customer")
GOOD = {"customer": "ann", "amount": 10, "quantity": 4, "code": "7/x"}
GREATEST = 2**63 - 1


def values(
    rows: Stream, given: Sequence[Mapping[str, Any] | str], policy: Literal["fail", "skip"] = "skip"
) -> list[dict[str, Any]]:
    with JobTester(StatefulJob("app", rows.sink("out")).on_error(policy)) as tester:
        tester.pipe_inputs(given)
        return [dict(record.value) for record in tester.read_output()]


@pytest.mark.parametrize(
    ("expression", "bad", "why", "good"),
    [
        ("amount / quantity", {"quantity": 0}, "it divides by zero", 2.5),
        ("amount DIV quantity", {"quantity": 0}, "it divides by zero", 2),
        ("amount DIV -quantity", {"amount": -GREATEST - 1, "quantity": 1}, "out of its type's range", -2),
        ("amount % quantity", {"quantity": 0}, "it divides by zero", 2),
        ("amount * quantity", {"amount": GREATEST}, "out of its type's range", 40),
        ("amount + quantity", {"amount": GREATEST}, "out of its type's range", 14),
        ("-5 - amount - quantity", {"amount": GREATEST - 4}, "out of its type's range", -19),
        ("-amount", {"amount": -GREATEST - 1}, "out of its type's range", -10),
        ("abs(amount)", {"amount": -GREATEST - 1}, "out of its type's range", 10),
        ("CAST(amount AS INT)", {"amount": 2**31}, "out of its type's range", 10),
        ("CAST(split(code, '/')[0] AS INT)", {"code": "x"}, "a text is no value of its type", 7),
        ("split(code, '/')[1]", {"code": "x"}, "there are fewer parts", "x"),
        ("timestamp_millis(amount)", {"amount": GREATEST}, "a time is out of range", "1970-01-01T00:00:00.010000Z"),
    ],
)
def test_record_without_a_value_is_left_out_or_stops_its_task_by_the_policy(
    expression: str, bad: dict[str, Any], why: str, good: object
) -> None:
    rows = ORDERS.with_column("made", expression).select("customer", "made")
    given = [GOOD, GOOD | bad, GOOD]

    assert values(rows, given) == 2 * [{"customer": "ann", "made": good}]
    with pytest.raises(DecodeError, match=rf"offset 1.*the column 'made' cannot be computed: .*{why}"):
        values(rows, given, "fail")


def test_dead_letter_says_which_column_has_no_value() -> None:
    job = StatefulJob("app", ORDERS.with_column("unit", "amount / quantity").sink("out"))
    bad = GOOD | {"quantity": 0}
    with JobTester(job.on_error("dead_letter", topic="letters")) as tester:
        tester.pipe_inputs([bad, GOOD])
        (letter,) = tester.dead_letters()

    assert json.loads(letter.value or b"") == bad
    assert letter.message.startswith("the column 'unit' cannot be computed: it divides by zero")


@pytest.mark.parametrize(
    "guarded",
    [
        "CASE WHEN quantity <> 0 THEN amount / quantity END",
        "CASE quantity WHEN 0 THEN NULL ELSE amount / quantity END",
        "if(quantity = 0, NULL, amount / quantity)",
        "coalesce(CASE WHEN quantity = 0 THEN CAST(-1 AS DOUBLE) END, amount / quantity)",
    ],
)
def test_value_that_is_not_needed_does_not_fail(guarded: str) -> None:
    rows = ORDERS.with_column("unit", guarded).select("customer", "unit")

    found = values(rows, [GOOD | {"quantity": 0}, GOOD, GOOD | {"quantity": None}], "fail")

    assert [row["unit"] for row in found][1:] == [2.5, None]
    assert found[0]["unit"] in (None, -1.0)


def test_condition_looks_no_further_than_it_has_to() -> None:
    both = ORDERS.filter("quantity <> 0 AND amount / quantity > 1", name="small")
    either = ORDERS.filter("quantity = 0 OR amount / quantity > 1", name="small")
    given = [GOOD | {"quantity": 0}, GOOD, GOOD | {"amount": 1}]

    assert values(both.select("customer", "quantity"), given, "fail") == [{"customer": "ann", "quantity": 4}]
    assert [row["quantity"] for row in values(either.select("customer", "quantity"), given, "fail")] == [0, 4]


def test_row_that_was_dropped_has_no_values_that_could_fail() -> None:
    rows = (
        ORDERS.filter("quantity <> 0", name="none").with_column("unit", "amount / quantity").select("customer", "unit")
    )

    assert values(rows, [GOOD | {"quantity": 0}, "no JSON", GOOD]) == [{"customer": "ann", "unit": 2.5}]


def test_column_that_nobody_needs_does_not_fail() -> None:
    counts = ORDERS.with_column("unit", "amount / quantity").group_by("customer").aggregate(F.count().alias("n"))

    with JobTester(StatefulJob("app", counts.sink("out"))) as tester:
        tester.pipe_inputs([GOOD | {"quantity": 0}, GOOD])
        assert tester.states() == {"ann": {"n": 2}}


def test_filter_without_an_answer_is_named() -> None:
    rows = ORDERS.filter("amount / quantity > 1", name="small").select("customer")

    with pytest.raises(DecodeError, match=r"filter amount / quantity > 1 .* cannot be computed: it divides by zero"):
        values(rows, [GOOD | {"quantity": 0}], "fail")


def test_record_of_several_rows_is_left_out_as_a_whole() -> None:
    numbers = ORDERS.select("customer", "explode(split(code, ',')) AS code").with_column("n", "CAST(code AS INT)")
    given = [GOOD | {"code": "1,x,3"}, GOOD | {"code": "4,5"}]

    assert [row["n"] for row in values(numbers.select("customer", "n"), given)] == [4, 5]


def test_key_of_a_time_or_a_decimal_is_that_again_in_the_next_stage() -> None:
    events = stream("events", "at TIMESTAMP, price BIGINT", key="price").with_column("cents", "price * 0.01")
    by_both = events.group_by("at", "cents").aggregate(F.count().alias("n"))
    again = by_both.to_stream().group_by("at").aggregate(F.sum("cents").alias("sum"), F.sum("n").alias("n"))
    given = [
        {"at": at, "price": price}
        for at in ("2024-02-29T12:00:00.120Z", "1969-12-31T23:59:59.999999Z")
        for price in (5, 150)
    ]

    with JobTester(StatefulJob("app", again.sink("out"))) as tester:
        tester.pipe_inputs(given)
        last = {record.key: record.value for record in tester.read_output()}

    assert last == {
        "2024-02-29 12:00:00.12": {"at": "2024-02-29 12:00:00.12", "sum": 1.55, "n": 2},
        "1969-12-31 23:59:59.999999": {"at": "1969-12-31 23:59:59.999999", "sum": 1.55, "n": 2},
    }


def test_many_records_without_a_value_take_no_longer_than_the_others() -> None:
    kinds = {"code": "STRING", "amount": "BIGINT"}
    counted = 20_000
    columns = {
        "code": pa.array(["x" if at % 2 else str(at) for at in range(counted)]),
        "amount": pa.array(range(counted), pa.int64()),
    }
    took = list[float]()
    for text in ("CAST(code AS INT)", "try_cast(code AS INT)"):
        began = time.process_time()
        for _ in range(5):
            found, _ = computed(parse_expression(text, kinds), columns, pa.repeat(True, counted))
        took.append(time.process_time() - began)

    assert found.null_count == counted / 2
    assert took[0] < 20 * took[1]


@pytest.mark.parametrize(
    "expression",
    [
        " OR ".join(f"code = 'v{number}'" for number in range(250)),
        " OR ".join(f"code = 'v{number}'" for number in range(2_000)),
        "if(amount = 1, 'a', " * 60 + "code" + ")" * 60,
        "date_format(timestamp_millis(amount), 'MMMM yyyy')",
        "date_format(timestamp_millis(amount), 'HHHH')",
        "date_format(timestamp_millis(amount), ' ')",
        "amount * CAST(9.99 AS DECIMAL(5,1))",
        "amount * 1.5 + CAST(123.45 AS DECIMAL(3,2))",
        "(amount * 0.5) - cast(5 AS BIGINT)",
    ],
)
def test_what_the_worker_cannot_do_as_spark_does_is_left_to_spark(expression: str) -> None:
    with pytest.raises(LeftToSparkError):
        parse_expression(expression, {"code": "STRING", "amount": "BIGINT"})


def test_description_says_which_stage_behind_an_internal_topic_is_spark_s_and_why() -> None:
    counts = ORDERS.group_by("code").aggregate(F.count().alias("n")).to_stream()

    text = StatefulJob("app", counts.with_column("hash", "sha2(code, 256)").sink("out")).describe()

    assert "by Spark: sha2(code, 256)" in text
