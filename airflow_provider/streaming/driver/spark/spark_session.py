"""The Spark session of an instance, what its settings mean, and its first query, which is the slow one."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider import __version__
from airflow_provider.error_text import error_text
from airflow_provider.errors import ConfigurationError, InstanceError, StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.launch.instance_settings import ARENAS_VARIABLE, InstanceSettings
from airflow_provider.streaming.driver.spark.single_executor import StoreHost, is_local, single_executor_settings
from airflow_provider.streaming.driver.spark.source_query import SourceQuery
from airflow_provider.streaming.driver.spark.spark_error import Cause, cause_of
from airflow_provider.streaming.planner.compiled_job import CompiledStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

MAX_BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"

ARROW_BATCH_BYTES: Final = 32 << 20
"""Of the pieces in which a worker gets its rows: several of them are in memory at once, in the JVM and outside."""

_MAX_RECORDS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS_PER_BATCH: Final = 25_000
_NO_BOUND: Final = 2**31 - 1

_TIME_ZONE: Final = "spark.sql.session.timeZone"
_ARENAS: Final = f"spark.executorEnv.{ARENAS_VARIABLE}"
"""For executors on other hosts, what the launcher has set here."""

_OF_PYTHON: Final = (
    "AttributeError",
    "IOException: error=",
    "ImportError",
    "ModuleNotFoundError",
    "PYTHON_VERSION_MISMATCH",
    "pyspark.daemon",
)
"""In what Spark says of a Python that cannot run workers."""
_LIMIT_S: Final = 30.0
"""On a machine that is so busy, a promotion has other waits."""
_POLL_S: Final = 0.05


def spark_session(settings: InstanceSettings) -> SparkSession:
    """The session of an instance, in the application that spark-submit started.

    Raises:
        ConfigurationError: Spark's settings ask for several executors, or a cluster's Python has not this package.
        InstanceError: Spark did not start on its cluster.
    """
    # Pieces that the worker decodes while the JVM prepares the next one; what the user set stays.
    pieces = {_MAX_RECORDS_PER_BATCH: _ROWS_PER_BATCH, MAX_BYTES_PER_BATCH: ARROW_BATCH_BYTES}
    # Without a JVM a SparkConf is empty, whatever spark-submit was given.
    SparkContext._ensure_initialized()  # noqa: SLF001
    given = dict(SparkConf().getAll())
    if given.get("spark.master", "").startswith("spark://"):
        # The master does not tell it to a driver.
        log.info("a standalone master without spark.deploy.recoveryMode kills every executor when it comes back")
    # Workers run the interpreter that runs the driver, whatever the environment of the host says, unless the settings
    # name another: on a cluster it is one of the executor's host.
    os.environ["PYSPARK_PYTHON"] = given.get("spark.pyspark.python") or sys.executable
    builder = (
        SparkSession.builder.appName(f"{settings.application_id}-{settings.instance}")
        .config(map=idle_settings(settings.call_timeout_s))
        .config(map=single_executor_settings(given))
        .config(map=closed_settings(given))
        .config("spark.python.worker.reuse", "true")
        .config(map=_heaps(given))
        .config(map={name: str(value) for name, value in pieces.items() if name not in given})
        .config("spark.sql.streaming.minBatchesToRetain", "2")
        # The checkpoint is scratch: no checksums of its files, each of which costs a `chmod` in a process of its own.
        .config("spark.hadoop.fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.RawLocalFs")
        .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        # Only a query that has not brought a micro-batch yet polls (`SourceQuery`), and its first one is slow anyway.
        .config("spark.sql.streaming.pollingDelay", "50ms")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    )
    interrupted = signal.getsignal(signal.SIGINT)
    try:
        session = builder.getOrCreate()
        # PySpark takes it, to cancel Spark's jobs and raise KeyboardInterrupt; it is the instance's to answer.
        signal.signal(signal.SIGINT, interrupted)
        session.conf.set(_TIME_ZONE, time_zone(dict(session.sparkContext.getConf().getAll())))
        # The first call too: without a master Spark stops its context, but may have given it back before.
        found = StoreHost(session, settings.instance).call(_version)
    except (Py4JError, PySparkException) as error:
        if is_local(master := given.get("spark.master", "")):
            raise
        raise start_error(master, os.environ["PYSPARK_PYTHON"], cause_of(error)) from error
    if found != __version__:
        raise _other_python(os.environ["PYSPARK_PYTHON"], f"it has version {found}")
    return session


def _heaps(given: Mapping[str, str]) -> dict[str, bool | float | int | str | None]:
    here = os.environ.get(ARENAS_VARIABLE)
    return {} if here is None or _ARENAS in given else {_ARENAS: here}


def _version() -> str:
    return __version__


def start_error(master: str, python: str, cause: Cause) -> StatefulStreamsError:
    """What it means that Spark did not start on a cluster, or that the first call of a worker failed there."""
    what = f"{cause.kind}: {cause.message}"
    if any(word in what for word in _OF_PYTHON):
        return _other_python(python, what)
    return InstanceError(
        f"Spark did not start on {master}: see that the master runs, that this host reaches it at this address, and "
        "that both have the same spark.authenticate.secret, then start the instance again. Its log has more than "
        f"Spark's last words: {what}"
    )


def _other_python(python: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"The workers' Python, {python} on the host of the executor, cannot run this package's version {__version__} "
        f"({what}): install there what the driver's {sys.executable} has, or name another with spark.pyspark.python."
    )


def closed_settings(given: Mapping[str, str]) -> dict[str, bool | float | int | str | None]:
    """The settings by which nobody else gets anything from the ports that Spark opens; none but for a local master.

    What Spark sends to its executors, the Kafka connection among it, it gives to whoever connects and asks, also where
    no executor is elsewhere. A local master makes the secret of ``spark.authenticate`` by itself
    (https://spark.apache.org/docs/latest/security.html); for a cluster a person has to choose one.

    Args:
        given: all settings that Spark was started with; what they say stays.
    """
    if not is_local(given.get("spark.master", "")):
        return {}
    settings = {"spark.authenticate": "true"}
    if given.get("spark.ui.enabled") == "false" and "SPARK_LOCAL_IP" not in os.environ:
        # The UI, where it is on, is found by the host's name.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {name: value for name, value in settings.items() if name not in given}


def time_zone(settings: Mapping[str, str]) -> str:
    """The session's time zone: else a time without a zone, and a key made of a time, depend on the host."""
    return settings.get(_TIME_ZONE, "UTC")


def arrow_batch_bytes(bytes_per_row: float | None) -> int:
    """The bound of a piece in bytes; none where the rows are so small that the bound on their number is enough.

    With a bound Spark adds up the size of the piece with every row, which is a tenth of all its work.
    """
    small = bytes_per_row is not None and bytes_per_row * _ROWS_PER_BATCH <= ARROW_BATCH_BYTES
    return _NO_BOUND if small else ARROW_BATCH_BYTES


def idle_settings(call_timeout_s: float) -> dict[str, bool | float | int | str | None]:
    """Spark's settings that end a worker in which a call takes longer: a thread that holds the GIL cannot do it."""
    seconds = str(max(1, math.ceil(call_timeout_s)))
    return {"spark.python.worker.idleTimeoutSeconds": seconds, "spark.python.worker.killOnIdleTimeout": "true"}


def max_task_failures(spark: SparkSession) -> int:
    """How often Spark tries a task before its job fails."""
    context = spark.sparkContext
    # local[N] tries once, local[N, F] F times; only a real cluster reads the setting.
    master = context.master or ""
    if is_local(master):
        inside = master.partition("[")[2].rstrip("]").split(",")
        return int(inside[1]) if len(inside) > 1 else 1
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def warm_up_session(spark: SparkSession, stage: CompiledStage, connection: KafkaConnection, checkpoint: Path) -> bool:
    """Run one query as a promotion would, over at most one record of the source, and drop what it reads.

    Spark loads and compiles what a query needs when the first one runs. A standby's instance runs none, so its first
    promotion would wait for that. Nothing is committed or changed. A failure is logged and is no error here: what is
    wrong with the source or the cluster shows in the queries that count.

    Returns:
        Whether a micro-batch ran; false for an empty source too.
    """
    began = time.monotonic()
    done = False

    def drop(query: SourceQuery, rows: DataFrame) -> dict[int, int | None]:
        nonlocal done
        # Not in a Python worker: rounds have run there already, and one more worker would only hold memory.
        rows.limit(1).collect()
        done = True
        query.leave()
        return {}

    query = SourceQuery(spark, stage.source, connection, {stage.tasks[0]: None}, checkpoint, drop)
    try:
        query.start()
        while not done and query.active and not query.waits_for_data and query.active_for_s < _LIMIT_S:
            time.sleep(_POLL_S)
        query.end()
    except Exception as error:
        log.warning("the query that warms Spark up failed: %s", error_text(error))
        return False
    log.info("Spark is warmed up after %.1f s%s", time.monotonic() - began, "" if done else ", without a record")
    return done
