"""One Structured Streaming query over some of a slot's tasks."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider.connection import KafkaConnection
from airflow_provider.streaming.job import Filter, StatefulJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["NOT_OF_SCHEMA", "SourceQuery", "rows_of_source"]

NOT_OF_SCHEMA: Final = "the value is not JSON of the job's schema"

_EARLIEST: Final = -2
"""Spark's word in ``startingOffsets`` for the first offset that the log still has."""

_POLL_S: Final = 0.01

OnBatch = Callable[["SourceQuery", "DataFrame"], None]


class LeaveError(Exception):
    """Raised between two micro-batches to end a query: ``stop()`` in the middle of one would tear the callback."""


class SourceQuery:
    """Reads the partitions of some tasks from where those tasks stopped, and hands every micro-batch on.

    Args:
        spark: the session.
        job: the job.
        connection: the cluster.
        tasks: by task, the offset of the next input record; None for the earliest there is.
        checkpoint: folder for Spark's checkpoint. Scratch: source positions live in Kafka, so it begins empty.
        on_batch: called with every micro-batch; what it raises ends the query.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: StatefulJob,
        connection: KafkaConnection,
        tasks: Mapping[int, int | None],
        checkpoint: Path,
        on_batch: OnBatch,
    ) -> None:
        self.tasks = set(tasks)
        """Tasks whose rows it may process; one that failed is taken out and never comes back."""
        self._spark, self._job, self._connection = spark, job, connection
        self._starting = {str(task): _EARLIEST if offset is None else offset for task, offset in tasks.items()}
        self._checkpoint, self._on_batch = checkpoint, on_batch
        self._leaving = False
        self._in_batch = False
        self._query: StreamingQuery | None = None
        self._started_at = 0.0

    def start(self) -> None:
        """Start it; micro-batches come from a thread of Spark's."""
        topic = str(self._job.source_topic)
        reader = self._spark.readStream.format("kafka").options(
            **self._connection.to_spark_options(),
            **{
                "assign": json.dumps({topic: sorted(int(task) for task in self._starting)}),
                "startingOffsets": json.dumps({topic: self._starting}),
                "kafka.isolation.level": "read_committed",
                "failOnDataLoss": "true",
                "includeHeaders": "false",
            },
            **dict(self._job.kafka_options),
        )
        if self._job.max_offsets_per_trigger is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self._job.max_offsets_per_trigger))
        rows = rows_of_source(reader.load(), self._job)
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self._started_at = time.monotonic()
        self._query = (
            rows.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(self._checkpoint))
            .queryName(f"{self._job.application_id}-tasks-{'-'.join(sorted(self._starting, key=int))}-{id(self)}")
            .start()
        )

    def leave(self) -> None:
        """Tell it to end between two micro-batches; returns at once."""
        self._leaving = True

    def end(self) -> None:
        """End it: wait for the micro-batch under way, if any, and let none follow."""
        self._leaving = True
        while self.active:
            if self._in_batch:
                time.sleep(_POLL_S)
            elif self._query is not None:
                self._query.stop()

    @property
    def leaving(self) -> bool:
        """Whether it was told to end."""
        return self._leaving

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return self._query is not None and self._query.isActive

    @property
    def active_for_s(self) -> float:
        """Seconds since it was started; 0 when it does not run."""
        return time.monotonic() - self._started_at if self.active else 0.0

    @property
    def error(self) -> str | None:
        """Why it ended by itself; None while it runs or when it was told to end."""
        if self._query is None or self._leaving or self._query.isActive:
            return None
        exception = self._query.exception()
        return "it ended without an error" if exception is None else str(exception)

    def _batch(self, rows: DataFrame, _: int) -> None:
        self._in_batch = True
        try:
            if self._leaving:
                raise LeaveError
            self._on_batch(self, rows)
        finally:
            self._in_batch = False


def rows_of_source(raw: DataFrame, job: StatefulJob) -> DataFrame:
    """The plan from Kafka's records to the active step's rows: narrow steps only.

    Every record comes out, a filtered or corrupt one too, marked as such: the active step counts what is dropped, and
    the source's position moves on past it. One Spark task reads the partitions one after the other, because each
    Spark task costs more than a small micro-batch's work.

    Where the worker decodes, the records come out as they are.
    """
    from pyspark.sql import functions as F

    as_it_was = ["value AS __value", "unix_millis(timestamp) AS __timestamp_ms"]
    letters = as_it_was if job.error_policy.topic is not None else []
    if job.decoder is not None:
        plain = ["partition AS __task", "offset AS __offset", "key AS __source_key"]
        return raw.selectExpr(*plain, *(letters or as_it_was[:1])).coalesce(1)
    raw = raw.selectExpr("*", *letters)
    carried = [column.rpartition(" ")[2] for column in letters]
    source = F.struct("topic", "partition", "offset", "timestamp", "key").alias("_source")
    if job.schema is None:
        rows = raw.select(source, *carried, "key", "value", F.lit(None).cast("string").alias("__corrupt"))
    else:
        corrupt = "__corrupt_record"
        value = F.from_json(
            F.col("value").cast("string"),
            f"{job.schema}, {corrupt} STRING",
            {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt},
        )
        # A null value is no JSON either: it decodes to nothing, not to a row of nulls.
        rows = (
            raw.select(source, *carried, value.alias("v"))
            .select("_source", *carried, "v.*")
            .withColumn("__corrupt", F.when(F.col(corrupt).isNotNull(), F.lit(NOT_OF_SCHEMA)))
            .drop(corrupt)
        )
    rows = rows.withColumn("__filtered", F.lit(None).cast("byte"))
    number = 0
    for step in job.steps:
        if isinstance(step, Filter):
            condition = F.expr(step.condition) if isinstance(step.condition, str) else step.condition
            dropped = ~F.coalesce(condition, F.lit(False)) & F.col("__corrupt").isNull()
            mark = F.when(F.col("__filtered").isNull() & dropped, F.lit(number).cast("byte"))
            rows = rows.withColumn("__filtered", F.coalesce(F.col("__filtered"), mark))
            number += 1
        else:
            expression = F.expr(step.expression) if isinstance(step.expression, str) else step.expression
            rows = rows.withColumn(step.name, expression)
    columns = job.operation.columns if job.operation is not None else ()
    return rows.select(
        F.col("_source.partition").alias("__task"),
        F.col("_source.offset").alias("__offset"),
        F.col("_source.key").alias("__source_key"),
        "__filtered",
        "__corrupt",
        F.col(str(job.key)).cast("string").cast("binary").alias("__key"),
        *[F.col(name) for name in (*carried, *columns)],
    ).coalesce(1)
