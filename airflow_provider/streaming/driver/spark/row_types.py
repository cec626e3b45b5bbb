"""What Spark makes of a source's records, found out before any is read."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.driver.spark.source_query import rows_of_source
from airflow_provider.streaming.driver.spark.spark_error import said_by_spark
from airflow_provider.streaming.planner.compiled_job import SourceSpec
from airflow_provider.streaming.planner.row_decoder import SqlSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KAFKA: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
"""The columns of Spark's Kafka source."""

_UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
_OWN_LETTERS: Final = frozenset({"az", "el", "hy", "lt", "tr"})
"""Languages in which ICU makes other capital or small letters, and a JVM's ``lower()`` with it."""
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""By these pyspark prints an error with its stacks, some 10 kB, as soon as it makes the exception of it."""


def types_of_source(spark: SparkSession, source: SourceSpec) -> pa.Schema:
    """The types of a source's rows, as `compile_job` asks for them.

    Raises:
        ConfigurationError: the steps, the key or the operation name what there is not.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    if not source.keyed:
        # The key as a column besides what it becomes, to see its type.
        source = dataclasses.replace(source, columns=(*source.columns, source.key_name))
    try:
        raw = spark.range(0).selectExpr(*(f"CAST(NULL AS {kind}) AS {name}" for name, kind in _KAFKA.items()))
        # Which zone it is says nothing here, but there has to be one.
        with _errors_said_once():
            return _first_of_each(to_arrow_schema(rows_of_source(raw, source).schema, timezone="UTC"))
    except PySparkException as error:
        raise ConfigurationError(
            f"Spark refuses the columns of job {source.application_id!r} for the rows of {source.topic!r}: "
            f"{said_by_spark(error)} Correct the schema, group_by() or the operation."
        ) from error


def sql_session(spark: SparkSession) -> SqlSession:
    """What of a session's settings decides what values and steps come to."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    jvm: Any = spark._jvm  # noqa: SLF001
    return SqlSession(
        ansi=spark.conf.get("spark.sql.ansi.enabled") == "true",
        utc=zone in _UTC,
        plain_letters=jvm.java.util.Locale.getDefault().getLanguage() not in _OWN_LETTERS,
    )


@contextlib.contextmanager
def _errors_said_once() -> Iterator[None]:
    """Within it, what Spark refuses is raised and not printed as well: the line that is made of it says all."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _first_of_each(schema: pa.Schema) -> pa.Schema:
    """Without the second column of a name, which would make the first one ambiguous."""
    by_name: dict[str, pa.Field] = {}
    for field in schema:
        by_name.setdefault(field.name, field)
    return pa.schema(by_name.values())
