"""Live load: keyed records with a sequence number of their key, in transactions of which some are aborted."""

from __future__ import annotations

import json
import random
import threading
import time
import zlib
from collections import Counter, deque
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

_INTERVAL_S = 0.2
_ABORTED = 0.03
_CLOSED = 0.01


class Load:
    """Produces until it is asked to stop, through every outage of the broker.

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
        self._bootstrap, self._topic, self._partitions, self._rate = bootstrap_servers, topic, partitions, rate
        self._random, self._accounts = random.Random(f"load {seed}"), accounts
        self._transactional_id = transactional_id
        self._seq: Counter[str] = Counter()
        self._asked: deque[tuple[str, int]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.committed: dict[int, int] = {}
        """By partition the offset after the last record that is known to be committed."""
        self.records = 0

    def start(self) -> None:
        self._thread.start()

    def ask(self, fault: str, chars: int) -> None:
        """Have a record in the next transaction that asks for a fault; see `record_of`."""
        self._asked.append((fault, chars))

    def stop(self) -> None:
        """Returns once the last transaction is ended."""
        self._stop.set()
        self._thread.join(60)
        if self._thread.is_alive():
            raise RuntimeError("the load did not end within 60 s")

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._produce()
            except KafkaException:
                # The outcome is not known, and need not be: the input topic is the truth.
                time.sleep(0.5)

    def _produce(self) -> None:
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
        due = time.monotonic()
        while not self._stop.is_set():
            producer.begin_transaction()
            stored: dict[int, int] = {}

            def note(error: KafkaError | None, message: Message, stored: dict[int, int] = stored) -> None:
                if error is None:
                    stored[int(message.partition() or 0)] = int(message.offset() or 0) + 1

            number, asked = max(1, round(self._rate * _INTERVAL_S)), list(self._asked)
            for at in range(number + len(asked)):
                account = f"account-{self._random.randrange(self._accounts)}"
                self._seq[account] += 1
                amount = 0 if self._random.random() < _CLOSED else self._random.randrange(1, 1000)
                row = {"account": account, "seq": self._seq[account], "amount": amount}
                value = record_of(row, *asked[at - number]) if at >= number else json.dumps(row)
                partition = zlib.crc32(account.encode()) % self._partitions
                producer.produce(self._topic, value, account, partition=partition, on_delivery=note)
                producer.poll(0)
            if self._random.random() < _ABORTED and not asked:
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)
                self.committed.update(stored)
                self.records += number + len(asked)
                for _ in asked:
                    self._asked.popleft()
            due = max(due + _INTERVAL_S, time.monotonic() - 1.0)
            self._stop.wait(max(0.0, due - time.monotonic()))


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
