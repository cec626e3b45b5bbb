"""What becomes of joins and unions: stages, topics, what is checked."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.control.application.job_change import refuse_change
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import repartition_topic
from airflow_provider.streaming import StatefulJob, Stream, stream, table
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.joins.join_interval import IntervalJoin
from airflow_provider.streaming.joins.join_operation import JoinSide
from airflow_provider.streaming.joins.join_rows import LEFT, RIGHT, JoinRows
from airflow_provider.streaming.joins.join_stream_table import StreamTableJoin
from airflow_provider.streaming.planner.compile import TopicFacts, compile_job
from airflow_provider.streaming.planner.stage_plan import StagePlan, changelog_of, partitions_read, source_topics
from airflow_provider.streaming.terms.event_time import EVENT_MS, RECORD_TIME, EventTime
from tests.builders import spark_types

ORDERS = stream("orders", schema="id STRING, customer STRING, amount BIGINT")
CUSTOMERS = table("customers", schema="customer STRING, country STRING", key="customer")
TIMED = stream("timed", schema="customer STRING, amount BIGINT, at TIMESTAMP", event_time="at", watermark="1 minute")
MOVED = stream("moved", schema="customer STRING, country STRING", watermark="1 minute")
SHOWN = stream("shown", schema="ad STRING, shown TIMESTAMP", event_time="shown", watermark="1 minute")
CLICKED = stream("clicked", schema="ad STRING, clicked BIGINT", event_time="clicked", watermark="2 minutes")


def facts_of(stages: tuple[StagePlan, ...], partitions: int = 2) -> TopicFacts:
    return TopicFacts(
        partitions=partitions_read(stages, dict.fromkeys(source_topics(stages), partitions)),
        delete_retention_ms={changelog_of("app", stage): 1 for stage in stages},
    )


def test_both_sides_write_into_the_topic_that_the_join_reads() -> None:
    orders, customers, joined = StatefulJob("app", ORDERS.join(CUSTOMERS, on="customer").sink("out")).stages

    assert orders == StagePlan(
        number=0,
        name="out-left",
        source_topic="orders",
        schema=ORDERS.schema,
        key="customer",
        trust_partitioning=True,
        operation=JoinSide(side=LEFT, on="customer", others=("id", "amount")),
        event_time=EventTime(RECORD_TIME, 0),
        store=None,
        output_topic="app-out-repartition",
        feeds=True,
        null_keys="drop",
    )
    assert customers.operation == JoinSide(
        side=RIGHT, on="customer", others=("country",), table=True, time="that of the record"
    )
    assert (customers.output_topic, customers.table, customers.null_keys) == ("app-out-repartition", True, "refuse")
    assert (joined.source_topic, joined.internal, joined.store) == ("app-out-repartition", True, "out")
    assert isinstance(joined.operation, StreamTableJoin)
    assert (joined.output_topic, joined.feeds, joined.event_time) == ("out", False, EventTime(EVENT_MS, 0))


def test_two_streams_bring_their_times_with_them() -> None:
    job = StatefulJob("app", SHOWN.join(CLICKED, on="ad", how="left", within="1 hour", partitions=7).sink("out"))
    shown, clicked, joined = job.stages

    assert (shown.event_time, clicked.event_time) == (SHOWN.event_time, CLICKED.event_time)
    assert (shown.null_keys, clicked.null_keys) == ("keep", "drop")
    assert isinstance(joined.operation, IntervalJoin)
    assert joined.operation.delays_ms == (60_000, 120_000)
    assert joined.event_time == EventTime(EVENT_MS, 120_000)
    assert joined.windowed
    assert {topic.name: topic.partitions for topic in job.description().topics}["app-out-repartition"] == 7


def test_steps_behind_a_join_have_a_stage_of_their_own() -> None:
    enriched = ORDERS.join(CUSTOMERS, on="customer").filter("amount > 0", name="free")
    stages = StatefulJob("app", enriched.group_by("country").aggregate(F.count().alias("n")).sink("out")).stages

    assert [stage.name for stage in stages] == [
        "out-join-left",
        "out-join-right",
        "out-join",
        "out-repartition",
        "out",
    ]
    # The join's records have the customer as their key, and are grouped by the country.
    assert [stage.keyed for stage in stages] == [False, False, True, False, True]
    between = repartition_topic("app", "out-joined")
    assert (stages[2].output_topic, stages[2].feeds) == (between, True)
    assert (stages[3].source_topic, stages[3].internal, stages[3].output_topic) == (
        between,
        True,
        "app-out-repartition",
    )


@pytest.mark.parametrize(
    "joined",
    [TIMED.join(CUSTOMERS, on="customer"), TIMED.join(MOVED, on="customer", within="1 minute")],
    ids=["with-a-table", "with-a-stream"],
)
@pytest.mark.parametrize(
    ("step", "columns"),
    [
        (lambda rows: rows.filter("amount > 0", name="free"), ("customer", "amount", "at", "country")),
        (lambda rows: rows.with_column("twice", "amount * 2"), ("customer", "amount", "at", "country", "twice")),
        (lambda rows: rows.with_column("amount", "amount * 2"), ("customer", "at", "country", "amount")),
        (lambda rows: rows.select("*", "amount * 2 AS twice"), ("customer", "amount", "at", "country", "twice")),
        (lambda rows: rows.select("customer", "amount AS paid"), ("customer", "paid")),
    ],
    ids=["filter", "with_column", "with_column-again", "select-all", "select"],
)
def test_rows_behind_steps_of_a_join_are_written_with_its_columns(
    joined: Stream, step: Callable[[Stream], Stream], columns: tuple[str, ...]
) -> None:
    assert StatefulJob("app", step(joined).sink("out", key="customer")).stages[-1].operation.columns == columns


def test_duplicates_behind_steps_of_a_join_are_dropped_with_all_its_columns() -> None:
    rows = TIMED.join(CUSTOMERS, on="customer").with_column("twice", "amount * 2")
    columns = ("customer", "amount", "at", "country", "twice")

    # By the join's key, and by another column, which goes through one more topic.
    same = StatefulJob("app", rows.drop_duplicates("customer", within="1 hour").sink("out")).stages
    other = StatefulJob("app", rows.drop_duplicates("twice", within="1 hour").sink("out")).stages

    assert [same[-1].operation.columns, other[-1].operation.columns] == [columns, columns]


def test_join_that_is_grouped_by_its_key_needs_no_further_topic() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer")
    stages = StatefulJob("app", joined.group_by("customer").aggregate(F.count().alias("n")).sink("out")).stages
    assert [(stage.name, stage.keyed) for stage in stages[2:]] == [("out-join", True), ("out", True)]

    left = ORDERS.join(CUSTOMERS, on="customer", how="left").group_by("customer").aggregate(F.count().alias("n"))
    assert [stage.keyed for stage in StatefulJob("app", left.sink("out")).stages[2:]] == [True, False, True]


def test_name_of_a_join_is_that_of_its_store() -> None:
    stages = StatefulJob("app", ORDERS.join(CUSTOMERS, on="customer", name="enriched").sink("_out")).stages

    assert [stage.name for stage in stages] == ["enriched-left", "enriched-right", "enriched"]
    assert stages[2].store == "enriched"
    assert pickle.loads(pickle.dumps(stages)) == stages


def test_join_that_two_sinks_use_is_made_once() -> None:
    enriched = ORDERS.join(CUSTOMERS, on="customer", name="enriched")
    by_country = enriched.group_by("country").aggregate(F.count().alias("n")).sink("by-country")
    by_id = enriched.group_by("id").aggregate(F.count().alias("n")).sink("by-id")
    job = StatefulJob("app", by_country, enriched.sink("orders-enriched"), by_id)

    assert [(stage.name, stage.source_topic, stage.outputs) for stage in job.stages] == [
        ("enriched-left", "orders", ("app-enriched-repartition",)),
        ("enriched-right", "customers", ("app-enriched-repartition",)),
        (
            "enriched",
            "app-enriched-repartition",
            ("app-by-country-joined-repartition", "orders-enriched", "app-by-id-joined-repartition"),
        ),
        ("by-country-repartition", "app-by-country-joined-repartition", ("app-by-country-repartition",)),
        ("by-country", "app-by-country-repartition", ("by-country",)),
        ("by-id-repartition", "app-by-id-joined-repartition", ("app-by-id-repartition",)),
        ("by-id", "app-by-id-repartition", ("by-id",)),
    ]
    text = job.describe()
    assert text.count("  writes  app-enriched-repartition\n") == 2
    assert "  writes  orders-enriched\n" in text
    assert "s2 --> " in job.describe("mermaid")
    kinds = {topic.name: topic.kind.value for topic in job.description().topics}
    assert kinds["orders-enriched"] == "sink"
    assert kinds["app-by-id-joined-repartition"] == "repartition"
    signature = compile_job(job, facts_of(job.stages), spark_types()).stage(2).spec.store.signature
    assert signature is not None
    assert sorted(signature.writes) == ["app-by-country-joined-repartition", "app-by-id-joined-repartition"]


def test_sink_that_shares_a_join_changes_no_stage_before_it_but_what_the_join_writes() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer")
    count = joined.group_by("country").aggregate(F.count().alias("n")).sink("by-country")
    before = StatefulJob("app", joined.sink("out"), ORDERS.sink("copies", key="id"))
    after = StatefulJob("app", *before.sinks, count)

    assert [(stage.number, stage.name) for stage in before.stages] == [
        (stage.number, stage.name) for stage in after.stages[: len(before.stages)]
    ]
    assert [stage.outputs[:1] for stage in before.stages] == [stage.outputs[:1] for stage in after.stages[:4]]
    refuse_change(before.description(), after.description())


def test_joins_of_two_calls_stay_two() -> None:
    sinks = [ORDERS.join(CUSTOMERS, on="customer").sink(topic) for topic in ("one", "two")]
    assert [stage.name for stage in StatefulJob("app", *sinks).stages] == [
        "one-left", "one-right", "one", "two-left", "two-right", "two",
    ]  # fmt: skip


def test_join_of_joined_tables_is_made_once_for_both_of_its_uses() -> None:
    credit = table("credit", schema="customer STRING, credit BIGINT", key="customer")
    tables = CUSTOMERS.join(credit, on="customer")
    job = StatefulJob("app", tables.sink("customers-all"), ORDERS.join(tables, on="customer").sink("out"))

    names = [stage.name for stage in job.stages]
    assert names == ["customers-all-left", "customers-all-right", "customers-all", "out-left", "out-right", "out"]
    assert job.stages[2].outputs == ("customers-all", "app-out-right-joined-repartition")


def test_streams_that_are_united_write_into_one_topic() -> None:
    web = stream("web", schema="amount BIGINT, customer STRING, id STRING").filter("amount > 0", name="free")
    counts = ORDERS.union(web).with_column("big", "amount > 9").group_by("big").aggregate(F.count().alias("n"))
    stages = StatefulJob("app", counts.sink("out"), ORDERS.union(web).sink("rows", key="id")).stages

    assert [(stage.name, stage.source_topic, stage.output_topic, len(stage.steps)) for stage in stages] == [
        ("out-repartition", "orders", "app-out-repartition", 1),
        ("out-repartition-2", "web", "app-out-repartition", 2),
        ("out", "app-out-repartition", "out", 0),
        ("rows", "orders", "rows", 0),
        ("rows-2", "web", "rows", 1),
    ]


def test_topic_of_both_sides_has_as_many_partitions_as_the_left_ones() -> None:
    stages = StatefulJob("app", ORDERS.join(CUSTOMERS, on="customer").sink("out")).stages

    assert partitions_read(stages, {"orders": 3, "customers": 5})["app-out-repartition"] == 3
    description = StatefulJob("app", ORDERS.join(CUSTOMERS, on="customer").sink("out")).description()
    found = description.with_partitions({"orders": 3, "customers": 5})
    assert {topic.name: topic.partitions for topic in found.topics}["app-out-repartition"] == 3


def test_join_is_signed_with_the_types_of_both_sides() -> None:
    job = StatefulJob("app", ORDERS.join(CUSTOMERS, on="customer").sink("out"))
    joined = compile_job(job, facts_of(job.stages), spark_types()).stage(2)

    assert joined.source.decoded_by_worker
    assert joined.spec.input.decoder == JoinRows()
    signature = joined.spec.store.signature
    assert signature is not None
    assert (signature.operation, signature.key_type) == ("join", "string")
    assert signature.columns == {"customer": "string", "country": "string"}


def test_what_follows_a_join_has_its_types() -> None:
    enriched = ORDERS.join(CUSTOMERS, on="customer")
    user = StatefulJob("app", enriched.group_by("country").aggregate(F.sum("amount").alias("spent")).sink("out"))
    job = compile_job(user, facts_of(user.stages), spark_types())

    (kept,) = job.stage(4).spec.store.signature.aggregates  # type: ignore[union-attr]
    assert kept.type == "bigint"


def test_keys_of_two_types_are_refused_also_where_only_spark_knows_them() -> None:
    other = stream("other", schema="ad BIGINT, at BIGINT", event_time="at", watermark="0 seconds")
    with pytest.raises(ConfigurationError, match="'ad' of type STRING of 'shown' with one of type an integer"):
        SHOWN.join(other, on="ad", within="1 second")


ANY_ORDERS: Any = ORDERS
ANY_CUSTOMERS: Any = CUSTOMERS
ANY_JOINED: Any = CUSTOMERS.join(table("t", schema="customer STRING, x INT", key="customer"), on="customer")

REFUSED = {
    "no column": (lambda: ORDERS.join(CUSTOMERS, on="customers"), "did you mean 'customer'"),
    "several columns": (lambda: ANY_ORDERS.join(CUSTOMERS, on=["customer"]), "give the name of one column"),
    "in both": (
        lambda: ORDERS.join(table("t", schema="customer STRING, amount INT", key="customer"), on="customer"),
        'the name \'amount\'.*select."customer", "amount AS other_amount"',
    ),
    "not the key": (
        lambda: ORDERS.join(table("t", schema="customer STRING, x INT", key="x"), on="customer"),
        "the key of the table 't' is 'x'",
    ),
    "outer with a table": (lambda: ORDERS.join(CUSTOMERS, on="customer", how="outer"), "'inner', 'left': a table's"),
    "within a table": (lambda: ORDERS.join(CUSTOMERS, on="customer", within="1 day"), "intervals are for two streams"),
    "history below the grace": (
        lambda: ORDERS.join(CUSTOMERS, on="customer", history="1 minute", grace="2 minutes"),
        "gone before a row that waits",
    ),
    "broadcast of two tables": (
        lambda: CUSTOMERS.join(table("t", "customer STRING, x INT", "customer", broadcast=True), on="customer"),
        "which is for streams",
    ),
    "broadcast in words": (
        lambda: table("t", "k STRING", "k", broadcast="yes"),  # type: ignore[arg-type]
        "True or False",
    ),
    "grace of a stream": (lambda: SHOWN.join(CLICKED, on="ad", within="1 day", grace="1 day"), "that is for tables"),
    "history of a stream": (lambda: SHOWN.join(CLICKED, on="ad", history="1 day"), "that is for tables"),
    "no interval": (lambda: SHOWN.join(CLICKED, on="ad"), "got no interval"),
    "two intervals": (
        lambda: SHOWN.join(CLICKED, on="ad", within="1 day", after="1 day"),
        "got within='1 day', before",
    ),
    "no event time": (lambda: ORDERS.join(CLICKED, on="customer", within="1 day"), "that of 'orders' has none"),
    "lost event time": (
        lambda: SHOWN.select("ad").join(CLICKED, on="ad", within="1 day"),
        "names the column 'shown', which does not exist",
    ),
    "a sink": (lambda: ANY_ORDERS.join(ORDERS.sink("o", key="id"), on="id"), "give a stream or a table"),
    "a table first": (lambda: ANY_CUSTOMERS.join(ORDERS, on="customer"), "Join a stream with a table, by the stream's"),
    "union of joined tables": (
        lambda: ANY_JOINED.union(ANY_JOINED),
        r"union\(\) was called on a table, 'customers joined with t', whose rows change: call to_stream\(\) first",
    ),
    "copy of a table": (lambda: CUSTOMERS.sink("copy"), "would be copied"),
    "other times": (
        lambda: SHOWN.union(stream("b", schema="ad STRING, shown TIMESTAMP")),
        "event times or watermarks differ",
    ),
    "trust of a union": (
        lambda: ORDERS.union(ORDERS).group_by("id", trust_partitioning=True),
        "partitions of several topics",
    ),
    "a name": (lambda: ORDERS.join(CUSTOMERS, on="customer", name="a b"), "cannot name a topic"),
    "partitions": (lambda: ORDERS.join(CUSTOMERS, on="customer", partitions=0), "a whole number above 0"),
}


@pytest.mark.parametrize(("write", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_joined_is_refused_where_it_is_written(write: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        write()  # type: ignore[operator]


@pytest.mark.parametrize("name", ["amount", "customer"])
def test_integers_of_two_sizes_and_keys_of_two_types_are_other_types(name: str) -> None:
    web = stream("web", schema=f"id STRING, customer {'STRING' if name == 'amount' else 'INT'}, amount INT")
    both = ORDERS.union(web if name == "amount" else web.with_column("amount", "amount"))
    with pytest.raises(ConfigurationError, match=f"'orders' and 'web': the column '{name}' is .* and INT in the other"):
        StatefulJob("app", both.group_by("customer").aggregate(F.sum("amount").alias("n")).sink("out"))


def test_types_that_are_seen_to_differ_between_united_streams_are_refused_without_spark() -> None:
    web = stream("web", schema="id STRING, customer STRING, amount DOUBLE")
    both = ORDERS.union(web)
    summed = both.group_by("customer").aggregate(F.sum("amount").alias("n")).sink("out")
    joined = both.join(CUSTOMERS, on="customer").sink("out")

    for sink in (summed, joined):
        with pytest.raises(
            ConfigurationError, match="'orders' and 'web': the column 'amount' is BIGINT in the first, and"
        ):
            StatefulJob("app", sink)
    cast = both.with_column("amount", "CAST(amount AS DOUBLE)").group_by("customer").aggregate(F.sum("amount"))
    StatefulJob("app", cast.sink("out"))
    StatefulJob("app", both.group_by("customer").aggregate(F.count()).sink("out"))


@pytest.mark.parametrize(
    ("schema", "name", "kind", "found"),
    [
        pytest.param("amount DECIMAL(10, 2)", "amount", pa.decimal128(10, 2), r"DECIMAL\(10,2\)", id="with-parameters"),
        pytest.param("amount BIGINT", "amount", pa.int32(), "INT", id="computed"),
        pytest.param("customer BIGINT", "customer", pa.int64(), "BIGINT", id="the-key"),
    ],
)
def test_types_that_only_spark_knows_are_compared_between_united_streams(
    schema: str, name: str, kind: pa.DataType, found: str
) -> None:
    columns = {"id": "id STRING", "customer": "customer STRING", "amount": "amount BIGINT", name: schema}
    web = stream("web", schema=", ".join(columns.values())).with_column(name, f"greatest({name}, {name})")
    both, types = ORDERS.union(web), spark_types(**{"amount": pa.int64(), name: kind})
    summed = StatefulJob("app", both.group_by("customer").aggregate(F.sum("amount").alias("n")).sink("out"))
    joined = StatefulJob("app", both.join(CUSTOMERS, on="customer").sink("out"))
    for job in (summed, joined):
        with pytest.raises(
            ConfigurationError, match=f"'orders' and 'web': the column '{name}' is .* in the first, and {found} in the"
        ):
            compile_job(job, facts_of(job.stages), types)


def test_key_types_of_both_sides_of_a_join_are_compared() -> None:
    orders = ORDERS.with_column("customer", "length(customer)")
    job = StatefulJob("app", orders.join(CUSTOMERS, on="customer").sink("out"))

    with pytest.raises(ConfigurationError, match=r"join\(on='customer'\) of job 'app' compares bigint with string"):
        compile_job(job, facts_of(job.stages), spark_types(customer=pa.int32()))


def test_schema_of_joined_rows_is_that_of_both_sides() -> None:
    columns = ORDERS.join(CUSTOMERS, on="customer").columns
    assert columns is not None
    assert list(columns) == ["customer", "id", "amount", "country", "_source"]
