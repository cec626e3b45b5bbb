"""Several stages: what one writes, the next one reads."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.accumulator_rows import PartialRows
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.planner.compile import TopicFacts, TypesOf, compile_job
from airflow_provider.streaming.planner.compiled_job import CompiledJob
from airflow_provider.streaming.planner.stage_plan import internal_specs, partitions_read
from tests.builders import spark_types
from tests.unit.streaming.operations.merging import merged
from tests.unit.testing.word_count import COUNTS, LINES, WORDS, job_of

FACTS = TopicFacts(
    partitions={LINES: 2, WORDS: 3}, delete_retention_ms={"words-0-commits": 5, "words-counts-changelog": 7}
)


def compiled(types_of: TypesOf | None = None, **more: Any) -> CompiledJob:
    return compile_job(job_of(**{"combine": True, **more}), FACTS, types_of or spark_types())


def test_each_stage_has_the_tasks_and_the_topics_of_its_own() -> None:
    job = compiled()

    assert list(map(str, job.tasks)) == ["0_0", "0_1", "1_0", "1_1", "1_2"]
    first, second = job.specs.values()
    assert (first.input.topic, first.changelog, first.sink_topic) == (LINES, "words-0-commits", WORDS)
    assert (second.input.topic, second.changelog, second.sink_topic) == (WORDS, "words-counts-changelog", COUNTS)
    assert (first.store.delete_retention_ms, second.store.delete_retention_ms) == (5, 7)
    assert (first.keeps_state, second.keeps_state) == (False, True)
    # Where a record lies is nobody's business before the repartition, and what it is for behind it.
    assert (first.input.num_partitions, second.input.num_partitions) == (None, None)


def test_parts_of_rows_that_spark_decodes_are_decoded_by_the_worker() -> None:
    job = compiled(spark_types(length=pa.int32()), by_spark=True)

    later = job.stage(1)
    assert [stage.source.decoded_by_worker for stage in job.stages] == [False, True]
    assert isinstance(later.spec.input.decoder, PartialRows)
    assert later.spec.store.signature is not None
    assert [kept.type for kept in later.spec.store.signature.aggregates] == ["bigint", "bigint"]
    assert pickle.loads(pickle.dumps(job.specs)) == job.specs


def test_combining_changes_what_is_on_the_way_and_nothing_else() -> None:
    each_row, combined = (compiled(combine=combine).specs[1].store.signature for combine in (False, True))

    assert each_row is not None
    assert (each_row.combined, each_row.columns) == (False, {"length": "bigint"})
    assert combined == dataclasses.replace(each_row, combined=True, columns={})


def test_stage_before_an_internal_topic_is_signed_with_all_that_the_one_behind_it_means() -> None:
    first, second = compiled().specs.values()

    assert first.store.signature is not None
    assert first.store.signature.writes == {WORDS: second.store.signature}


@pytest.mark.parametrize(
    ("kind", "schema", "by_worker"),
    [
        pytest.param(pa.int64(), "length BIGINT", True, id="plain"),
        pytest.param(pa.decimal128(12, 2), "length DECIMAL(12,2)", True, id="a-decimal"),
        pytest.param(pa.float32(), "length FLOAT", False, id="spark-decodes"),
        pytest.param(pa.date32(), "length DATE", True, id="a-date"),
        pytest.param(pa.timestamp("us", tz="UTC"), "length TIMESTAMP", True, id="a-time"),
    ],
)
def test_rows_come_back_with_their_types(kind: pa.DataType, schema: str, by_worker: bool) -> None:
    types_of = spark_types(word=pa.int32(), length=kind)
    job = compiled(types_of, combine=False, by_spark=True, aggregates=[F.max("length").alias("length")])

    fed = job.stage(1)
    assert fed.source.decoded_by_worker == by_worker
    assert (fed.source.schema, fed.spec.input.json, fed.spec.input.columns.field("length").type) == (schema, True, kind)
    assert fed.spec.store.signature is not None
    assert fed.spec.store.signature.key_type == "bigint"


def test_type_that_would_not_come_back_is_refused() -> None:
    refused = "'length' of type binary cannot be repartitioned by 'word'"
    with pytest.raises(ConfigurationError, match=refused):
        compiled(spark_types(length=pa.binary()), combine=False, by_spark=True)


def test_task_of_a_stage_that_the_job_does_not_have_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'words' has no stage 2, only 0, 1: the assignment was made for"):
        compiled().stage(2)


@pytest.mark.parametrize(("partitions", "of_words"), [(None, 4), (6, 6)], ids=["as-the-source", "chosen"])
def test_topics_between_stages_have_the_partitions_that_are_wanted(partitions: int | None, of_words: int) -> None:
    stages = job_of(combine=True, partitions=partitions).stages

    assert partitions_read(stages, {LINES: 4}) == {LINES: 4, WORDS: of_words}
    assert {spec.name: spec.partitions for spec in internal_specs("words", stages, {LINES: 4})} == {
        WORDS: of_words,
        "words-0-commits": 4,
        "words-counts-changelog": of_words,
    }


def test_topic_that_no_stage_writes_is_found() -> None:
    with pytest.raises(ConfigurationError, match="reads the topic 'words-counts-repartition', which no earlier stage"):
        partitions_read(job_of(combine=True).stages[1:], {})


def test_rows_without_columns_go_on_too() -> None:
    rows = pa.table({"__key": pa.array([b"a", b"b"]), "other": pa.array([1, 2])})

    assert merged(Repartition(()), rows).output == [(b"a", b"{}"), (b"b", b"{}")]
