"""Live load in transactions of which some are aborted, and that of the ledger: keyed records with a sequence number."""

from __future__ import annotations

import json
import random
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

_INTERVAL_S = 0.2
_ABORTED = 0.03
_CLOSED = 0.01


@dataclass(frozen=True)
class Sent:
    """A record that a load writes."""

    topic: str
    partition: int
    key: str
    value: str | None


class TransactionalLoad(ABC):
    """Produces until it is asked to stop, through every outage of the broker.

    Args:
        bootstrap_servers: of the broker.
        rate: records a second.
        transactional_id: its producer's; another load of the same cluster needs another.
    """

    def __init__(self, bootstrap_servers: str, rate: int, transactional_id: str = "chaos-load") -> None:
        self._bootstrap, self._rate, self._transactional_id = bootstrap_servers, rate, transactional_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.committed: dict[tuple[str, int], int] = {}
        """By topic and partition the offset after the last record that is known to be committed."""
        self.records = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once the last transaction is ended."""
        self._stop.set()
        self._thread.join(60)
        if self._thread.is_alive():
            raise RuntimeError("the load did not end within 60 s")

    def ask(self, fault: str, chars: int) -> None:
        """Have a record in the next transaction that asks for a fault."""
        raise NotImplementedError(f"no record of this load asks for {fault}")

    @abstractmethod
    def next_records(self, number: int) -> tuple[list[Sent], bool]:
        """The records of a transaction, about so many; and whether it is one that is aborted."""

    def note_committed(self) -> None:  # noqa: B027 - nothing to note is the rule
        """Called when the records that were drawn last are committed; not where that is not known."""

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._produce()
            except KafkaException:
                # The outcome is not known, and need not be: the input topics are the truth.
                time.sleep(0.5)

    def _producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": 20_000,
                "message.timeout.ms": 15_000,
                "linger.ms": 0,
                "message.max.bytes": 4 << 20,
                "reconnect.backoff.max.ms": 1000,
            }
        )
        producer.init_transactions(30)
        return producer

    def _produce(self) -> None:
        producer = self._producer()
        due = time.monotonic()
        while not self._stop.is_set():
            records, aborted = self.next_records(max(1, round(self._rate * _INTERVAL_S)))
            self._transact(producer, records, aborted)
            due = max(due + _INTERVAL_S, time.monotonic() - 1.0)
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _transact(self, producer: Producer, records: list[Sent], aborted: bool) -> None:
        producer.begin_transaction()
        stored: dict[tuple[str, int], int] = {}

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                place = str(message.topic()), int(message.partition() or 0)
                stored[place] = int(message.offset() or 0) + 1

        for record in records:
            producer.produce(record.topic, record.value, record.key, partition=record.partition, on_delivery=note)
            producer.poll(0)
        if aborted:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
            self.committed.update(stored)
            self.records += len(records)
            self.note_committed()


class Load(TransactionalLoad):
    """That of the ledger.

    Args:
        bootstrap_servers: of the broker.
        topic: the input.
        partitions: its number of them.
        rate: records a second.
        seed: of the records.
        accounts: how many keys.
        transactional_id: its producer's; another load of the same cluster needs another.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        rate: int,
        seed: int,
        accounts: int = 3000,
        transactional_id: str = "chaos-load",
    ) -> None:
        super().__init__(bootstrap_servers, rate, transactional_id)
        self._topic, self._partitions = topic, partitions
        self._random, self._accounts = random.Random(f"load {seed}"), accounts
        self._seq: Counter[str] = Counter()
        self._asked: deque[tuple[str, int]] = deque()
        self._taken = 0

    def ask(self, fault: str, chars: int) -> None:
        """Have a record in the next transaction that asks for a fault; see `record_of`."""
        self._asked.append((fault, chars))

    def next_records(self, number: int) -> tuple[list[Sent], bool]:
        asked, records = list(self._asked), []
        for at in range(number + len(asked)):
            account = f"account-{self._random.randrange(self._accounts)}"
            self._seq[account] += 1
            amount = 0 if self._random.random() < _CLOSED else self._random.randrange(1, 1000)
            row = {"account": account, "seq": self._seq[account], "amount": amount}
            value = record_of(row, *asked[at - number]) if at >= number else json.dumps(row)
            records.append(Sent(self._topic, zlib.crc32(account.encode()) % self._partitions, account, value))
        self._taken = len(asked)
        return records, self._random.random() < _ABORTED and not asked

    def note_committed(self) -> None:
        for _ in range(self._taken):
            self._asked.popleft()


def record_of(row: dict[str, Any], fault: str, chars: int) -> str:
    """The value of a record that asks for a fault.

    Args:
        row: of a good record.
        fault: ``malformed`` is no JSON; ``long`` is a good record with a field that the schema lacks; others are faults
            of the job's function.
        chars: how many characters that has.
    """
    if fault == "malformed":
        return "{" + "x" * chars
    if fault == "long":
        return json.dumps(row | {"note": "x" * chars})
    return json.dumps(row | {"fault": fault, "chars": chars})
