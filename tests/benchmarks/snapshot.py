"""Restore of an empty store from a snapshot against the replay of its changelog, in turn on the same broker and data.

The snapshot lies on the local disk (file://), checksums are compared, and a standby's rounds are what does it. Values
do not compress, unless asked for: a store is compressed on its disk, a changelog here is not.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from airflow_provider.control.records.status import TaskStatus
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.streaming.worker.slot import Slot
from tests.benchmarks.cluster import broker, make_topics
from tests.benchmarks.figures import Figures, compare
from tests.benchmarks.restore import fill, plan_of

_APPLICATION = "restore"


def restore(connection: KafkaConnection, folder: Path, records: int, snapshots: SnapshotSettings | None) -> Figures:
    """Restore the task into an empty folder up to the end of its changelog.

    Raises:
        ValueError: it did not go the way that is measured.
    """
    plan = plan_of(connection, folder, (0,), snapshots)
    begun, cpu = time.monotonic(), time.process_time()
    slot = Slot(plan)
    (status,) = slot.call(plan, (), False)
    while status.lag_records != 0:
        (status,) = slot.call(plan, (), False)
    figures = Figures(records, time.monotonic() - begun, time.process_time() - cpu)
    slot.close()
    from_snapshot = str(status.restore.source).startswith("the snapshot")
    if from_snapshot is (snapshots is None):
        raise ValueError(f"The store was restored from {status.restore.source}, measured is another way.")
    return figures


def take(connection: KafkaConnection, folder: Path, snapshots: SnapshotSettings) -> TaskStatus:
    """Have a standby send a snapshot."""
    plan = plan_of(connection, folder, (0,), snapshots)
    slot = Slot(plan)
    (status,) = slot.call(plan, (), False)
    while status.snapshot.position is None:
        if status.snapshot.error is not None:
            raise ValueError(status.snapshot.error)
        (status,) = slot.call(plan, (), False)
        time.sleep(0.01)
    slot.close()
    return status


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--record-bytes", type=int, default=116, help="key and value together")
    parser.add_argument("--tail", type=int, default=0, help="records after the snapshot, on top")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--compressible", action="store_true")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = SnapshotSettings(f"file://{folder}/snapshots")
        with broker(folder / "kafka") as connection:
            make_topics(connection, _APPLICATION, 1, "source")
            sizes = arguments.keys, arguments.record_bytes
            fill(connection, arguments.records, *sizes, compressible=arguments.compressible)
            take(connection, folder / "standby", settings)
            if arguments.tail:
                fill(connection, arguments.tail, *sizes, compressible=arguments.compressible)
            size = sum(file.stat().st_size for file in (folder / "snapshots").rglob("*") if file.is_file())
            print(f"the snapshot has {size:,} bytes", flush=True)
            records = arguments.records + arguments.tail
            compare(
                {
                    "snapshot": lambda run: restore(connection, folder / f"snapshot-{run}", records, settings),
                    "replay": lambda run: restore(connection, folder / f"replay-{run}", records, None),
                },
                arguments.runs,
            )


if __name__ == "__main__":
    main()
