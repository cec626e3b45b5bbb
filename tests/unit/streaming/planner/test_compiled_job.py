from __future__ import annotations

import pickle
from collections.abc import Callable

import pyarrow as pa
import pytest

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, Stream, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.joins.join_operation import JoinSide
from airflow_provider.streaming.planner.compile import TypesOf, compile_job
from airflow_provider.streaming.planner.compiled_job import CompiledJob, SourceSpec
from tests.builders import job_of_result, spark_types, topic_facts

SCHEMA = "customer STRING, amount DOUBLE"
PLAIN = stream("orders", schema=SCHEMA, key="customer")


def job_of(
    *aggregates: Aggregate, rows: Stream = PLAIN, key: str = "customer", trust_partitioning: bool = False
) -> StatefulJob:
    return job_of_result(rows.group_by(key, trust_partitioning=trust_partitioning).aggregate(*aggregates))


def compiled(job: StatefulJob, partitions: int = 4, types_of: TypesOf | None = None) -> CompiledJob:
    return compile_job(job, topic_facts(job, partitions, delete_retention_ms=3_600_000), types_of or spark_types())


def test_topics_say_how_many_tasks_and_for_how_long_tombstones_are_kept() -> None:
    (stage,) = compiled(job_of(F.count())).stages

    assert (stage.num_tasks, stage.spec.store.delete_retention_ms) == (4, 3_600_000)


def test_filters_are_named_in_their_order() -> None:
    rows = PLAIN.filter("amount IS NOT NULL", name="no_amount").with_column("cents", "amount * 100")

    job = job_of(F.sum("cents"), rows=rows.filter("cents > 0", name="free"))
    (stage,) = compiled(job, types_of=spark_types(cents=pa.float64())).stages

    assert stage.spec.input.filters == ("no_amount", "free")
    assert [step.name for step in stage.source.steps] == ["no_amount", "cents", "free"]


@pytest.mark.parametrize(
    ("job", "by_worker"),
    [
        pytest.param(job_of(F.sum("amount")), True, id="plain-types"),
        pytest.param(job_of(F.count(), rows=PLAIN.filter("amount > 0", name="free")), True, id="a-plain-step"),
        pytest.param(
            job_of(F.count(), rows=PLAIN.filter("sqrt(amount) > 0", name="free")), False, id="a-step-in-spark"
        ),
        pytest.param(
            job_of(F.count(), key="amount", rows=stream("orders", schema=SCHEMA, key="amount")),
            False,
            id="a-double-as-key",
        ),
        pytest.param(job_of(F.max("_source.offset")), False, id="a-column-beside-the-value"),
        pytest.param(job_of(F.count(), key="key", rows=stream("t")), False, id="no-schema"),
        pytest.param(
            job_of(F.count(), key="k", rows=stream("t", schema="k STRING, at FLOAT", key="k")),
            False,
            id="a-type-that-only-spark-decodes",
        ),
    ],
)
def test_driver_and_workers_agree_on_who_decodes(job: StatefulJob, by_worker: bool) -> None:
    (stage,) = compiled(job).stages

    assert stage.source.decoded_by_worker is by_worker
    assert (stage.spec.input.decoder is not None) is by_worker


@pytest.mark.parametrize(("policy", "topic"), [("fail", None), ("skip", None), ("dead_letter", "bad")])
def test_records_travel_whole_only_where_they_may_become_dead_letters(policy: str, topic: str | None) -> None:
    job = job_of(F.count()).on_error(policy, topic)  # type: ignore[arg-type]

    assert compiled(job).stages[0].source.keeps_records is (topic is not None)


def test_restore_settings_reach_the_store() -> None:
    job = job_of(F.count()).options(restore=RestoreSettings(memory_bytes=32 << 20))

    spec = compiled(job).specs[0]

    assert spec.store.kind.rocksdb.bulk_write_buffer_bytes == job.restore.write_buffer_bytes
    assert spec.store.kind.rocksdb.bulk_max_write_buffers == job.restore.max_write_buffers


def test_what_workers_get_can_be_sent_to_them() -> None:
    spec = compiled(job_of(F.count())).specs[0]

    assert pickle.loads(pickle.dumps(spec)) == spec


def test_job_of_plain_types_is_signed_without_spark() -> None:
    def asked(source: SourceSpec) -> pa.Schema:
        raise AssertionError(f"Spark was asked for the types of {source.topic!r}")

    job = job_of(F.count().alias("n"), F.avg("amount").alias("mean"))
    signature = compiled(job, types_of=asked).specs[0].store.signature

    assert signature is not None
    assert (signature.key, signature.key_type, signature.layouts, signature.layout) == (
        "customer",
        "string",
        ((0, 1),),
        1,
    )
    assert [(kept.name, kept.type, kept.kinds) for kept in signature.aggregates] == [
        ("n", "bigint", ("integer",)),
        ("mean", "double", ("double", "integer")),
    ]


def test_column_of_another_type_that_nobody_reads_is_left_out_of_what_a_stage_before_wrote() -> None:
    """Spark would make nothing of a record whose column is wrong; a stage of the job writes none such."""
    schema = "customer STRING, amount BIGINT, at TIMESTAMP"
    orders = stream("orders", schema=schema, key="customer", event_time="at", watermark="1 minute")
    aggregates = F.sum("amount").alias("n"), F.collect_list("amount", limit=9).alias("amounts")
    hourly = orders.group_by("customer", window("at", "1 hour")).aggregate(*aggregates, emit="close")

    def decoders(rows: Stream) -> list[bool]:
        sizes = rows.group_by("n").aggregate(F.count().alias("windows"))
        types = spark_types(amounts=pa.list_(pa.int64()), n=pa.int64())
        return [stage.source.decoded_by_worker for stage in compiled(job_of_result(sizes), types_of=types).stages]

    assert decoders(hourly) == [True, True, True]
    assert decoders(hourly.filter("size(amounts) > 0", name="none")) == [True, False, True]
    assert decoders(hourly.filter("window.start IS NOT NULL", name="timeless")) == [True, True, True]


@pytest.mark.parametrize(
    ("step", "remakes"),
    [
        (lambda rows: rows.with_column("at", "early"), True),
        (lambda rows: rows.with_column("AT", "early"), True),
        (lambda rows: rows.select("country", "early AS at"), True),
        (lambda rows: rows.with_column("other", "early"), False),
        (lambda rows: rows.select("country", "at"), False),
    ],
)
def test_rows_of_which_a_step_behind_the_join_makes_another_time_all_bring_their_watermark(
    step: Callable[[Stream], Stream], remakes: bool
) -> None:
    schema = "customer STRING, at BIGINT, early BIGINT"
    orders = stream("orders", schema=schema, key="customer", event_time="at", watermark="1 minute")
    joined = orders.join(table("customers", schema="customer STRING, country STRING", key="customer"), on="customer")
    counted = step(joined).group_by("country", window("at", "1 hour")).aggregate(F.count().alias("n"), emit="close")
    types = spark_types(country=pa.string(), at=pa.int64(), passed__=pa.int64())

    left = compiled(job_of_result(counted), types_of=types).stages[0].spec.operation

    assert isinstance(left, JoinSide)
    assert (left.passes, left.passes_always) == (True, remakes)


def test_job_that_spark_decodes_is_signed_with_the_types_that_it_says() -> None:
    job = job_of(F.sum("cents").alias("total"), rows=PLAIN.with_column("cents", "round(amount * 100)"))

    spec = compiled(job, types_of=spark_types(customer=pa.int32(), cents=pa.int64())).specs[0]

    signature = spec.store.signature
    assert signature is not None
    assert spec.input.columns == pa.schema([("cents", pa.int64())])
    assert (signature.key_type, signature.aggregates[0].type) == ("bigint", "bigint")


def test_zone_of_the_session_is_no_part_of_a_type() -> None:
    job = job_of(F.max("at").alias("at"), rows=PLAIN.with_column("at", "now()"))
    here, there = (
        compiled(job, types_of=spark_types(at=pa.timestamp("us", tz=zone))).specs[0].store.signature
        for zone in ("UTC", "Europe/Berlin")
    )

    assert here == there


def test_column_that_the_rows_lack_is_named() -> None:
    job = job_of(F.max("who.customer"), rows=PLAIN.with_column("who", "struct(customer)"))

    with pytest.raises(ConfigurationError, match=r"names 'who\.customer', and its rows have 'customer'"):
        compiled(job, types_of=lambda source: pa.schema([("customer", pa.string())]))


@pytest.mark.parametrize(
    ("job", "partitions", "checked"),
    [
        pytest.param(job_of(F.count()), 4, 4, id="several-partitions"),
        pytest.param(job_of(F.count()), 1, None, id="one-partition"),
        pytest.param(job_of(F.count(), trust_partitioning=True), 4, None, id="on-trust"),
    ],
)
def test_partitions_of_the_groups_are_checked_where_there_are_several(
    job: StatefulJob, partitions: int, checked: int | None
) -> None:
    assert compiled(job, partitions).specs[0].input.num_partitions == checked
