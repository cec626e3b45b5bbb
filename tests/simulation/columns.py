"""What stands for a consumer of columns, and for the line between a driver and its worker."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError

from airflow_provider.kafka.column_consumer import BEGINNING, Columns, PartitionEvent
from airflow_provider.streaming.worker.tasks.line import LineAddress, LineLostError
from tests.simulation import clients
from tests.simulation.broker import Partition, Record
from tests.simulation.kernel import Process, Waiters, the

_TYPES = {
    "__partition": pa.int32(),
    "__offset": pa.int64(),
    "__source_key": pa.binary(),
    "__filtered": pa.int32(),
    "__corrupt": pa.string(),
    "__key": pa.binary(),
}
_SCHEMA = pa.schema(list(_TYPES.items()))
_END: Final = KafkaError._PARTITION_EOF


def rows_of(records: list[tuple[int, Record]], source: Any) -> pa.RecordBatch:
    """The rows of a micro-batch, of records by partition."""
    partitions, offsets = [number for number, _ in records], [record.offset for _, record in records]
    size = len(records)
    key = pa.array([record.key for _, record in records], pa.binary())
    if source is None or source.decoded_by_worker:  # of a changelog, or raw
        raw = {
            "__partition": pa.array(partitions, pa.int32()),
            "__offset": pa.array(offsets, pa.int64()),
            "__source_key": key,
            "__value": pa.array([record.value for _, record in records], pa.binary()),
        }
        return pa.RecordBatch.from_pydict(raw)
    columns = [
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
        key,
        pa.nulls(size, pa.int32()),
        pa.nulls(size, pa.string()),
        key,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


sources: Mapping[str, Any] = {}
"""By topic, what is known of the sources of the schedule that runs."""


def use(of_job: Mapping[str, Any]) -> None:
    """Make these the sources that are read in this process."""
    global sources  # the product's seams have no other way to it
    sources = of_job
    Door.open.clear()


class ColumnConsumer:
    """`ColumnConsumer`, over the consumer of the model."""

    most = 4

    def __init__(self, config: dict[str, Any]) -> None:
        self._consumer = clients.Consumer(config)

    @property
    def ready(self) -> Any:
        return self

    @property
    def waiting(self) -> Waiters:
        return self._consumer.waiting

    @waiting.setter
    def waiting(self, waiters: Waiters) -> None:
        self._consumer.waiting = waiters

    def assign(self, offsets: Mapping[Partition, int]) -> None:
        logs = clients.network.broker
        self._consumer.incremental_assign(
            [
                _position(at, logs.log(at, led=False).start if begin == BEGINNING else begin)
                for at, begin in offsets.items()
            ]
        )

    def unassign(self, partitions: Collection[Partition]) -> None:
        self._consumer.incremental_unassign([_position(at, 0) for at in partitions])

    def ends(self, partitions: Collection[Partition], timeout_s: float, offset: int = -1) -> Mapping[Partition, int]:
        found = {}
        for at in partitions:
            low, high = self._consumer.get_watermark_offsets(_position(at, 0), timeout_s)
            found[at] = low if offset == BEGINNING else high
        return found

    def bounds(self, at: Partition, timeout_s: float) -> tuple[int, int]:
        return self._consumer.get_watermark_offsets(_position(at, 0), timeout_s)

    def known_end(self, at: Partition) -> int | None:
        _, end = self._consumer.get_watermark_offsets(_position(at, 0), cached=True)
        return end if end >= 0 else None

    def read(self, most: int, timestamps: Collection[str] = (), timeout_s: float = 0.0) -> Columns:
        # Who does not wait is woken by what comes, a little at a time.
        some = most if timeout_s else the().random.randint(1, self.most)
        rows: dict[str, list[tuple[int, Record]]] = {}
        events, wrong, left_out = [], set[Partition](), set[Partition]()
        messages = self._consumer.consume(some, timeout_s)
        for message in messages:
            at, error = (message.topic(), message.partition()), message.error()
            if error is None and at in clients.network.fetch_errors and the().random.random() < 0.5:
                clients.network.fetch_errors.discard(at)
                wrong.add(at)
                events.append(PartitionEvent(*at, -1001, KafkaError(KafkaError.UNKNOWN)))
            if error is None and at in wrong:
                left_out.add(at)
            elif error is None:
                rows.setdefault(message.topic(), []).append((message.partition(), message.record))
            else:
                events.append(PartitionEvent(message.topic(), message.partition(), message.offset(), error))
        events = [e for e in events if e.error.code() != _END or (e.topic, e.partition) not in left_out]
        batches = {
            topic: rows_of(sorted(found, key=lambda one: one[0]), sources.get(topic)) for topic, found in rows.items()
        }
        return Columns(batches, events, len(messages) == some, left_out)

    def close(self) -> None:
        self._consumer.close()


def _position(at: Partition, offset: int) -> Any:
    return SimpleNamespace(topic=at[0], partition=at[1], offset=offset)


class LineEnd:
    """One end of a line: what the other end says comes a moment later, in its order."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.other: LineEnd | None = None
        self.words: deque[tuple[float, bytes]] = deque()
        self.waiting = Waiters()
        self.lost = False

    def send(self, word: bytes) -> None:
        kernel, other = the(), self.other
        if self.lost or other is None or other.lost:
            raise LineLostError
        at = max(kernel.now + kernel.random.uniform(0.0001, 0.002), other.words[-1][0] if other.words else 0.0)
        other.words.append((at, word))
        kernel.at(at, lambda: kernel.wake(other.waiting))

    def receive(self) -> bytes:
        while not self.wait(3600.0):
            pass
        return self.words.popleft()[1]

    def wait(self, seconds: float, also: Collection[Any] = ()) -> bool:
        kernel = the()
        for one in also:
            one.waiting = self.waiting
        deadline, looked = kernel.now + seconds, False
        while True:
            if self.words and self.words[0][0] <= kernel.now:
                return True
            if self.lost and not self.words:
                raise LineLostError
            if looked or kernel.now >= deadline:
                return False
            kernel.wait(self.waiting, deadline - kernel.now)
            looked = bool(also)

    def close(self) -> None:
        for end in (self, self.other):
            if end is not None and not end.lost:
                end.lost = True
                the().wake(end.waiting, 0.001)


class Door:
    """`Door`, which some workers do not reach."""

    numbers = itertools.count()
    open: dict[int, Door] = {}  # noqa: RUF012 - of the schedule that runs

    def __init__(self) -> None:
        kernel = the()
        assert kernel.current is not None
        self._end = LineEnd(kernel.current.process)
        self._came = Waiters()
        self._closed = False
        number = next(self.numbers)
        self.open[number] = self
        self.address = LineAddress("simulated", number, "")

    def admit(self, timeout_s: float) -> LineEnd | None:
        kernel = the()
        deadline = kernel.now + timeout_s
        while self._end.other is None and not self._closed and kernel.now < deadline:
            kernel.wait(self._came, deadline - kernel.now)
        return None if self._end.other is None else self._end

    def close(self) -> None:
        self._closed = True
        self.open.pop(self.address.port, None)
        the().wake(self._came)

    def reach(self, process: Process) -> LineEnd:
        """The worker's end."""
        own, driver = LineEnd(process), self._end
        own.other, driver.other = driver, own
        for end in (own, driver):
            end.process.on_death.append(own.close)
        the().wake(self._came)
        return own


def call_driver(address: LineAddress) -> LineEnd:
    kernel = the()
    assert kernel.current is not None
    kernel.sleep(kernel.random.uniform(0.0005, 0.005))
    door = Door.open.get(address.port)
    if door is None or kernel.random.random() < 0.02:
        kernel.passed("line refused")
        raise ConnectionRefusedError
    return door.reach(kernel.current.process)
