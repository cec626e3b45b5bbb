"""A backlog eleven times as large as what an instance's JVM may hold outside of its heap, with a kill in the middle.

2,400 records of 900 kB wait in two partitions. One instance gets both tasks, another their standbys; once half is
processed the first is killed, as a whole, and the failover of the command line moves its tasks. How far it is is
what the commits say, memory is resident.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition

from airflow_provider.cli.main import main as command
from airflow_provider.control.history.report import report
from tests.benchmarks.cluster import broker
from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.committed import records_of
from tests.waiting import wait_until

_JOB: Final = Path(__file__).parents[1] / "integration/streaming/counting_job.py"
_TASKS: Final = 2
_DIRECT_BYTES: Final = 192 << 20
_TIMEOUT_S: Final = 1_800.0
_EVERY_S: Final = 5.0


class _Memory:
    """The most that each kind of process of an instance held, and all of them together, in bytes."""

    def __init__(self) -> None:
        self.jvm, self.worker, self.workers, self.driver = 0, 0, 0, 0

    def look(self, accounts: Accounts, name: str) -> None:
        workers = [0]
        for process in accounts.processes(name):
            with contextlib.suppress(psutil.Error):
                words, resident = process.cmdline(), process.memory_info().rss
                if any("java" in word for word in words[:1]):
                    self.jvm = max(self.jvm, resident)
                elif any("pyspark.daemon" in word for word in words):
                    workers.append(resident)
                else:
                    self.driver = max(self.driver, resident)
        self.worker, self.workers = max(self.worker, *workers), max(self.workers, sum(workers))

    def __str__(self) -> str:
        jvm, worker, workers, driver = (size >> 20 for size in (self.jvm, self.worker, self.workers, self.driver))
        return f"JVM {jvm} MiB, largest worker {worker} MiB, workers together {workers} MiB, driver {driver} MiB"


def _write(accounts: Accounts, records: int, size: int) -> None:
    producer = Producer({"bootstrap.servers": accounts.connection.bootstrap_servers})
    value = b'{"account": "ann", "amount": 1, "note": "%s"}' % (b"x" * size)
    for _ in range(records):
        for partition in range(_TASKS):
            while True:
                try:
                    producer.produce(accounts.orders.topic, value, b"ann", partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def _processed(accounts: Accounts) -> int:
    """By the offsets that the consumer group committed, in the transactions of the results."""
    config = {"bootstrap.servers": accounts.connection.bootstrap_servers, "group.id": accounts.id}
    with closing(Consumer(config)) as consumer:
        partitions = [TopicPartition(accounts.orders.topic, number) for number in range(_TASKS)]
        return sum(max(0, partition.offset) for partition in consumer.committed(partitions, timeout=30.0))


def _until(accounts: Accounts, records: int, memory: dict[str, _Memory], began: float) -> float:
    """Say how it gets on until so many records are processed; how long that took, in seconds."""
    said = 0.0
    while (done := _processed(accounts)) < records:
        for name, found in memory.items():
            found.look(accounts, name)
        if (took := time.monotonic() - began) - said >= _EVERY_S:
            said = took
            print(f"  after {took:.0f} s {done} of {records} processed", flush=True)
        if took > _TIMEOUT_S:
            raise RuntimeError(f"waited {_TIMEOUT_S:g} s for {records} records")
        time.sleep(0.2)
    return time.monotonic() - began


def _measure(folder: Path, records: int, size: int) -> None:
    with broker(folder / "kafka") as connection, closing(_accounts(connection.bootstrap_servers, folder)) as accounts:
        at = (accounts.id, "--bootstrap-servers", connection.bootstrap_servers)
        _write(accounts, records, size)
        print(f"{_TASKS * records} records, {_TASKS * records * size / 1e9:.2f} GB, wait", flush=True)
        memory = {name: _Memory() for name in ("i1", "i2")}
        for name in memory:
            accounts.launch(name, "local[1]")
        accounts.wait(lambda: accounts.runs("i1") and accounts.runs("i2"), "both to run", 600.0)
        began = time.monotonic()
        accounts.assign("i1 i2", "i1 i2")
        first_s = _until(accounts, _TASKS * records // 2, memory, began)
        accounts.signal("i1", signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: accounts.view.statuses["i1"].state.alive is False, 60.0, "the end of i1 to be told")
        command(["failover", *at])
        print(f"  killed after {first_s:.0f} s", flush=True)
        second_s = _until(accounts, _TASKS * records, {"i2": memory["i2"]}, killed)
        accounts.wait(lambda: _recovered(accounts), "the owner to say when it committed first", 60.0)
        found = report(next(iter(accounts.view.incidents.values())), accounts.view)
        counts = [
            json.loads(record.value or b"")["n"] for record in records_of(connection.bootstrap_servers, accounts.totals)
        ]
        assert (max(counts), counts.count(records)) == (records, _TASKS), "each record is counted once"
        rates = [f"{_TASKS * records // 2 * size / seconds / 1e6:.1f} MB/s" for seconds in (first_s, second_s)]
        print(f"first half in {first_s:.1f} s ({rates[0]}), killed, the rest {second_s:.1f} s later ({rates[1]})")
        print(found)
        for name, most in memory.items():
            print(f"{name} at the most: {most}")


def _recovered(accounts: Accounts) -> bool:
    return report(next(iter(accounts.view.incidents.values())), accounts.view).rto_ms is not None


def _accounts(servers: str, folder: Path) -> Accounts:
    accounts = Accounts(servers, "backlog", folder, _TASKS, seed=3)
    options = ("--driver-java-options", f"-XX:MaxDirectMemorySize={_DIRECT_BYTES}")
    accounts.job = (*options, str(_JOB), accounts.id, "fail")
    return accounts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_200, help="of each of the two partitions (%(default)d)")
    parser.add_argument("--size", type=int, default=900_000, help="of a record, in bytes (%(default)d)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder), asked.records, asked.size)


if __name__ == "__main__":
    main()
