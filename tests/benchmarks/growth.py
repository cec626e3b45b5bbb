"""Throughput, memory, restore and promotion as keys, values, partitions and standbys grow, a plot of each.

A point is one application on a broker of its own. Instance `a` has all tasks and one core, and processes what waits:
its throughput and memory. Then one or two others are started with nothing on their disk and follow: the restore. Then
`a` is killed, an order comes for each task, and `b` gets all of them: the promotion (`tests.benchmarks.failover`).
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from confluent_kafka import Producer

from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks import plots
from tests.benchmarks.cluster import broker, cpu_seconds, idle_instance, make_topics, publish
from tests.benchmarks.failover import CUSTOMERS_A_TASK, Failover, fail_over, settled, until
from tests.benchmarks.figures import Figures
from tests.benchmarks.orders import SINK, SOURCE, Orders
from tests.benchmarks.resources import held

_JOB: Final = Path(__file__).with_name("growth_job.py")
_APPLICATION: Final = "growth"
_RECORDS: Final = 2_000_000
_BYTES: Final = 1_000_000_000
"""Of all values of a point at the most, so that larger ones are fewer."""
_CHUNK: Final = 20_000
_TEXTS: Final = 4096


class Case(msgspec.Struct, frozen=True):
    """What is grown; one of these at a time.

    Args:
        keys: of the state.
        value: bytes of a value of the state, and of a record.
        partitions: of the source; as many tasks.
        standbys: of each task.
    """

    keys: int = 50_000
    value: int = 100
    partitions: int = 4
    standbys: int = 1

    @property
    def records(self) -> int:
        """Each key comes once at the least."""
        return max(self.keys, min(_RECORDS, _BYTES // self.value))


class Point(msgspec.Struct, frozen=True):
    """What came of a case.

    Args:
        active: of `a`, behind the first fifth of the records.
        mb: resident memory of all processes of `a`, at the end.
        restored: changelog records that `b` read.
        restore_s: the longest restore of one of its copies, by its status.
        warm_s: from the assignment until each copy was known to be warm, a start of its worker among it.
        failover: the promotion of all tasks.
    """

    case: Case
    active: Figures
    mb: int
    restored: int
    restore_s: float
    warm_s: float
    failover: Failover

    def __str__(self) -> str:
        return (
            f"{self.case}: {self.active}; {self.mb:,} MB; restored {self.restored:,} records in "
            f"{self.restore_s:.1f} s, warm after {self.warm_s:.1f} s; {self.failover}"
        )


AXES: Final[Mapping[str, Sequence[int]]] = {
    "keys": (10_000, 100_000, 1_000_000, 10_000_000),
    "value": (100, 1_000, 10_000),
    "partitions": (1, 4, 16, 64),
    "standbys": (1, 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--axes", nargs="+", choices=AXES, default=list(AXES), help="what is grown, one after the other"
    )
    parser.add_argument("--most", type=int, help="leave larger values of the axes out")
    plots.add_option(parser)
    options = parser.parse_args()
    found: dict[str, list[Point]] = {}
    for axis in options.axes:
        for value in AXES[axis]:
            if options.most is None or value <= options.most:
                case = msgspec.structs.replace(Case(), **{axis: value})
                known = [point for points in found.values() for point in points if point.case == case]
                found.setdefault(axis, []).append(known[0] if known else measure(case))
                print(f"{axis:>10} {found[axis][-1]}  (load {os.getloadavg()[0]:.1f})", flush=True)
    plots.write(options, found, rows_of(found))


def measure(case: Case) -> Point:
    """One application, from its first record to its failover."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        connection = stack.enter_context(broker(folder / "kafka"))
        make_topics(connection, _APPLICATION, case.partitions, SOURCE, SINK)
        _send(connection, case)

        @contextlib.contextmanager
        def instance(name: str) -> Iterator[tuple[int, ControlReader]]:
            with idle_instance(connection, _APPLICATION, name, _JOB, folder / name, "local[1]") as (launched, reader):
                yield launched.launcher_pid, reader

        launcher, reader = stack.enter_context(instance("a"))
        publish(connection, _APPLICATION, ["a"], 0)
        active = _process(reader, launcher, case.records)
        mb = sum(kind["MB"] for kind in held(launcher).values())

        others = ["b", "c"][: case.standbys]
        for name in others:
            stack.enter_context(instance(name))
        publish(connection, _APPLICATION, ["a", *others], case.standbys)
        begun = time.monotonic()
        until(reader, lambda statuses: settled(statuses, case.partitions, case.standbys), "warm standbys")
        warm_s = time.monotonic() - begun
        copies = reader.view.statuses["b"].tasks
        restored, restore_s = sum(task.restore.records for task in copies), max(task.restore.took_s for task in copies)

        orders = Orders(connection, case.partitions)
        stack.callback(orders.close)
        failover = fail_over(
            connection, reader, _APPLICATION, orders, others, replicas=case.standbys - 1,
            customers=CUSTOMERS_A_TASK * case.partitions, moved=case.partitions,
        )  # fmt: skip
        return Point(case, active, mb, restored, restore_s, warm_s, failover)


def _send(connection: KafkaConnection, case: Case) -> None:
    """Each customer in turn, in an order that is drawn; texts that share nothing, from a stock of them."""
    random = np.random.default_rng(5)
    texts = [base64.b64encode(random.bytes(case.value * 3 // 4)).decode() for _ in range(_TEXTS)]
    order = np.concatenate([random.permutation(case.keys) for _ in range(-(-case.records // case.keys))])
    producer = Producer(
        connection.to_client_config()
        | {"linger.ms": 50, "compression.type": "lz4", "queue.buffering.max.kbytes": 1_000_000}
    )
    for at in range(0, case.records, _CHUNK):
        part = order[at : min(at + _CHUNK, case.records)]
        producer.produce_batch(
            SOURCE,
            [
                {
                    "key": f"customer-{customer:08d}",
                    "value": f'{{"customer":"customer-{customer:08d}","at":{at},"text":"{texts[customer % _TEXTS]}"}}',
                }
                for customer in part
            ],
        )
        producer.flush()


def _process(reader: ControlReader, launcher: int, records: int) -> Figures:
    """All records but the first fifth, in which the JVM compiles and what is read for the first time is opened."""
    begun: tuple[int, float, float] | None = None
    while True:
        reader.poll(0.05)
        done = sum(task.processed_records for task in reader.view.statuses["a"].tasks)
        if done >= records / 5:
            now = done, time.monotonic(), sum(cpu_seconds(launcher).values())
            begun = begun or now
            if done >= records and done > begun[0]:
                return Figures(now[0] - begun[0], now[1] - begun[1], now[2] - begun[2])
            if done >= records:
                raise ValueError(f"All {records:,} records came in one micro-batch.")


def rows_of(found: Mapping[str, Sequence[Point]]) -> list[plots.Row]:
    """A row of plots for each axis."""
    names = {"keys": "keys", "value": "bytes of a value", "partitions": "partitions", "standbys": "standbys"}
    return [
        (
            names[axis],
            [getattr(point.case, axis) for point in points],
            {
                "records/s per core": [point.active.rate_per_core for point in points],
                "memory, MB": [point.mb for point in points],
                "restore, s": [point.restore_s for point in points],
                "promotion, s": [point.failover.owned_s + point.failover.output_s for point in points],
            },
        )
        for axis, points in found.items()
    ]


if __name__ == "__main__":
    main()
