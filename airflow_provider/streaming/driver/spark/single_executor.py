"""One executor an instance: Spark is asked for one, and the instance ends where that one is not there any more.

The stores lie there, so what has to be done with their files is done there, in a Python worker.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pyarrow as pa

from airflow_provider.errors import ConfigurationError, InstanceError
from airflow_provider.streaming.worker.tasks.line import Door

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALWAYS: Final = {"spark.dynamicAllocation.enabled": "false", "spark.executor.instances": "1"}
_SOON: Final = {
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "5s",
}
"""Else an executor whose host falls silent is given up after two minutes."""
_EXECUTOR_CORES: Final = "spark.executor.cores"
_CORES: Final = (_EXECUTOR_CORES, "spark.cores.max")
_PARALLELISM: Final = "spark.default.parallelism"
_LOOK_S: Final = 1.0
_WHY: Final = "an instance keeps its stores in one executor"


def is_local(master: str) -> bool:
    """Whether the driver is the only executor; ``local-cluster[...]`` starts executors of its own."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def single_executor_settings(given: Mapping[str, str]) -> dict[str, bool | float | int | str | None]:
    """The settings by which a cluster starts one executor, and its loss is seen soon; none for a local master.

    A standalone master starts as many executors as cores are asked for, so both numbers of cores have to be equal. The
    parallelism is said too: Spark takes it for 2 until the executor has come, and an instance makes its slots before.

    Raises:
        ConfigurationError: they ask for several executors, or do not say how many cores the one may have.
    """
    master = given.get("spark.master", "")
    if not master or is_local(master):
        return {}
    for name, needed in _ALWAYS.items():
        if (found := given.get(name, needed).strip().lower()) != needed:
            raise ConfigurationError(f"{name} is {found!r}, but {_WHY}: remove the setting, or set it to {needed!r}.")
    always = {**_ALWAYS, **{name: given.get(name, value) for name, value in _SOON.items()}}
    if not master.startswith(("spark://", "local-cluster[")):
        return {**always, _PARALLELISM: given.get(_PARALLELISM, given.get(_EXECUTOR_CORES, "1"))}
    cores = {name: given[name].strip() for name in _CORES if name in given}
    if len(set(cores.values())) != 1:
        found = ", ".join(f"{name} is {value}" for name, value in cores.items()) or "neither is set"
        raise ConfigurationError(
            f"On {master} an instance needs {_EXECUTOR_CORES} equal to {_CORES[1]}, because {_WHY}, but {found}: set "
            f"{_EXECUTOR_CORES} to the number of cores of the executor, and leave {_CORES[1]} out."
        )
    number = next(iter(cores.values()))
    return {**always, **dict.fromkeys(_CORES, number), _PARALLELISM: given.get(_PARALLELISM, number)}


def executor_finding(first: frozenset[str], now: frozenset[str]) -> str | None:
    """What is wrong with the executors of an instance; None while there is one, or none has come yet.

    Args:
        first: the executors that were there when one was seen for the first time, as ``host:port``; empty before.
        now: those that are there.
    """
    if len(now) > 1:
        return (
            f"Spark runs {len(now)} executors for this instance ({', '.join(sorted(now))}), but {_WHY}: end what adds "
            "executors, and start the instance again."
        )
    if first and now != first:
        return (
            f"The executor {', '.join(sorted(first))} of this instance was lost, and with it its workers and their "
            "stores: the cluster manager's log says why. Start the instance again."
        )
    return None


class ExecutorWatch:
    """Looks each second whether the executor that the instance began with is the one that it has.

    A lost executor is replaced by Spark, perhaps on another host and without the stores: to every task of the instance
    that is the loss of the instance. So it ends, and standbys on other instances take over.
    """

    def __init__(self, executors: Callable[[], frozenset[str]]) -> None:
        self._executors = executors
        self._first: frozenset[str] = frozenset()
        self._look_at = 0.0
        self.lost = False
        """Whether the one that the instance began with is gone, and with it all that could be finished or closed."""

    @classmethod
    def of(cls, spark: SparkSession) -> ExecutorWatch:
        """The watch over a session; with a local master it has nothing to look at."""
        if is_local(spark.sparkContext.master or ""):
            return cls(frozenset)
        context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
        driver = str(context.env().blockManager().blockManagerId().hostPort())

        def executors() -> frozenset[str]:
            infos = context.statusTracker().getExecutorInfos()
            return frozenset(f"{info.host()}:{info.port()}" for info in infos) - {driver}

        return cls(executors)

    def check(self) -> None:
        """Look, unless that was less than a second ago.

        Raises:
            InstanceError: there are several executors, or the one is lost.
        """
        if time.monotonic() < self._look_at:
            return
        now = self._executors()
        if (finding := executor_finding(self._first, now)) is not None:
            self.lost = not self._first <= now
            raise InstanceError(finding)
        self._first = self._first or now
        self._look_at = time.monotonic() + _LOOK_S


# sc.environment is one dict for the whole session, read while a UDF is made.
_environment = threading.Lock()
_ANSWER: Final = "answer binary"

T = TypeVar("T")


@contextlib.contextmanager
def worker_pool(spark: SparkSession, name: str) -> Iterator[None]:
    """Functions given to Spark inside run in the pool of this name: Spark keeps one for each environment asked for."""
    with _environment:
        spark.sparkContext.environment["STATEFUL_STREAMS_SLOT"] = name
        yield


def open_door(spark: SparkSession) -> Door:
    """Where a worker that stays is awaited: on this host, or where executors reach the driver anyway."""
    context = spark.sparkContext
    if is_local(context.master or ""):
        return Door.local()
    conf = context.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    return Door(conf.get("spark.driver.bindAddress") or host, shown_as=host)


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
