"""Which of Spark's pools of Python workers a function runs in."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["worker_pool"]

# sc.environment is one dict for the whole session, read while a UDF is made.
_environment = threading.Lock()


@contextlib.contextmanager
def worker_pool(spark: SparkSession, name: str) -> Iterator[None]:
    """Functions given to Spark inside run in the pool of this name: Spark keeps one for each environment asked for.

    Args:
        spark: the session.
        name: of the pool, unique on a host.
    """
    with _environment:
        spark.sparkContext.environment["STATEFUL_STREAMS_SLOT"] = name
        yield
