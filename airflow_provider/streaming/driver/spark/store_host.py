"""Where a function runs: in which of Spark's pools of Python workers, and on the host that has an instance's stores."""

from __future__ import annotations

import contextlib
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar, cast

import pyarrow as pa

from airflow_provider.streaming.driver.spark.single_executor import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# sc.environment is one dict for the whole session, read while a UDF is made.
_environment = threading.Lock()
_ANSWER: Final = "answer binary"

T = TypeVar("T")


@contextlib.contextmanager
def worker_pool(spark: SparkSession, name: str) -> Iterator[None]:
    """Functions given to Spark inside run in the pool of this name: Spark keeps one for each environment asked for.

    Args:
        name: of the pool, unique on a host.
    """
    with _environment:
        spark.sparkContext.environment["STATEFUL_STREAMS_SLOT"] = name
        yield


class StoreHost:
    """Has a function called where the stores lie.

    Args:
        instance: its name, for a Python worker of its own on the executor.
    """

    def __init__(self, spark: SparkSession, instance: str) -> None:
        self._spark = spark
        self._pool = f"{instance}-host"
        self.is_here = is_local(spark.sparkContext.master or "")
        """Whether it is the driver's host."""

    def call(self, function: Callable[[], T]) -> T:
        """What a function says there.

        On a cluster it is a Spark job, which waits until a core of the executor is free: nothing for a thread that
        others wait for.

        Args:
            function: a function of a module, perhaps with arguments (`functools.partial`): it is pickled.

        Raises:
            Exception: what the function raises, on a cluster within an error of Spark.
        """
        if self.is_here:
            return function()
        with worker_pool(self._spark, self._pool):
            answers = self._spark.range(0, 1, 1, 1).mapInArrow(functools.partial(_call, function), _ANSWER)
        (row,) = answers.collect()
        return cast(T, pickle.loads(bytes(row.answer)))


def _call(function: Callable[[], object], _: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(function())]})
