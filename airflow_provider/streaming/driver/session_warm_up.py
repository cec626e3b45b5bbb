"""A first query that does nothing, when an instance starts: the first one of a session is the slow one."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider.common.error_text import error_text
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.streaming.driver.source_query import SourceQuery
from airflow_provider.streaming.planner.compiled_job import CompiledStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["warm_up_session"]

log = logging.getLogger(__name__)

_LIMIT_S: Final = 30.0
"""On a machine that is so busy, a promotion has other waits."""
_POLL_S: Final = 0.05


def warm_up_session(spark: SparkSession, stage: CompiledStage, connection: KafkaConnection, checkpoint: Path) -> bool:
    """Run one query as a promotion would, over at most one record of the source, and drop what it reads.

    Spark loads and compiles what a query needs when the first one runs. A standby's instance runs none, so its first
    promotion would wait for that. Nothing is committed or changed. A failure is logged and is no error here: what is
    wrong with the source or the cluster shows in the queries that count.

    Args:
        spark: the session.
        stage: whose source is read, as it reads it.
        connection: the cluster.
        checkpoint: folder for the query's checkpoint; scratch.

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
