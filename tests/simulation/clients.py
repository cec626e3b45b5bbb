"""Kafka clients over the model of the brokers: what confluent-kafka's do, librdkafka's own repetitions among it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AclOperation

from tests.simulation.broker import Broker, Partition, Record, Refused
from tests.simulation.kernel import Process, Waiters, the
from tests.simulation.threads import Future, time_ns

T = TypeVar("T")
_MSG_TIMED_OUT: Final = -192
_AGAIN: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What librdkafka asks again for by itself."""
_FENCED: Final = frozenset({KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_ABORTS: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""After which of them a producer may begin another transaction, once it has aborted this one."""


class Network:
    """Between the clients and the brokers: what is lost, late or not answered.

    Args:
        broker: what is at its other end.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.fates: list[tuple[str, str, str, float]] = []
        """The next request of a process (its name's beginning) and kind is so: ``late``, ``lost``, ``unanswered``,
        ``pause`` or ``overtaken by`` a kind of requests."""
        self.overtaken: dict[tuple[Process, str], Callable[[], object]] = {}
        """By process and kind, what arrives right behind the next request of that kind that the process makes."""
        self.readers: dict[Partition, list[Any]] = {}
        self.fetch_errors: set[Partition] = set()
        """Of these the next records come with an error among them, behind which others come."""
        self.late: set[str] = set()
        """The kinds of requests that came late."""
        self.down_until = 0.0
        self.polled: Callable[[Consumer, Record, Partition], None] = lambda *_: None

    def fate(self, process: Process, kind: str) -> tuple[str, float]:
        now = the().now
        if self.down_until > now or process.cut_out_until > now:
            return "lost", 0.0
        for at, (who, what, fate, seconds) in enumerate(self.fates):
            if process.name.startswith(who) and what == kind:
                del self.fates[at]
                the().passed(f"fault:{fate} {kind}")
                return fate, seconds
        return ("unanswered", 0.0) if process.cut_in_until > now else ("", 0.0)

    def reachable(self, process: Process) -> bool:
        now = the().now
        return max(self.down_until, process.cut_out_until, process.cut_in_until) <= now

    def request(
        self,
        process: Process,
        kind: str,
        execute: Callable[[], T],
        deadline: float,
        backoff_s: float = 0.1,
        again: frozenset[int] = _AGAIN,
    ) -> T:
        """Ask, and ask again as librdkafka does: at once where a broker says so, after a pause where nobody answers.

        Raises:
            Refused: what the brokers refuse for good.
            KafkaException: nobody answered in time.
        """
        kernel = the()
        pick = kernel.random
        while True:
            kernel.sleep(pick.uniform(0.0002, 0.003))
            fate, seconds = self.fate(process, kind)
            pause_s = pick.uniform(0.02, 0.1)
            if fate == "pause":
                process.paused_until = kernel.now + seconds
                kernel.sleep(0.0)
                continue
            if fate == "late":
                self.late.add(kind)
                kernel.after(seconds, lambda: _quietly(execute))
            overtaken = fate.startswith("overtaken")
            if overtaken:
                self.overtaken[process, fate.rpartition(" ")[2]] = execute
            if fate in ("late", "lost") or overtaken:
                pause_s = pick.uniform(0.0, 0.2) + backoff_s * pick.uniform(0.8, 1.2)
            else:
                try:
                    answer = execute()
                except Refused as refused:
                    if refused.code not in again:
                        raise
                else:
                    kernel.note(kind, answer)
                    if (late := self.overtaken.pop((process, kind), None)) is not None:
                        _quietly(late)
                    kernel.sleep(pick.uniform(0.0002, 0.002))
                    if fate != "unanswered":
                        return answer
                    pause_s = pick.uniform(0.0, 0.2) + backoff_s * pick.uniform(0.8, 1.2)
            if kernel.now + pause_s > deadline:
                kernel.sleep(deadline - kernel.now)
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{kind}: no answer", retriable=True))
            kernel.sleep(pause_s)

    def appended(self, at: Partition) -> None:
        kernel = the()
        for reader in self.readers.get(at, ()):
            if reader.waiting.fibers:
                kernel.wake(reader.waiting, kernel.random.uniform(0.0005, 0.005))


def _quietly(execute: Callable[[], object]) -> None:
    try:
        the().note("late", execute())
    except Refused as refused:
        the().note("late", "refused", refused)


network: Any = None
"""That of the schedule which runs in this process."""


def use(new: Network | None) -> None:
    """Make a network that of this process."""
    global network  # clients are made by the product, which knows no network
    network = new


class Message:
    """A record or an event, in the words of confluent-kafka's `Message`."""

    __slots__ = ("_at", "_error", "_offset", "_record")

    def __init__(self, at: Partition, offset: int, record: Record | None, error: KafkaError | None = None) -> None:
        self._at, self._offset, self._record, self._error = at, offset, record, error

    @property
    def record(self) -> Record:
        """The model's."""
        assert self._record is not None
        return self._record

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._at[0]

    def partition(self) -> int:
        return self._at[1]

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return None if self._record is None else self._record.key

    def value(self) -> bytes | None:
        return None if self._record is None else self._record.value

    def headers(self) -> object:
        return None if self._record is None else self._record.headers

    def timestamp(self) -> tuple[int, int]:
        return 1, 0 if self._record is None else self._record.timestamp_ms


def _me() -> Process:
    fiber = the().current
    assert fiber is not None
    return fiber.process


class Producer:
    """`confluent_kafka.Producer`."""

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self._net: Network = network
        self._broker = self._net.broker
        self._process = _me()
        self._id: str | None = config.get("transactional.id")
        self._timeout_s = config.get("transaction.timeout.ms", 60_000) / 1000
        self._backoff_s = config.get("retry.backoff.ms", 100) / 1000
        self._message_timeout_s = config.get("message.timeout.ms", 300_000) / 1000
        self._pid, self._epoch, self._sequence = -1, -1, 0
        self._queue: list[tuple[Partition, Record, Callable[..., None] | None, float]] = []
        self._events: list[Callable[[], None]] = []
        self._error: KafkaError | None = None
        self._in_transaction = self._any = False
        self._added: set[Partition] = set()
        self._pumping = False
        self._sent = Waiters()

    def __len__(self) -> int:
        return len(self._queue)

    # -- records -------------------------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        on_delivery: Callable[..., None] | None = None,
        timestamp: int = 0,
        headers: object = None,
    ) -> None:
        if self._id is not None:
            self._raise()
            self._require_transaction()
        key = key.encode() if isinstance(key, str) else key
        value = value.encode() if isinstance(value, str) else value
        if partition < 0:
            known = self._broker.topics.get(topic)
            partition = (sum(key or b"") % len(known.partitions)) if known else 0
        record = Record(0, key, value, timestamp or time_ns() // 1_000_000, headers=headers)
        self._queue.append(((topic, partition), record, on_delivery, the().now))
        if self._id is None and not self._pumping:
            self._pumping = True
            the().after(the().random.uniform(0.0005, 0.005), self._pump)

    def poll(self, timeout: float = 0) -> int:
        if the().closing:
            return 0
        if self._id is not None and self._queue and self._in_transaction and the().random.random() < 0.3:
            self._send(the().now + 1.0)  # what librdkafka's own thread may have sent by now
        return self._call()

    def _call(self) -> int:
        events, self._events = self._events, []
        for event in events:
            event()
        return len(events)

    def flush(self, timeout: float = -1) -> int:
        kernel = the()
        deadline = kernel.now + (timeout if timeout >= 0 else 3600.0)
        if self._id is not None:
            self._send(deadline)
        else:
            while self._queue and kernel.now < deadline:
                kernel.wait(self._sent, deadline - kernel.now)
        self._call()
        return len(self._queue)

    def purge(self, *_: object, **__: object) -> None:
        self._queue.clear()

    def _pump(self) -> None:
        """Send what is queued outside of transactions, in order, beside whatever the process does."""
        kernel, process = the(), self._process
        if process.dead:
            return
        if process.paused_until > kernel.now:
            kernel.at(process.paused_until, self._pump)
            return
        fate, seconds = self._net.fate(process, "produce")
        again_s = kernel.random.uniform(0.1, 0.3) if fate else 0.0
        if fate in ("", "unanswered", "late"):
            if fate == "late":
                self._pid = self._pid if self._pid >= 0 else self._broker.init_producer(None, 0)[0]
                first = list(self._queue)
                kernel.after(seconds, lambda: self._arrive(first))
            while self._queue and not again_s:
                at, record, call, _ = self._queue[0]
                try:
                    if self._pid < 0:
                        self._pid, self._epoch = self._broker.init_producer(None, 0)
                    offset = self._append(at, record)
                except Refused as refused:
                    if refused.code in _AGAIN:
                        again_s = kernel.random.uniform(0.05, 0.2)
                        break
                    self._done(call, at, -1, record, KafkaError(refused.code))
                else:
                    self._done(call, at, offset, record, None)
                del self._queue[0]
        while self._queue and kernel.now - self._queue[0][3] > self._message_timeout_s:
            at, record, call, _ = self._queue.pop(0)
            self._done(call, at, -1, record, KafkaError(_MSG_TIMED_OUT))
        self._pumping = bool(self._queue)
        if self._pumping:
            kernel.after(again_s, self._pump)
        kernel.wake(self._sent)

    def _arrive(self, late: Sequence[Any]) -> None:
        for at, record, *_ in late:
            _quietly(partial(self._append, at, record))

    def _append(self, at: Partition, record: Record) -> int:
        number = record.transaction or self._next_sequence()
        record.transaction = number
        offset: int = self._broker.produce(at, self._pid, self._epoch, number, [record], None)
        return offset

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _done(
        self, call: Callable[..., None] | None, at: Partition, offset: int, record: Record, error: KafkaError | None
    ) -> None:
        if call is not None:
            self._events.append(lambda: call(error, Message(at, offset, record)))

    # -- transactions --------------------------------------------------------------------------------------------

    def _ask(self, kind: str, execute: Callable[[], T], deadline: float) -> T:
        """A request of a transaction; what is refused ends the producer or the transaction."""
        self._raise()
        try:
            return self._net.request(self._process, kind, execute, deadline, self._backoff_s)
        except Refused as refused:
            if refused.code in _FENCED:
                self._error = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
            elif refused.code in _ABORTS and kind in ("add", "offsets", "produce"):
                self._error = KafkaError(refused.code, "refused", txn_requires_abort=True)
            else:
                self._error = KafkaError(refused.code, "refused", fatal=True)
            raise KafkaException(self._error) from refused

    def _raise(self) -> None:
        if self._error is not None:
            raise KafkaException(self._error)

    def _require_transaction(self) -> None:
        if not self._in_transaction:
            raise KafkaException(KafkaError(KafkaError._STATE, "no transaction is open"))

    def init_transactions(self, timeout: float = 30.0) -> None:
        deadline = the().now + timeout
        id = self._id
        self._pid, self._epoch = self._ask("init", lambda: self._broker.init_producer(id, self._timeout_s), deadline)
        the().note("owns", id, self._pid, self._epoch)

    def begin_transaction(self) -> None:
        self._raise()
        if self._in_transaction:
            raise KafkaException(KafkaError(KafkaError._STATE, "a transaction is open"))
        self._in_transaction, self._any = True, False
        self._added = set()

    def _send(self, deadline: float) -> None:
        """Send what is queued; what goes wrong is said by the transaction's next call."""
        by_partition: dict[Partition, list[Any]] = {}
        for entry in self._queue:
            by_partition.setdefault(entry[0], []).append(entry)
        assert self._id is not None
        id, pid, epoch = self._id, self._pid, self._epoch
        try:
            new = [at for at in by_partition if at not in self._added]
            if new:
                self._ask("add", lambda: self._broker.add_partitions(id, pid, epoch, new), deadline)
                self._added.update(new)
                self._any = True
            order = list(by_partition)
            the().random.shuffle(order)
            for at in order:
                batch = by_partition[at]
                records, sequence = [entry[1] for entry in batch], self._next_sequence()
                first = self._ask(
                    "produce",
                    lambda at=at, s=sequence, r=records: self._broker.produce(at, pid, epoch, s, r, id),  # type: ignore[misc]
                    deadline,
                )
                self._queue = [entry for entry in self._queue if entry[0] != at]
                for number, (_, record, call, _) in enumerate(batch):
                    self._done(call, at, first + number, record, None)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                self._error = self._error or KafkaError(KafkaError._TIMED_OUT, "timed out", txn_requires_abort=True)
            else:
                for at, record, call, _ in self._queue:
                    self._done(call, at, -1, record, error.args[0])
                self._queue.clear()

    def send_offsets_to_transaction(self, offsets: Sequence[Any], metadata: Any, timeout: float = 30.0) -> None:
        self._raise()
        self._require_transaction()
        deadline, id, pid, epoch = the().now + timeout, str(self._id), self._pid, self._epoch
        positions = {(tp.topic, tp.partition): tp.offset for tp in offsets}
        self._ask("offsets", lambda: self._broker.add_offsets(id, pid, epoch, str(metadata), positions), deadline)
        self._any = True

    def commit_transaction(self, timeout: float = 30.0) -> None:
        deadline = the().now + timeout
        self._raise()
        self._require_transaction()
        if self._queue:
            self._send(deadline)
            self._raise()
        self._end(True, deadline)

    def abort_transaction(self, timeout: float = 30.0) -> None:
        if self._error is not None and self._error.fatal():
            self._raise()
        self._require_transaction()
        self._error = None
        self._queue.clear()
        self._end(False, the().now + timeout)

    def _end(self, commit: bool, deadline: float) -> None:
        id, pid, epoch = str(self._id), self._pid, self._epoch
        if self._any:
            self._ask("end", lambda: self._broker.end(id, pid, epoch, commit), deadline)
        self._in_transaction = False

    def list_topics(self, topic: str | None = None, timeout: float = 10.0) -> Any:
        return _metadata(self._net, self._process, timeout)


class _Position:
    __slots__ = ("cuts", "end", "nothing_in", "offset", "said")

    def __init__(self, offset: int) -> None:
        self.offset, self.said, self.end = offset, -1, -1
        self.nothing_in = -1
        """As what the log had changed when nothing was found there."""
        self.cuts: int | None = None
        """How often the log was cut when something was found there (KIP-320: the leader's epoch comes with records)."""


class Consumer:
    """`confluent_kafka.Consumer`, which is given its partitions."""

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self._net: Network = network
        self._broker = self._net.broker
        self._process = _me()
        self.process = self._process
        self._group = config.get("group.id", "")
        self._committed = config.get("isolation.level", "read_committed") == "read_committed"
        self._reset = config.get("auto.offset.reset", "latest")
        self._at: dict[Partition, _Position] = {}
        self.waiting = Waiters()
        self._closed = False

    def assign(self, partitions: Sequence[Any]) -> None:
        self._forget()
        self.incremental_assign(partitions)

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        for tp in partitions:
            at = (tp.topic, tp.partition)
            self._at[at] = _Position(max(0, tp.offset))
            self._net.readers.setdefault(at, []).append(self)

    def incremental_unassign(self, partitions: Sequence[Any]) -> None:
        for tp in partitions:
            self._drop((tp.topic, tp.partition))

    def _drop(self, at: Partition) -> None:
        if self._at.pop(at, None) is not None:
            self._net.readers[at].remove(self)

    def _forget(self) -> None:
        for at in list(self._at):
            self._drop(at)

    def poll(self, timeout: float = -1) -> Message | None:
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        kernel = the()
        if kernel.closing:
            kernel.sleep(0)
        deadline = kernel.now + (timeout if timeout >= 0 else 3600.0)
        while True:
            found = self._fetched(num_messages)
            if found:
                kernel.sleep(kernel.random.uniform(0.0001, 0.002))
                return [message for message in found if (message.topic(), message.partition()) in self._at]
            left = deadline - kernel.now
            if left <= 0:
                return []
            kernel.wait(self.waiting, left)

    def _fetched(self, most: int) -> list[Message]:
        deaf = self._group.endswith("-control") and self._process.deaf_until > the().now
        if deaf or not self._net.reachable(self._process):
            return []
        found: list[Message] = []
        for at, position in list(self._at.items()):
            if len(found) >= most:
                break
            if (changed := self._broker.changed(at)) == position.nothing_in:
                continue
            before = len(found)
            try:
                cuts = self._broker.log(at).cuts
                begins = (
                    position.offset if position.cuts is None else min(cuts[position.cuts :], default=position.offset)
                )
                if begins < position.offset:
                    found += self._cut(at, position, begins)
                    continue
                records, following, position.end = self._broker.fetch(
                    at, position.offset, self._committed, most - len(found)
                )
            except Refused as refused:
                found += self._refused(at, position, refused)
                continue
            for record in records:
                found.append(Message(at, record.offset, record))
                self._net.polled(self, record, at)
            position.offset = following
            position.cuts = len(cuts) if records else position.cuts
            if following >= position.end and position.said != position.end and len(found) < most:
                position.said = position.end
                found.append(Message(at, following, None, KafkaError(KafkaError._PARTITION_EOF)))
            if len(found) == before:
                position.nothing_in = changed
        return found

    def _cut(self, at: Partition, position: _Position, begins: int) -> list[Message]:
        """A new leader has begun before what was read: who is not told reads on there."""
        if self._reset != "error":
            position.offset, position.said, position.cuts = begins, -1, None
        elif position.said != -2:
            position.said = -2
            # As librdkafka says it.
            why = (
                f"Partition log truncation detected at offset {position.offset} (leader epoch 0): broker end offset is "
                f"{begins} (offset leader epoch 0). Reset to INVALID.: {KafkaError(KafkaError._LOG_TRUNCATION).str()}"  # noqa: SLF001
            )
            return [Message(at, position.offset, None, KafkaError(KafkaError._AUTO_OFFSET_RESET, why))]
        return []

    def _refused(self, at: Partition, position: _Position, refused: Refused) -> list[Message]:
        if refused.code == KafkaError.OFFSET_OUT_OF_RANGE:
            if self._reset == "error":
                if position.said == -2:
                    return []
                position.said = -2
                return [Message(at, position.offset, None, KafkaError(KafkaError._AUTO_OFFSET_RESET))]
            position.offset, position.said = self._broker.log(at).start, -1
        elif refused.code not in _AGAIN and position.said != -3:
            position.said = -3
            return [Message(at, position.offset, None, KafkaError(refused.code))]
        return []

    def get_watermark_offsets(self, partition: Any, timeout: float = 10.0, cached: bool = False) -> tuple[int, int]:
        at = (partition.topic, partition.partition)
        if cached:
            known = self._at.get(at)
            return (0, known.end) if known is not None else (-1001, -1001)
        try:
            low, high = self._net.request(
                self._process,
                "bounds",
                lambda: self._broker.bounds(at, self._committed),
                the().now + timeout,
                again=frozenset(),
            )
        except Refused as refused:
            code = refused.code
            code = KafkaError._UNKNOWN_PARTITION if code == KafkaError.UNKNOWN_TOPIC_OR_PART else code
            raise KafkaException(KafkaError(code)) from refused
        return low, high

    def list_topics(self, topic: str | None = None, timeout: float = 10.0) -> Any:
        return _metadata(self._net, self._process, timeout)

    def consumer_group_metadata(self) -> object:
        return self._group

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._forget()


def _metadata(net: Network, process: Process, timeout: float) -> Any:
    net.request(process, "metadata", lambda: None, the().now + timeout)
    topics = {
        name: SimpleNamespace(error=None, partitions=dict.fromkeys(range(len(topic.partitions))))
        for name, topic in net.broker.topics.items()
    }
    return SimpleNamespace(topics=topics)


class AIOConsumer:
    """`confluent_kafka.aio.AIOConsumer`: what it awaits, it waits for."""

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self._consumer = Consumer(config)

    async def assign(self, partitions: Sequence[Any]) -> None:
        self._consumer.assign(partitions)

    async def poll(self, timeout: float = -1) -> Message | None:
        return self._consumer.poll(timeout)

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        return self._consumer.consume(num_messages, timeout)

    async def get_watermark_offsets(self, partition: Any, timeout: float = 10.0) -> tuple[int, int]:
        return self._consumer.get_watermark_offsets(partition, timeout)

    async def list_topics(self, topic: str | None = None, timeout: float = 10.0) -> Any:
        return self._consumer.list_topics(topic, timeout)

    async def close(self) -> None:
        self._consumer.close()


class AdminClient:
    """`confluent_kafka.admin.AdminClient`, as much of it as is used where tasks run."""

    def __init__(self, config: dict[str, Any], **_: object) -> None:
        self._net: Network = network
        self._process = _me()

    def poll(self, timeout: float = 0) -> int:
        return 0

    def describe_topics(self, names: Any, request_timeout: float = 10.0, **_: object) -> dict[str, Future]:
        broker = self._net.broker
        operations = {"read": AclOperation.READ, "write": AclOperation.WRITE}

        def described() -> dict[str, str | None]:
            return {name: broker.topics[name].id if name in broker.topics else None for name in names.topic_names}

        found = {name: Future() for name in names.topic_names}
        try:
            ids = self._net.request(self._process, "describe", described, the().now + request_timeout)
        except KafkaException as error:
            for future in found.values():
                future.set_exception(error)
            return found
        for name, id in ids.items():
            if id is None:
                found[name].set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            else:
                may = {right for what, right in operations.items() if (what, name) not in broker.refused}
                found[name].set_result(SimpleNamespace(topic_id=id, authorized_operations=may))
        return found

    def delete_records(self, partitions: Sequence[TopicPartition], **_: object) -> dict[Any, Future]:
        found = {}
        for tp in partitions:
            found[tp] = Future()
            try:
                found[tp].set_result(self._net.broker.delete_records((tp.topic, tp.partition), tp.offset))
            except Refused as refused:
                found[tp].set_exception(KafkaException(KafkaError(refused.code)))
        return found
