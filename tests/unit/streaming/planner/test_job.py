from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.errors import ConfigurationError
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming import InMemory, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.language.table import Table
from airflow_provider.streaming.operations.process import Row, ValueState
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.terms.sql_type import TYPES
from tests.unit.testing.sqlite_store import SQLiteStore

ORDERS = (
    stream("orders", schema="customer STRING, amount DOUBLE", key="customer")
    .filter("amount IS NOT NULL", name="no_amount")
    .with_column("cents", "amount * 100")
    .filter("cents > 0", name="free")
)
SPENT = ORDERS.group_by("customer").aggregate(F.count().alias("orders"), F.sum("amount").alias("spent"))
COMPLETE = StatefulJob("orders-per-customer", SPENT.sink("spent-per-customer"))
RAW: Any = stream("t").group_by("key")


def forget(key: str, rows: list[Row], state: ValueState) -> None:
    state.clear()


def test_job_without_a_sink_keeps_state_alone() -> None:
    (stage,) = StatefulJob("a", stream("t").group_by("key").process(forget, ["value"], name="seen")).stages

    assert (stage.store, stage.output_topic) == ("seen", None)


def test_job_of_nothing_says_what_it_needs() -> None:
    with pytest.raises(ConfigurationError, match=r"Job 'a' got no sinks: give it what it writes"):
        StatefulJob("a")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: StatefulJob("a/b", SPENT.sink("out")), id="application-id"),
        pytest.param(lambda: ORDERS.group_by("customer").aggregate(F.count(), name="s t"), id="store"),
    ],
)
def test_names_that_cannot_be_topics_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigurationError, match="cannot name a topic"):
        make()


def test_every_method_leaves_the_job_before_as_it_was() -> None:
    before = StatefulJob("a", SPENT.sink("out"))

    before.options(call_timeout_s=5).certify(None).on_error("skip").on_data_loss("continue")

    assert before == StatefulJob("a", SPENT.sink("out"))


def test_options_change_what_they_name_and_no_more() -> None:
    rocksdb = RocksDBOptions(block_cache_bytes=1 << 20)

    job = COMPLETE.options(rocksdb=rocksdb, kafka={"kafka.max.poll.records": "10"}).options(call_timeout_s=5)

    assert (job.rocksdb, job.call_timeout_s, job.transaction_timeout_ms) == (rocksdb, 5, 60_000)
    assert dict(job.kafka_options) == {"kafka.max.poll.records": "10"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("kafka.isolation.level", "exactly once", id="isolation"),
        pytest.param("KAFKA.Isolation.Level", "exactly once", id="in-capitals"),
        pytest.param("kafka.bootstrap.servers", "connection", id="cluster"),
        pytest.param("kafka.sasl.jaas.config", "connection", id="login"),
        pytest.param("startingOffsets", "where it stopped", id="position"),
        pytest.param("failOnDataLoss", r"on_data_loss\(\)", id="data-loss"),
        pytest.param("maxOffsetsPerTrigger", r"options\(max_offsets_per_trigger", id="batch-size"),
    ],
)
def test_option_that_the_package_sets_itself_is_refused_with_where_it_is_set(name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}.*{hint}"):
        COMPLETE.options(kafka={name: "x"})


def test_operation_can_be_sent_to_workers() -> None:
    (stage,) = COMPLETE.stages

    assert pickle.loads(pickle.dumps(stage.operation)) == stage.operation


def test_option_that_is_empty_is_set_and_one_that_is_none_is_not() -> None:
    job = COMPLETE.options(kafka={"kafka.max.poll.records": "10"}).options(restore=None)

    assert dict(job.options(kafka={}).kafka_options) == {}
    assert (dict(job.kafka_options), job.restore) == ({"kafka.max.poll.records": "10"}, RestoreSettings())


@pytest.mark.parametrize(
    ("options", "found"),
    [
        pytest.param({"call_timeout_s": 0}, "call_timeout_s=0", id="call-timeout"),
        pytest.param({"state_cleanup_delay_ms": 0}, "state_cleanup_delay_ms=0", id="state-cleanup-delay"),
        pytest.param({"transaction_timeout_ms": 0}, "transaction_timeout_ms=0", id="transaction-timeout"),
    ],
)
def test_option_that_cannot_work_is_refused_and_not_ignored(options: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigurationError, match=found):
        COMPLETE.options(**options)


NESTED = (
    "id STRING NOT NULL COMMENT 'the, key', who STRUCT<name: STRING, `home.town`: STRUCT<zip: INT>>, "
    "price DECIMAL(12, 2), tags ARRAY<STRING>, extra MAP<STRING, INT>, at TIMESTAMP, raw BINARY, any VARIANT, "
    "`odd name` INT"
)


def made(key: str = "id", aggregate: Aggregate | None = None, columns: Sequence[str] = ()) -> Stream | Table:
    grouped = stream("t", schema=NESTED, key="id").with_column("computed", "1").group_by(key, trust_partitioning=True)
    return grouped.process(forget, tuple(columns)) if aggregate is None else grouped.aggregate(aggregate)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda: made("ID", columns=["who", "price", "tags", "extra", "at", "raw", "computed"]), id="process"
        ),
        pytest.param(lambda: made("who.name", F.sum("price")), id="field-of-a-struct"),
        pytest.param(lambda: made("_source.key", F.max("_source.offset")), id="record"),
        pytest.param(lambda: made("`odd name`", F.count("tags")), id="quoted"),
        pytest.param(lambda: made("computed", F.sum("computed")), id="computed"),
        pytest.param(lambda: made("computed.field", F.last("computed")), id="field-of-a-computed"),
        pytest.param(lambda: stream("t").group_by("key").aggregate(F.count("value")), id="without-a-schema"),
        pytest.param(
            lambda: stream("t", schema="???", key="x").group_by("x").aggregate(F.sum("y")), id="left-to-spark"
        ),
    ],
)
def test_columns_that_exist_are_accepted(make: Callable[[], Stream | Table]) -> None:
    assert len(StatefulJob("a", make().sink("out")).stages) == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(
            lambda: made("idd", F.count()), r"group_by\(\) names the column 'idd', .*did you mean 'id'\?", id="key"
        ),
        pytest.param(lambda: made(aggregate=F.sum("pric")), r"'sum\(pric\)'.*did you mean 'price'\?", id="aggregate"),
        pytest.param(lambda: made(columns=["tag"]), r"process\(\) names.*did you mean 'tags'\?", id="process"),
        pytest.param(lambda: made("who.nme", F.count()), r"did you mean 'who.name'\?", id="field"),
        pytest.param(
            lambda: made(aggregate=F.sum("zzz")), r"does not exist\. There are 'id', 'who'", id="nothing-close"
        ),
        pytest.param(
            lambda: made(aggregate=F.sum("at")), r"sum of column 'at' of type TIMESTAMP", id="sum-of-timestamp"
        ),
        pytest.param(
            lambda: made(aggregate=F.max("who")), r"max of column 'who' of type STRUCT<name", id="max-of-struct"
        ),
        pytest.param(
            lambda: made(aggregate=F.first("raw")), r"first of column 'raw' of type BINARY", id="first-of-binary"
        ),
        pytest.param(lambda: made("tags", F.count()), r"'tags' of type ARRAY<STRING>.*to_json", id="key-of-array"),
        pytest.param(lambda: made(columns=["any"]), r"'any' of type VARIANT.*cast it to STRING", id="variant"),
        pytest.param(
            lambda: made(aggregate=F.count().alias("id")), r"names a result 'id'.*alias\(\)", id="alias-of-the-key"
        ),
        pytest.param(
            lambda: stream("t").group_by("customer").aggregate(F.count()),
            r"'customer', which does not exist\. There are 'key', 'value'",
            id="without-a-schema",
        ),
    ],
)
def test_column_that_cannot_be_used_is_refused_in_one_line(make: Callable[[], Stream | Table], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("columns", [None, "amount", ["a", "a"]])
def test_process_says_how_columns_are_named(columns: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'such as columns=\["amount", "country"\]'):
        stream("t").group_by("key").process(forget, columns)


def test_policy_that_does_not_exist_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigurationError, match=r"'ignore': choose one of 'fail', 'skip', 'dead_letter'"):
        COMPLETE.on_error("ignore")  # type: ignore[arg-type]


SCHEMA = "customer STRING, who STRUCT<name: STRING, at: ARRAY<INT>>, `odd, name` DECIMAL(10, 2) COMMENT 'a, b', n: INT"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(
            lambda: stream("t", schema=SCHEMA).group_by("custmer"),
            r"does not exist: did you mean 'customer'\? There are 'customer', 'who', 'odd, name', 'n'\.",
            id="misspelt",
        ),
        pytest.param(
            lambda: stream("t", schema=SCHEMA).group_by("xyz"),
            r"does not exist\. There are 'customer'.*'n'\.$",
            id="far",
        ),
        pytest.param(lambda: stream("t").group_by("k"), "There are 'key', 'value'", id="no-schema"),
        pytest.param(
            lambda: stream("t").with_column("host", "CAST(key AS STRING)").group_by("hots"),
            "did you mean 'host'",
            id="a-step-adds-one",
        ),
    ],
)
def test_column_that_there_is_not_is_refused_before_spark_starts(make: Callable[[], object], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        pytest.param(SCHEMA, "n", id="after-odd-fields"),
        pytest.param(SCHEMA, "Customer", id="in-another-case"),
        pytest.param(SCHEMA, "who.name", id="a-field-of-a-struct"),
        pytest.param("struct<a: int>", "b", id="a-schema-that-only-spark-reads"),
    ],
)
def test_column_that_there_may_be_is_left_to_spark(schema: str, key: str) -> None:
    counts = stream("t", schema=schema, key=key).group_by(key).aggregate(F.count())

    assert len(StatefulJob("a", counts.sink("out")).stages) == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        pytest.param(
            "customer STR, amount DUBLE", "column 'customer' is of type STR, .*: did you mean STRING\\?", id="plain"
        ),
        pytest.param("customer STRING, amount dubel", "'amount' is of type DUBEL, .*did you mean DOUBLE", id="small"),
        pytest.param("customer STRING, n INT64", "'n' is of type INT64, .*did you mean INT\\?", id="with-digits"),
        pytest.param("customer TEXT NOT NULL COMMENT 'a, b'", "did you mean STRING", id="of-another-language"),
        pytest.param("customer STRING, x UUID", "use one of STRING, BIGINT", id="nothing-close"),
        pytest.param("customer STRING, a ARRAY<STR>", "'a' is of type STR, .*did you mean STRING", id="in-an-array"),
        pytest.param("customer STRING, a MAP<STRING, ARRAY<LNG>>", "'a' is of type LNG, .*LONG", id="in-a-map"),
        pytest.param("customer STRING, a STRUCT<b: INTT>", "'a.b' is of type INTT, .*INT\\?", id="in-a-struct"),
        pytest.param(
            "customer STRING, a ARRAY<STRUCT<b: INTT>>", "'a.b' is of type INTT, .*INT\\?", id="in-structs-of-an-array"
        ),
    ],
)
def test_type_that_spark_does_not_have_is_refused_in_one_line(schema: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        stream("t", schema=schema)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        pytest.param("c STRING, a INT, a INT", "'a' twice: keep one", id="same"),
        pytest.param("c STRING, amount INT, Amount DOUBLE", "'amount' and 'Amount', which are one", id="another-case"),
        pytest.param("c STRING, `c` STRING", "'c' twice", id="quoted"),
        pytest.param("c STRING, _source STRING", "'_source', which every row has already", id="name-of-the-record"),
    ],
)
def test_column_that_there_would_be_twice_is_refused_in_one_line(schema: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        stream("t", schema=schema)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", [*TYPES, "INTERVAL DAY TO SECOND", "DECIMAL(10, 2)", "TIME(6)", "STRING COLLATE UTF8_LCASE"]
)
def test_type_that_spark_has_is_accepted(kind: str) -> None:
    rows = stream("t", schema=f"c STRING, x {kind}, y: ARRAY<{kind}>")

    assert {"c", "x", "y"} <= set(rows.columns or ())


def test_trust_in_the_partitioning_is_said_by_name_and_is_a_bool() -> None:
    with pytest.raises(ConfigurationError, match="trust_partitioning='day'"):
        stream("t").group_by("key", trust_partitioning="day")  # type: ignore[arg-type]


COUNTED = stream("orders", schema="customer STRING", key="customer").group_by("customer").aggregate(F.count())


def counts(topic: str) -> StatefulJob:
    return StatefulJob("counts", COUNTED.sink(topic))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda: counts("orders"), r"stream\(\) and sink\(\).*'orders'.*without end", id="sink-is-source"),
        pytest.param(
            lambda: counts("out").on_error("dead_letter", "orders"),
            r"stream\(\) and on_error\(\).*without end",
            id="source-letters",
        ),
        pytest.param(
            lambda: counts("out").on_error("dead_letter", "out"), r"sink\(\) and on_error\(\).*'out'", id="sink-letters"
        ),
        pytest.param(
            lambda: counts("out").on_error("dead_letter", "counts-out-changelog"),
            r"on_error\(\).*changelog of its store 'out'",
            id="changelog",
        ),
        pytest.param(lambda: counts("counts-assignment"), "its assignment topic", id="assignment"),
        pytest.param(lambda: counts("counts-status"), "its status topic", id="status"),
    ],
)
def test_topic_that_a_job_uses_twice_is_refused(make: Callable[[], StatefulJob], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_changelog_of_another_application_can_be_a_source() -> None:
    rows = stream("b-state-changelog").group_by("key").aggregate(F.count())

    assert StatefulJob("a", rows.sink("out")).stages[0].source_topic == "b-state-changelog"


def _StoreOfAFunction() -> type:
    class Store(SQLiteStore):
        pass

    return Store


def test_snapshots_are_taken_of_the_stores_that_are_named() -> None:
    rows = stream("rows", schema="k STRING").group_by("k")
    job = StatefulJob("a", rows.aggregate(F.count()).sink("one"), rows.aggregate(F.count()).sink("two"))
    copied = job.options(stores={"two": InMemory()}).snapshots("s3://b/p", stores=["one"])

    assert copied.snapshot_stores == ("one",)
    assert job.snapshots("s3://b/p").snapshot_stores == ("one", "two")
    assert job.snapshot_stores == ()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda j: j.options(max_offsets_per_trigger=0), "max_offsets_per_trigger=0", id="no-records"),
        pytest.param(
            lambda j: j.options(max_offsets_per_trigger="5"), "whole number above 0 records", id="text-for-records"
        ),
        pytest.param(lambda _: stream(["a", "b"]), r"stream\(\) got topic=\['a', 'b'\]: give one text", id="topics"),  # type: ignore[arg-type]
        pytest.param(lambda _: stream("t", schema={"a": "INT"}), r"got schema=\{'a'", id="schema"),  # type: ignore[arg-type]
        pytest.param(lambda _: SPENT.sink(5), r"sink\(\) got topic=5", id="sink"),  # type: ignore[arg-type]
        pytest.param(lambda j: j.options(rocksdb={"a": 1}), r"give RocksDBOptions\(", id="rocksdb"),
        pytest.param(lambda j: j.options(stores="memory"), r'give a dict, such as \{"counts"', id="stores"),
        pytest.param(
            lambda j: j.options(stores={"out": "memory"}),
            r"stores= with 'out': 'memory': give RocksDBOptions\(\), InMemory\(\) or a class",
            id="kind",
        ),
        pytest.param(
            lambda j: j.options(stores={"out": dict}), r"dict, which has no position\(\) and no range", id="class"
        ),
        pytest.param(
            lambda j: j.options(stores={"out": _StoreOfAFunction()}),
            "Store, which other processes cannot import .*at the top of a module",
            id="class-of-a-function",
        ),
        pytest.param(
            lambda j: j.options(stores={"ou": InMemory()}), "'ou', and job .* has the stores 'spent", id="store"
        ),
        pytest.param(lambda _: InMemory(max_bytes=0), "InMemory got max_bytes=0", id="bound"),
        pytest.param(lambda j: j.snapshots("s3://b/p", stores=["ou"]), r"snapshots\(\) got stores='ou'", id="of-none"),
        pytest.param(
            lambda j: j.options(stores={j.stages[0].store: InMemory()}).snapshots("s3://b/p"),
            r"copies the files of RocksDB, and the store '.*' is kept by memory: .* Leave it out",
            id="snapshots",
        ),
        pytest.param(lambda j: j.options(restore={"a": 1}), r"give RestoreSettings\(", id="restore"),
        pytest.param(lambda j: j.options(kafka={"group.id"}), "give a dict", id="kafka-set"),
        pytest.param(lambda j: j.options(kafka={"group.id": "a"}), "as in 'kafka.group.id'", id="kafka-prefix"),
        pytest.param(
            lambda j: j.options(kafka={"startingOffsets": "latest"}),
            "'startingOffsets', which cannot be set there",
            id="starting",
        ),
        pytest.param(lambda _: RAW.process("f", ["value"]), r"process\(\) got 'f': give the function", id="function"),
        pytest.param(lambda _: RAW.process(forget, ["value"], timeout_s="1"), "timeout_s='1'", id="timeout"),
        pytest.param(
            lambda _: RAW.aggregate("amount"), r"aggregate\(\) got 'amount': give aggregates one by", id="name"
        ),
        pytest.param(lambda _: RAW.aggregate([F.count()]), "one by one.*not those of pyspark", id="list"),
        pytest.param(lambda j: j.certify("60"), "interval_s='60'.*or None for never", id="certify"),
        pytest.param(lambda j: j.options(call_timeout_s="abc"), "call_timeout_s='abc'", id="call-timeout"),
        pytest.param(
            lambda j: j.options(allow_faults="no"), "allow_faults='no': give True or False", id="allow-faults"
        ),
        pytest.param(lambda j: j.options(call_timeout_s=float("nan")), "call_timeout_s=nan", id="nan"),
    ],
)
def test_argument_of_another_kind_is_refused_where_it_is_given(make: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make(COMPLETE)


@pytest.mark.parametrize("value", ["1g", 0, -1, 1.5, True])
def test_rocksdb_option_that_is_no_number_is_refused_where_it_is_given(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"block_cache_bytes={value!r}: it must be a whole number above 0"):
        RocksDBOptions(block_cache_bytes=value)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(lambda: COMPLETE.on_error("dead_letter", "a/b"), id="on_error"),
        pytest.param(lambda: stream("a/b"), id="source"),
        pytest.param(lambda: SPENT.sink("a/b"), id="sink"),
    ],
)
def test_topic_that_kafka_cannot_have_is_refused(name: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"\(\) names the topic 'a/b', which Kafka cannot have: use 1 to 249"):
        name()
