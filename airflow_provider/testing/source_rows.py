"""From records of the source topic to the rows that reach a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider.streaming.planner.compiled_job import SourceSpec
from airflow_provider.testing.in_memory_clients import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class SourceRecord:
    """A record of the source topic with its place."""

    partition: int
    offset: int
    record: Record


def types_of_source(source: SourceSpec) -> pa.Schema:
    """See `streaming.driver.row_types.types_of_source`: by a local Spark session."""
    # Only here: a job whose values the worker decodes starts no JVM.
    from airflow_provider.streaming.driver.spark import row_types

    return row_types.types_of_source(local_spark(), source)


class SourceRows:
    """Does what the driver's query does with Kafka's records."""

    def __init__(self, source: SourceSpec) -> None:
        self._source = source
        self._ahead: pa.Table | None = None
        self._at: dict[tuple[int, int], range] = {}

    def of(self, records: Sequence[SourceRecord]) -> list[pa.RecordBatch]:
        """The rows of some records.

        Args:
            records: partition after partition, each in the order of the offsets.
        """
        if self._source.decoded_by_worker:
            return [self._as_they_are(records)]
        if self._ahead is None:
            rows = self._rows_of(self._query(records))
        else:
            places = [place for r in records for place in self._at[r.partition, r.offset]]
            rows = self._ahead.take(pa.array(places, pa.int64()))
        batches: list[pa.RecordBatch] = rows.to_batches()
        return batches

    def decode_ahead(self, records: Sequence[SourceRecord]) -> None:
        """Make the rows of records that come in later micro-batches, with one call of Spark instead of one for each.

        Nothing is done where the worker decodes, or where a step may come to something else in another micro-batch,
        such as a random number, the current time, the row's place, or a Python function.
        """
        if self._source.decoded_by_worker or not records:
            return
        query = self._query(records)
        if _same_in_any_batch(query):
            self._ahead = self._rows_of(query)
            records_of = zip(*(self._ahead[name].to_pylist() for name in ("__partition", "__offset")), strict=True)
            for number, record in enumerate(records_of):
                # A step may have made several rows of it, which stand together.
                first = self._at[record].start if record in self._at else number
                self._at[record] = range(first, number + 1)

    def _query(self, records: Sequence[SourceRecord]) -> DataFrame:
        # Only here: a job whose values the worker decodes starts no JVM.
        from airflow_provider.streaming.driver.spark.source_query import rows_of_source

        return rows_of_source(local_spark().createDataFrame(self._kafka_table(records)), self._source)

    @staticmethod
    def _rows_of(query: DataFrame) -> pa.Table:
        # A session of the user's may have spread the records over several cores.
        return query.toArrow().sort_by([("__partition", "ascending"), ("__offset", "ascending")])

    def _as_they_are(self, records: Sequence[SourceRecord]) -> pa.RecordBatch:
        """As `rows_of_source` where the worker decodes: the columns of Kafka's source under other names."""
        columns = {
            "__partition": pa.array([r.partition for r in records], pa.int32()),
            "__offset": pa.array([r.offset for r in records], pa.int64()),
            "__source_key": pa.array([r.record.key for r in records], pa.binary()),
            "__value": pa.array([r.record.value for r in records], pa.binary()),
        }
        if self._source.keeps_timestamps:
            columns["__timestamp_ms"] = pa.array([r.record.timestamp_ms for r in records], pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    def _kafka_table(self, records: Sequence[SourceRecord]) -> pa.Table:
        """The columns of Spark's Kafka source."""
        at = pa.array([r.record.timestamp_ms for r in records], pa.timestamp("ms", tz="UTC"))
        return pa.table(
            {
                "key": pa.array([r.record.key for r in records], pa.binary()),
                "value": pa.array([r.record.value for r in records], pa.binary()),
                "topic": pa.array([self._source.topic] * len(records), pa.string()),
                "partition": pa.array([r.partition for r in records], pa.int32()),
                "offset": pa.array([r.offset for r in records], pa.int64()),
                "timestamp": at.cast(pa.timestamp("us", tz="UTC")),
                "timestampType": pa.array([0] * len(records), pa.int32()),
            }
        )


def _same_in_any_batch(query: DataFrame) -> bool:
    """Whether Spark makes the same row of a record, whenever and beside whichever others it is decoded.

    Not so by what the plan says of itself, by the clock, and by Python functions, which may take many rows at once.
    """
    # Spark's planner says so only on the side of the JVM.
    plan: Any = query._jdf.queryExecution().analyzed()  # noqa: SLF001
    jvm: Any = query.sparkSession._jvm  # noqa: SLF001
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    depends = (patterns.CURRENT_LIKE(), patterns.PYTHON_UDF())
    return bool(plan.deterministic()) and not any(plan.containsPattern(pattern) for pattern in depends)


def local_spark() -> SparkSession:
    """The session of this process: the one that is there, else a small local one that stays until the process ends."""
    from pyspark.sql import SparkSession

    # A builder would change the settings of a session that is there.
    return SparkSession.getActiveSession() or (
        SparkSession.builder.master("local[1]")
        .appName("job-tester")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
