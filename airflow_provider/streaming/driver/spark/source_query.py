"""One Structured Streaming query over some of a slot's tasks."""

from __future__ import annotations

import functools
import json
import operator
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.streaming.driver.spark.spark_error import step_refusal
from airflow_provider.streaming.planner.compiled_job import SourceSpec
from airflow_provider.streaming.terms.event_time import EVENT_MS, MAKE_TIME
from airflow_provider.streaming.terms.steps import (
    CARRIED,
    FAILED_ROW,
    CompositeKey,
    Filter,
    LatestTime,
    Select,
    Selected,
    Step,
    TypedKey,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NOT_OF_SCHEMA: Final = "the value is not JSON of the job's schema"

_NO_BOUNDS: Final = {"maxNumLen": str(2**31 - 1), "maxStringLen": str(2**31 - 1)}
"""Spark's decoder refuses long numbers and texts; records are bounded by the topic."""

_EARLIEST: Final = -2
"""Spark's word in ``startingOffsets`` for the first offset that the log still has."""

_READS: Final = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.wait.ms": "10",
}
"""For Spark's consumers; what the job sets with ``options(kafka=...)`` counts instead.

Spark asks for the partition's ends with every poll, so a poll had better bring much. And the ends come only after the
fetch that the consumer has under way: a broker answers a connection's requests in their order. At the log's end that
fetch waits for a record as long as the brokers may keep it, 500 ms by default: for each partition of a micro-batch.
"""

_POLL_S: Final = 0.01

_VALUE: Final = "__value"
"""Of a record, as it came."""
_PLACE: Final = "__place"
"""Of an element in what ``explode`` takes apart; null where there is none."""

OnBatch = Callable[["SourceQuery", "DataFrame"], Mapping[int, int | None]]
"""Takes a micro-batch; returns by partition the offset of the next input record, to wait for; None for the first."""


class Wait(Protocol):
    """What is needed here of an `InputWait`."""

    def wait(self, offsets: Mapping[int, int | None], given_up: Callable[[], bool]) -> None: ...
    def close(self) -> None: ...


class SourceQuery:
    """Reads the partitions of some tasks from where those tasks stopped, and hands every micro-batch on.

    Spark asks for the next micro-batch once the callback of the one before has returned; while there is none it asks
    again and again. So the callback returns when there is something to ask for.

    Args:
        tasks: of one stage; by task, the offset of the next input record; None for the earliest there is.
        checkpoint: folder for Spark's checkpoint. Scratch: source positions live in Kafka, so it begins empty, and is
            removed by `end`.
        on_batch: called with every micro-batch; what it raises ends the query.
        open_wait: opens what waits for input, given the partitions; closed by `end`. None to wait for none.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: SourceSpec,
        connection: KafkaConnection,
        tasks: Mapping[TaskId, int | None],
        checkpoint: Path,
        on_batch: OnBatch,
        open_wait: Callable[[Collection[int]], Wait] | None = None,
    ) -> None:
        self.tasks = frozenset(tasks)
        """Tasks whose rows it may process; one that failed is taken out and never comes back. Written by `on_batch`."""
        self._spark = spark
        self._source = source
        self._connection = connection
        offsets = {task: _EARLIEST if offset is None else offset for task, offset in tasks.items()}
        self._starting = {str(task.partition): offset for task, offset in offsets.items()}
        self._name = f"{source.application_id}-tasks-{'-'.join(map(str, sorted(tasks)))}"
        self._checkpoint = checkpoint
        self._on_batch = on_batch
        self.leaving = False
        """Whether it was asked to end."""
        self._in_batch = False
        self._open_wait = open_wait
        self._wait: Wait | None = None
        self._query: StreamingQuery | None = None
        self._started_at = 0.0

    def start(self) -> None:
        """Start it; micro-batches come from a thread of Spark's."""
        topic = self._source.topic
        own = self._connection.to_spark_options() | {
            "assign": json.dumps({topic: sorted(map(int, self._starting))}),
            "startingOffsets": json.dumps({topic: self._starting}),
            "kafka.isolation.level": "read_committed",
            "failOnDataLoss": "true",
            "includeHeaders": "false",
        }
        reader = self._spark.readStream.format("kafka").options(**(_READS | dict(self._source.kafka_options) | own))
        if self._source.max_offsets_per_trigger is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self._source.max_offsets_per_trigger))
        rows = rows_of_source(reader.load(), self._source)
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self._started_at = time.monotonic()
        if self._open_wait is not None:
            self._wait = self._open_wait(sorted(map(int, self._starting)))
        try:
            self._query = (
                rows.writeStream.foreachBatch(self._batch)
                .option("checkpointLocation", str(self._checkpoint))
                .queryName(f"{self._name}-{id(self)}")
                .start()
            )
        except Exception:
            self.end()
            raise

    def leave(self) -> None:
        """Let it process nothing from now on, so that `end` finds none under way; returns at once."""
        self.leaving = True

    def end(self) -> None:
        """End it: wait for the micro-batch under way, if any, and let none follow. Its checkpoint goes with it.

        One that waits for input ends at once.
        """
        self.leaving = True
        while self.active:
            if self._in_batch:
                time.sleep(_POLL_S)
            elif self._query is not None:
                self._query.stop()
        if self._wait is not None:
            self._wait.close()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return self._query is not None and self._query.isActive

    @property
    def waits_for_data(self) -> bool:
        """Whether it found nothing to read."""
        return self._query is not None and self._query.status["message"] == "Waiting for data to arrive"

    @property
    def active_for_s(self) -> float:
        """Seconds since it was started; 0 when it does not run."""
        return time.monotonic() - self._started_at if self.active else 0.0

    @property
    def error(self) -> str | None:
        """Why it ended by itself; None while it runs or when it was asked to end."""
        if self._query is None or self.leaving or self._query.isActive:
            return None
        exception = self._query.exception()
        return "it ended without an error" if exception is None else str(exception)

    def _batch(self, rows: DataFrame, _: int) -> None:
        self._in_batch = True
        try:
            # Nothing is raised: it is no error, and Spark would log it as one. `end` stops the query meanwhile.
            if self.leaving:
                return
            offsets = self._on_batch(self, rows)
            if self._wait is not None and offsets and not self.leaving:
                self._wait.wait(offsets, lambda: self.leaving)
        finally:
            self._in_batch = False


def rows_of_source(raw: DataFrame, source: SourceSpec) -> DataFrame:
    """The plan from Kafka's records to the active step's rows: narrow steps only.

    Every record comes out, a filtered or corrupt one too, marked as such: the active step counts what is dropped, and
    the source's position moves on past it. Where a step makes several rows of one record, they come one after the other
    in the order of the elements; where it makes nothing of it, one row comes, marked. One Spark task reads the
    partitions one after the other, because each Spark task costs more than a small micro-batch's work.

    Where the worker decodes, the records come out as they are.

    Raises:
        ConfigurationError: Spark refuses a step.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    # The worker decides of every value whether it is JSON: Spark takes more than is.
    needs_value = source.schema is not None or source.decoded_by_worker or source.keeps_records
    kept = ["value AS __value"] if needs_value else []
    kept += ["unix_millis(timestamp) AS __timestamp_ms"] if source.keeps_timestamps else []
    if source.decoded_by_worker:
        plain = ["partition AS __partition", "offset AS __offset", "key AS __source_key"]
        return raw.selectExpr(*plain, *kept).coalesce(1)
    raw = raw.selectExpr("*", *kept)
    carried = [column.rpartition(" ")[2] for column in kept]
    origin = F.struct("topic", "partition", "offset", "timestamp", "key").alias("_source")
    if source.schema is None:
        rows = raw.select(origin, *carried, "key", "value", F.lit(None).cast("string").alias("__corrupt"))
    else:
        corrupt = "__corrupt_record"
        value = F.from_json(
            F.col("value").cast("string"),
            f"{source.schema}, {corrupt} STRING",
            {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt, **_NO_BOUNDS},
        )
        # A null value is no JSON either: it decodes to nothing, not to a row of nulls.
        rows = (
            raw.select(origin, *carried, value.alias("v"))
            .select("_source", *carried, "v.*")
            .withColumn("__corrupt", F.when(F.col(corrupt).isNotNull(), F.lit(NOT_OF_SCHEMA)))
            .drop(corrupt)
        )
    rows = rows.withColumn("__filtered", F.lit(None).cast("int"))
    own = ("_source", *carried, "__corrupt", "__filtered")
    number = 0
    if source.changes:
        rows, number = _marked(rows, F.col(_VALUE).isNull(), number), number + 1
    for step in source.steps:
        try:
            rows = _after(rows, step, own, number, once=not source.keeps_records)
        except PySparkException as error:
            raise step_refusal(source.application_id, source.topic, step, error) from error
        number += isinstance(step, (Filter, Select)) and step.name is not None
    return rows.select(
        F.col("_source.partition").alias("__partition"),
        F.col("_source.offset").alias("__offset"),
        F.col("_source.key").alias("__source_key"),
        "__filtered",
        "__corrupt",
        (F.col("_source.key") if source.keyed else _key(rows, source.key_name)).alias("__key"),
        *([] if source.event_time is None else [_event_ms(rows, source.event_time.column).alias(EVENT_MS)]),
        *carried,
        # Under the names that the operation has for them, also for a field of a struct.
        *[_column(rows, name).alias(name) for name in source.columns],
    ).coalesce(1)


def _after(rows: DataFrame, step: Step, own: Sequence[str], number: int, *, once: bool) -> DataFrame:
    """The rows after one step.

    Args:
        number: with which a row is marked that the step drops; its name's place in `steps.drop_names`.
        once: whether the record's value goes on with the first of its rows alone.
    """
    from pyspark.sql import functions as F

    if isinstance(step, Select):
        return _selected(rows, step, own, number, once=once)
    if isinstance(step, LatestTime):
        return rows.withColumn(step.name, F.greatest(*(_event_ms(rows, name) for name in step.columns)))
    if isinstance(step, CompositeKey):
        return rows.withColumn(step.name, _composite(rows, step.columns))
    if isinstance(step, TypedKey):
        return rows.withColumn(step.name, F.col(_quoted(step.name)).cast(step.kind))
    if isinstance(step, Filter):
        condition = _where_needed(F.expr(step.condition) if isinstance(step.condition, str) else step.condition)
        return _marked(rows, ~F.coalesce(condition, F.lit(False)), FAILED_ROW if step.name is None else number)
    expression = F.expr(step.expression) if isinstance(step.expression, str) else step.expression
    return rows.withColumn(step.name, _where_needed(expression))


def _where_needed(value: Column) -> Column:
    """Null in a row that was dropped or does not decode: there a division, a cast or a sum has nothing to fail for."""
    from pyspark.sql import functions as F

    return F.when(_live(), value)


def _live() -> Column:
    from pyspark.sql import functions as F

    return F.col("__filtered").isNull() & F.col("__corrupt").isNull()


def _marked(rows: DataFrame, dropped: Column, number: int) -> DataFrame:
    """The rows, each with the number of the first step that drops it; a corrupt one is dropped by none."""
    from pyspark.sql import functions as F

    mark = F.when(_live() & dropped, F.lit(number))
    return rows.withColumn("__filtered", F.coalesce(F.col("__filtered"), mark))


def _selected(rows: DataFrame, step: Select, own: Sequence[str], number: int, *, once: bool) -> DataFrame:
    """Other columns. ``explode`` is made ``posexplode_outer``, so that a row without elements leaves one, too."""
    from pyspark.sql import functions as F

    made = {name.lower() for selected in step.columns for name in selected.names or rows.columns}
    kept = [name for name in CARRIED if name in rows.columns and name not in made]
    columns = [F.col(name) for name in (*own, *kept)]
    for selected in step.columns:
        if not selected.names:
            columns += [F.col(_quoted(name)) for name in rows.columns if name not in own]
        elif selected.generator is None:
            columns.append(_where_needed(F.expr(selected.expression)).alias(selected.names[0]))
        else:
            columns.append(_generated(selected))
    after = rows.select(*columns)
    if step.name is None:
        return after
    if once and _VALUE in own:
        # It is looked at in order to know whether it is JSON, and a record is left out as a whole.
        first = F.coalesce(F.col(_PLACE) == 0, F.lit(True))
        after = after.withColumn(_VALUE, F.when(first, F.col(_VALUE)))
    return _marked(after, F.col(_PLACE).isNull(), number).drop(_PLACE)


def _generated(selected: Selected) -> Column:
    """A row for each element. Of a row that is dropped or corrupt already, one, whatever its elements."""
    from pyspark.sql import functions as F

    elements = _where_needed(F.expr(selected.expression))
    if selected.generator == "explode":
        return F.posexplode_outer(elements).alias(_PLACE, *selected.names)
    return F.explode_outer(elements).alias(*selected.names)


def _composite(rows: DataFrame, names: Sequence[str]) -> Column:
    """The JSON array of some columns' texts; null where one is null, or is no text in UTF-8."""
    from pyspark.sql import functions as F

    # Each by the rules of a key of one column. What is no UTF-8 would become the same for different bytes.
    texts = [F.try_validate_utf8(_key(rows, name).cast("string")) for name in names]
    whole = functools.reduce(operator.and_, (text.isNotNull() for text in texts))
    return F.when(whole, F.to_json(F.array(*texts)))


def _quoted(name: str) -> str:
    """A column's name that is not taken for a path in a struct."""
    return "`" + name.replace("`", "``") + "`"


def _column(rows: DataFrame, name: str) -> Column:
    """A column, also one whose name has dots, or the field that is meant."""
    from pyspark.sql import functions as F

    return F.col(_quoted(name) if name in rows.columns else name)


def _event_ms(rows: DataFrame, name: str) -> Column:
    """A row's event time, epoch ms: of microseconds the earlier millisecond, in which window bounds lie, too."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = _column(rows, name)
    kind = rows.select(column).schema[0].dataType
    if isinstance(kind, T.LongType):
        return column
    if isinstance(kind, T.TimestampType):
        return F.unix_millis(column)
    if isinstance(kind, T.StructType) and kind.names == ["start", "end"]:
        # As Spark's `window_time` has it: the last moment of the window, so that it lies in the larger one around it.
        return F.unix_millis(column.getField("end")) - 1
    raise ConfigurationError(
        f"stream(event_time={name!r}) names a column of type {kind.simpleString()}: an event time is a TIMESTAMP, "
        f"milliseconds since 1970 as a BIGINT, or a window. {MAKE_TIME}"
    )


def _key(rows: DataFrame, name: str) -> Column:
    """The key's bytes: its text as Spark casts it, the same for values that Spark's ``groupBy`` takes for the same."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = _column(rows, name)
    kind, key = rows.select(column).schema[0].dataType, column
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType, T.VariantType)):
        raise ConfigurationError(
            f"group_by() names the column {name!r} of type {kind.simpleString()}, which has no text of its own: group "
            "by one of its fields, or by a column that with_column() makes of it, such as to_json(...)."
        )
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        key = F.when(key == 0, F.lit(0.0).cast(kind)).otherwise(key)  # -0.0 is 0.0
    return key.cast("string").cast("binary")
