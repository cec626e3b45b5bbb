"""Restore of a cold store from its changelog, by the code that a standby, a promotion and a replay run.

Keys are shuffled: near-sequential ones make any restore look twice as fast.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.connection import KafkaConnection
from airflow_provider.control.status import Role
from airflow_provider.names import changelog_topic, transactional_id
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.streaming.aggregate import Aggregation
from airflow_provider.streaming.functions import count
from airflow_provider.streaming.plan import JobSpec, SlotPlan, TaskPlan
from airflow_provider.streaming.settings import InstanceSettings
from airflow_provider.streaming.slot import Slot
from tests.benchmarks.cluster import broker, make_topics

_APPLICATION = "restore"
_TRANSACTION = 100_000


def fill(connection: KafkaConnection, records: int, keys: int, record_bytes: int) -> None:
    """Write a changelog as the active step does: transactions with a commit record each."""
    group = Consumer(connection.to_client_config() | {"group.id": _APPLICATION})
    writer = TransactionalWriter(connection, transactional_id(_APPLICATION, 0))
    writer.own()
    random = np.random.default_rng(7)
    order = random.permutation(records) % keys
    for at in range(0, records, _TRANSACTION):
        part = order[at : at + _TRANSACTION]
        filler = random.bytes(record_bytes)
        changes = [
            (b"key-%012d" % key, b"%012d" % (at + i) + filler[: record_bytes - 28]) for i, key in enumerate(part)
        ]
        record = CommitRecord(_APPLICATION, 0, 1, "bench", 1, 0, {"source": at + len(part)}, at + len(part))
        writer.commit(changelog_topic(_APPLICATION, "state"), 0, changes, {}, record, group)
    group.close()


def restore(connection: KafkaConnection, folder: Path) -> tuple[int, float, float]:
    """Restore into an empty folder; records, seconds, CPU seconds of the process."""
    settings = InstanceSettings(_APPLICATION, "bench", 1, str(folder / "state"), str(folder / "run"), connection)
    spec = JobSpec(
        _APPLICATION,
        "source",
        None,
        "state",
        "key",
        Aggregation((count(),)),
        (),
        1,
        RocksDBOptions(),
        86_400_000,
        60_000,
    )
    plan = SlotPlan(settings, spec, 0, (TaskPlan(0, Role.STANDBY, 1),), budget_s=0.25)
    begun, cpu = time.monotonic(), time.process_time()
    slot = Slot(plan)
    while (status := slot.call(plan, None, False)[0]).lag_records != 0:
        pass
    took, used = time.monotonic() - begun, time.process_time() - cpu
    slot.close()
    return status.restored_records, took, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--record-bytes", type=int, default=116, help="key and value together")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker(folder / "kafka") as connection:
            make_topics(connection, _APPLICATION, 1, "source")
            fill(connection, arguments.records, arguments.keys, arguments.record_bytes)
            results = []
            for run in range(arguments.runs):
                records, took, used = restore(connection, folder / f"run-{run}")
                results.append((records / took, used / records * 1e6))
                print(f"run {run + 1}: {records:,} records in {took:.2f} s, {results[-1][0]:,.0f} records/s, "
                      f"{results[-1][1]:.2f} us CPU a record", flush=True)  # fmt: skip
    rates, cpus = zip(*results, strict=True)
    print(f"median of {len(results)}: {statistics.median(rates):,.0f} records/s, {statistics.median(cpus):.2f} us CPU")


if __name__ == "__main__":
    main()
