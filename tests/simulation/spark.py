"""What stands for Spark: calls into Python workers, and queries that bring a slot its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError

from tests.simulation import clients
from tests.simulation.broker import Partition, Record, Refused
from tests.simulation.columns import call_driver, rows_of
from tests.simulation.kernel import Process, Waiters, the
from tests.simulation.product import (
    CallReport,
    Slot,
    StatefulStreamsError,
    TaskId,
    answer_of,
    slot_driver_module,
    to_json,
)

SOURCE = "orders"

PROGRAMMING = (RuntimeError, AssertionError, AttributeError, LookupError, TypeError, NameError, ValueError)


def raised(error: Exception) -> None:
    """Take note of an error: one that the product does not mean to raise ends the schedule."""
    kernel = the()
    kernel.note("raised", type(error).__name__)
    kernel.passed(f"raised {type(error).__name__}")
    if isinstance(error, PROGRAMMING) and not isinstance(error, StatefulStreamsError):
        kernel.fail(error)


class DataLost(Exception):
    """What a query reads next is not in the log."""


class WorkerDied(Exception):
    """A Python worker ended in the middle of a call."""


class Workers:
    """The Python workers of an instance: one for each slot, begun anew where it died.

    Args:
        driver: their process ends with it.
    """

    def __init__(self, driver: Process) -> None:
        self.driver = driver
        self.processes: dict[int, Process] = {}
        self.slots: dict[int, Slot] = {}
        self._began = 0

    def end(self) -> None:
        """Spark ends its workers when it ends."""
        for process in self.processes.values():
            the().kill(process)

    def worker(self, slot: int) -> Process:
        known = self.processes.get(slot)
        if known is not None and not known.dead:
            return known
        self._began += 1
        process = Process(f"{self.driver.name}/w{slot}.{self._began}", self.driver.clock_s)
        process.cut_in_until, process.cut_out_until = self.driver.cut_in_until, self.driver.cut_out_until
        self.processes[slot] = process
        self.slots.pop(slot, None)
        return process

    def call(self, plan: Any, rows: list[pa.RecordBatch]) -> Any:
        """Run a call in the slot's worker, and wait for it or for the worker's end."""
        kernel, process = the(), self.worker(plan.slot)
        answer: dict[str, Any] = {}
        done = Waiters()

        def body() -> None:
            try:
                if plan.slot not in self.slots:
                    self.slots[plan.slot] = Slot(plan)
                of = self.slots[plan.slot]
                answer["report"] = (
                    CallReport(of.call(plan, rows, False), call=plan.call)  # without a thread that takes rows ahead
                    if plan.stay is None
                    else answer_of(of, plan, rows, False, call_driver)
                )
            except Exception as error:
                raised(error)
                answer["error"] = error
            kernel.wake(done)

        on_death = partial(kernel.wake, done, 0.01)
        process.on_death.append(on_death)
        kernel.spawn(process, f"call-{plan.slot}", body, kernel.random.uniform(0.001, 0.02))
        while not answer and not process.dead:
            kernel.wait(done, 1.0)
        process.on_death.remove(on_death)  # behind it are the stores that the call has opened
        if "error" in answer:
            raise answer["error"]
        if "report" not in answer:
            raise WorkerDied("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")
        return answer["report"]


class Frame:
    """A `DataFrame`, as much of it as a slot uses."""

    def __init__(self, session: Session, rows: list[pa.RecordBatch]) -> None:
        self._session, self._rows = session, rows
        self.sparkSession = session

    def withColumnRenamed(self, *_: str) -> Frame:
        return self

    def coalesce(self, _: int) -> Frame:
        return self

    def mapInArrow(self, function: Any, _: str) -> Any:
        plan = function.args[0]
        return SimpleNamespace(collect=lambda: self._collect(plan))

    def _collect(self, plan: Any) -> list[Any]:
        return [SimpleNamespace(report=to_json(self._session.workers.call(plan, self._rows)))]


class Session:
    """A `SparkSession`, as much of it as a slot uses."""

    def __init__(self, workers: Workers, cores: int) -> None:
        self.workers = workers
        self.conf = SimpleNamespace(get=lambda *_: "", set=lambda *_: None)
        self.sparkContext = SimpleNamespace(master=f"local[{cores}]", environment={}, defaultParallelism=cores)

    def range(self, *_: int) -> Frame:
        return Frame(self, [])


def spark_session(frame: Frame) -> Session:
    return frame.sparkSession


class SourceQuery:
    """In place of `SourceQuery`: brings the rows of some tasks from where those stopped, in micro-batches."""

    most = 4

    def __init__(
        self,
        spark: Session,
        source: Any,
        connection: object,
        tasks: Mapping[TaskId, int | None],
        checkpoint: object,
        on_batch: Callable[[SourceQuery, Frame], Mapping[int, int | None]],
        open_wait: object = None,
    ) -> None:
        self.tasks = frozenset(tasks)
        self._spark, self._source, self._on_batch = spark, source, on_batch
        self._at: dict[Partition, int] = {(source.topic, task.partition): offset or 0 for task, offset in tasks.items()}
        self._leaving = False
        self._ended = Waiters()
        self.waiting = Waiters()
        self.active = False
        self.error: str | None = None
        self._started_at = 0.0

    @property
    def active_for_s(self) -> float:
        return the().now - self._started_at if self.active else 0.0

    @property
    def leaving(self) -> bool:
        return self._leaving

    def start(self) -> None:
        kernel = the()
        kernel.sleep(kernel.random.uniform(0.05, 0.5))
        self.active, self._started_at = True, kernel.now
        for at in self._at:
            clients.network.readers.setdefault(at, []).append(self)
        assert kernel.current is not None
        kernel.spawn(kernel.current.process, "query", self._run)

    def leave(self) -> None:
        self._leaving = True
        the().wake(self.waiting)

    def end(self) -> None:
        self.leave()
        while self.active:
            the().wait(self._ended, 0.2)

    def _run(self) -> None:
        kernel = the()
        try:
            while not self._leaving:
                records = self._next()
                if records:
                    kernel.sleep(kernel.random.uniform(0.005, 0.05))
                    self._on_batch(self, Frame(self._spark, [rows_of(records, self._source)]))
                else:
                    kernel.wait(self.waiting, kernel.random.uniform(0.5, 1.0))
        except Exception as error:
            raised(error)
            self.error = f"{type(error).__module__}.{type(error).__name__}: {error}"
        self.active = False
        for at in self._at:
            clients.network.readers[at].remove(self)
        kernel.wake(self._ended)

    def _next(self) -> list[tuple[int, Record]]:
        """The next rows of each partition, as Spark's source reads them."""
        net, kernel = clients.network, the()
        assert kernel.current is not None
        if not net.reachable(kernel.current.process):
            return []
        found: list[tuple[int, Record]] = []
        for at in self._at:
            try:
                records, following, _ = net.broker.fetch(at, self._at[at], True, kernel.random.randint(1, self.most))
            except Refused as refused:
                if refused.code == KafkaError.OFFSET_OUT_OF_RANGE:
                    raise DataLost(f"the offset of {at} was changed from {self._at[at]}") from refused
                continue
            self._at[at] = following
            found += [(at[1], record) for record in records]
        return found


class Ends:
    """What a source topic holds, in place of `SourceEnds`."""

    def __init__(self, topic: str, make: Callable[[int, int, int], Any]) -> None:
        self._topic, self._make = topic, make

    def look(self, offsets: Mapping[int, int | None]) -> Mapping[int, Any]:
        net, kernel = clients.network, the()
        assert kernel.current is not None
        if not net.reachable(kernel.current.process):
            raise TimeoutError
        found = {}
        for partition, offset in offsets.items():
            _, end = net.broker.bounds((self._topic, partition), True)
            found[partition] = self._make(end, offset or 0, 0)
        return found

    def close(self) -> None:
        """Nothing is open."""


def earliest(topic: str, partitions: Collection[int]) -> Mapping[int, int]:
    return {number: clients.network.broker.log((topic, number), led=False).start for number in partitions}


def latest(topic: str, partitions: Collection[int]) -> Mapping[int, int]:
    return {number: clients.network.broker.log((topic, number), led=False).end for number in partitions}


slot_driver_module.SourceQuery = SourceQuery  # type: ignore[assignment, attr-defined]
