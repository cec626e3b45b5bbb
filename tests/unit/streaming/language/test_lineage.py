"""Which columns of its sources a job's columns are made of; whatever cannot be read is not said."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.control.records.job_description import TopicRows
from airflow_provider.streaming import StatefulJob, Stream, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.language.sink import Sink

ORDERS = stream(
    "orders",
    schema="id STRING, customer STRING, amount DOUBLE, quantity INT, at BIGINT, place STRUCT<city: STRING>",
    key="customer",
    event_time="at",
    watermark="10 minutes",
)
REFUNDS = stream(
    "refunds",
    schema="customer STRING, back DOUBLE, since BIGINT",
    key="customer",
    event_time="since",
    watermark="0 seconds",
)
CUSTOMERS = table("customers", schema="customer STRING, country STRING", key="customer")
COUNTRIES = table("countries", schema="country STRING, continent STRING", key="country")

Made = dict[str, dict[str, tuple[str, ...]]]


def of(*columns: str, topic: str = "orders") -> dict[str, tuple[str, ...]]:
    return {topic: columns}


def rows(sink: Sink, topic: str = "out") -> TopicRows:
    return StatefulJob("app", sink).description().rows[topic]


def function(key: str, rows: list[Any], state: Any) -> list[Any]:
    return []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("amount", of("amount"), id="column"),
        pytest.param("AMOUNT * quantity", of("amount", "quantity"), id="two-columns-whatever-their-case"),
        pytest.param("upper(`place`.city)", of("place"), id="field-of-a-struct"),
        pytest.param("date_trunc('hour', timestamp_millis(at))", of("at"), id="column-named-as-a-word-of-sql"),
        pytest.param("extract(HOUR FROM timestamp_millis(at))", of("at"), id="unit-is-no-column"),
        pytest.param("exists(split(id, ','), quantity -> quantity = customer)", of("customer", "id"), id="lambda"),
        pytest.param("'amount'", {}, id="text-is-no-column"),
    ],
)
def test_expression_is_made_of_the_columns_that_it_names(expression: str, expected: Any) -> None:
    assert rows(ORDERS.with_column("x", expression).sink("out")).made_of["x"] == expected


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("hash(_source.offset, amount)", id="the-record"),
        pytest.param("amount + (SELECT max(1))", id="subquery"),
        pytest.param("from_json(id, 'amount DOUBLE').amount + quantity", id="what-two-readings-see-otherwise"),
        pytest.param("amount + )", id="what-does-not-parse"),
        pytest.param("amount + :more", id="parameter"),
    ],
)
def test_expression_that_is_not_certain_is_not_known_and_nor_is_what_is_made_of_it(expression: str) -> None:
    found = rows(ORDERS.with_column("x", expression).with_column("y", "x + quantity").sink("out"))

    assert {"x", "y"} <= found.columns.keys()
    assert not {"x", "y"} & found.made_of.keys()
    assert found.made_of["amount"] == of("amount")
    assert found.sources == ("orders",)


def test_selection_renames_takes_apart_and_names_what_stands_before() -> None:
    chosen = ORDERS.select(
        "customer", "id AS amount", "amount + 1 AS more", "more * 2 AS most", "explode(split(id, ',')) AS part"
    )

    assert rows(chosen.sink("out")).made_of == {
        "customer": of("customer"),
        "amount": of("id"),
        "more": of("amount"),  # of the rows, not the one beside it
        "most": of("amount"),
        "part": of("id"),
    }


def test_replaced_column_is_made_of_the_one_before_and_all_others_stay() -> None:
    chosen = ORDERS.with_column("Amount", "amount * quantity").select("*", "upper(id) AS name")

    found = rows(chosen.sink("out"))

    assert found.made_of["Amount"] == of("amount", "quantity")
    assert found.made_of["name"] == of("id")
    assert found.columns.keys() == {"id", "customer", "quantity", "at", "place", "Amount", "name"}


def test_aggregates_are_made_of_what_they_read_their_conditions_too() -> None:
    spent = ORDERS.group_by("customer", window("at", "1 hour")).aggregate(
        F.count().alias("n"),
        F.sum("amount").alias("spent"),
        F.max_by("id", "amount").alias("largest"),
        F.count("id", filter="quantity > 1").alias("several"),
    )

    assert rows(spent.sink("out")).made_of == {
        "customer": of("customer"),
        "window": of("at"),
        "n": {},
        "spent": of("amount"),
        "largest": of("amount", "id"),
        "several": of("id", "quantity"),
    }


def test_key_of_several_columns_sessions_and_steps_behind_them() -> None:
    closed = ORDERS.group_by("customer", "id", session_window("at", "1 hour")).aggregate(
        F.sum("amount").alias("spent"), emit="close"
    )

    found = rows(closed.select("customer", "spent * 2 AS twice", "window.start AS begin").sink("out", key="customer"))

    assert found.made_of == {"customer": of("customer"), "twice": of("amount"), "begin": of("at")}


def test_joined_rows_have_the_columns_of_their_sides() -> None:
    joined = ORDERS.select("customer", "at", "amount * 2 AS twice").join(CUSTOMERS, on="customer", how="left")

    found = rows(joined.sink("out"))

    assert found.made_of == {
        "customer": of("customer"),
        "at": of("at"),
        "twice": of("amount"),
        "country": of("country", topic="customers"),
    }
    assert found.sources == ("customers", "orders")


def test_key_of_an_outer_join_is_of_either_side() -> None:
    joined = ORDERS.select("customer", "at").join(REFUNDS, on="customer", how="outer", within="1 hour")

    assert rows(joined.sink("out")).made_of["customer"] == {"orders": ("customer",), "refunds": ("customer",)}


def test_tables_that_are_joined_by_key_or_foreign_key_filtered_and_grouped() -> None:
    placed = CUSTOMERS.join(COUNTRIES, on="country").filter("continent <> 'EU'")
    by_continent = placed.group_by("continent").aggregate(F.count(filter="country = 'AT'").alias("n"))

    assert rows(placed.sink("out")).made_of == {
        "customer": of("customer", topic="customers"),
        "country": of("country", topic="customers"),
        "continent": of("continent", topic="countries"),
    }
    found = rows(by_continent.sink("out"))
    assert found.made_of == {
        "continent": of("continent", topic="countries"),
        "n": of("country", topic="customers"),
    }
    assert found.columns.keys() == found.made_of.keys()


def test_union_is_of_all_its_streams() -> None:
    returns = stream(
        "returns", schema="customer STRING, value DOUBLE, at BIGINT", event_time="at", watermark="10 minutes"
    )
    both = ORDERS.select("customer", "at", "amount AS value").union(returns)

    assert rows(both.sink("out", key="customer")).made_of["value"] == {"orders": ("amount",), "returns": ("value",)}


def test_rows_that_pass_as_they_are() -> None:
    first = ORDERS.drop_duplicates("id", within="1 hour")
    newest = ORDERS.to_table("customer")

    for sink in (first.sink("out"), newest.sink("out")):
        found = rows(sink)
        assert found.made_of == {name: of(name) for name in found.columns}
        assert found.columns["place"] == "STRUCT<city: STRING>"


def test_of_a_function_in_python_only_the_key_is_known() -> None:
    scored = ORDERS.group_by("customer").process(
        function, ["amount"], schema="score DOUBLE", outputs={"refused": "why STRING"}, name="scored"
    )

    assert rows(scored.sink("out")) == TopicRows(
        columns={"customer": "STRING", "score": "DOUBLE"}, sources=("orders",), made_of={"customer": of("customer")}
    )
    assert rows(scored.output("refused").sink("out")).made_of == {"customer": of("customer")}


def test_of_a_function_without_a_schema_only_the_topics_are_known() -> None:
    blind = ORDERS.join(CUSTOMERS, on="customer").group_by("customer").process(function, ["amount"])

    assert rows(blind.sink("out")) == TopicRows(columns={}, sources=("customers", "orders"))


def test_types_of_the_sources_are_those_that_the_job_gives_them() -> None:
    described = StatefulJob(
        "app", CUSTOMERS.group_by("country").aggregate(F.count().alias("n")).sink("out")
    ).description()

    assert described.rows["customers"] == TopicRows(columns={"customer": "STRING", "country": "STRING"})


def test_source_without_a_schema_has_the_columns_that_it_is_given() -> None:
    raw: Stream = stream("raw").select("CAST(value AS STRING) AS text", "CAST(key AS STRING) AS name")

    assert rows(raw.sink("out", key="name")).made_of == {
        "text": of("value", topic="raw"),
        "name": of("key", topic="raw"),
    }
