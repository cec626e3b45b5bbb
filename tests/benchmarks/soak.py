"""Half an hour at a steady rate: memory, handles, threads, disk, CPU and latency of each minute, which have to be flat.

The load is that of `tests.benchmarks.latency`; its customers are known after the first minutes, so that the state does
not grow. Neither do the tasks' block caches: with the default of 64 MiB each fills for longer than half an hour, which
would look like a leak.
"""

from __future__ import annotations

import argparse
import collections
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from airflow_provider.common.files import folder_bytes
from tests.benchmarks import plots
from tests.benchmarks.active_step import TASKS
from tests.benchmarks.cluster import broker, cpu_seconds, instance, make_topics
from tests.benchmarks.latency import collect, produce
from tests.benchmarks.orders import SINK, SOURCE
from tests.benchmarks.resources import held

_JOB: Final = Path(__file__).with_name("latency_job.py")
_SETTLED: Final = 1 / 3
"""So much of the time is left out: memory grows until all customers are known."""


class Minute(msgspec.Struct, frozen=True):
    """What a minute came to.

    Args:
        jvm: resident memory in MB; ``driver`` and ``worker`` likewise.
        disk: of the state folder, in MB.
        cores: of CPU that all processes took.
        p50: seconds from the producer's call to the committed output; ``p99`` likewise.
    """

    jvm: int
    driver: int
    worker: int
    threads: int
    handles: int
    disk: int
    cores: float
    p50: float
    p99: float

    def __str__(self) -> str:
        return (
            f"JVM {self.jvm:,} MB, driver {self.driver:,}, worker {self.worker:,}; {self.threads} threads, "
            f"{self.handles} handles, {self.disk:,} MB on disk; {self.cores:.2f} cores; p50 {self.p50:.3f} s, "
            f"p99 {self.p99:.3f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20_000, help="orders a second")
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--customers", type=int, default=200_000)
    parser.add_argument("--cache-mib", type=int, default=4, help="memory for each task's blocks read")
    plots.add_option(parser)
    options = parser.parse_args()
    found = measure(options)
    settled = found[int(len(found) * _SETTLED) :]
    for name in Minute.__struct_fields__:
        values = [getattr(minute, name) for minute in settled]
        middle = len(values) // 2
        first, second = statistics.median(values[:middle] or values), statistics.median(values[middle:])
        print(f"{name:>8}: {first:.5g}, then {second:.5g} ({second / first if first else 1:.2f}x)")
    plots.write(options, found, rows_of(found), logarithmic=False)


def measure(options: argparse.Namespace) -> list[Minute]:
    """A minute after the other, each printed."""
    with tempfile.TemporaryDirectory() as name, broker(Path(name) / "kafka") as connection:
        make_topics(connection, "soak", TASKS, SOURCE, SINK)
        arguments = ("--cache-mib", str(options.cache_mib))
        with instance(connection, "soak", _JOB, Path(name), "local[1]", arguments=arguments) as (launched, _):
            ended, latencies = threading.Event(), collections.deque[float]()
            load = (connection, options.rate, 60.0 * options.minutes, options.customers, ended)
            threads = [
                threading.Thread(target=produce, args=load, daemon=True),
                threading.Thread(target=collect, args=(connection, ended, latencies), daemon=True),
            ]
            for thread in threads:
                thread.start()
            found = list[Minute]()
            used, begun = cpu_seconds(launched.launcher_pid), time.monotonic()
            while not ended.wait(max(0.0, begun + 60.0 - time.monotonic())):
                now, at = cpu_seconds(launched.launcher_pid), time.monotonic()
                seen = [latencies.popleft() for _ in range(len(latencies))]
                cores = (sum(now.values()) - sum(used.values())) / (at - begun)
                found.append(_minute(launched.launcher_pid, Path(name) / "state", cores, seen))
                used, begun = now, at
                print(f"{len(found):>3}  {found[-1]}  (load {os.getloadavg()[0]:.1f})", flush=True)
            for thread in threads:
                thread.join()
    return found


def _minute(launcher: int, state: Path, cores: float, latencies: Sequence[float]) -> Minute:
    kinds = held(launcher)
    total = sum(kinds.values(), collections.Counter[str]())
    p50, p99 = np.percentile(latencies, [50, 99]) if latencies else (float("nan"), float("nan"))
    return Minute(
        **{kind: figures["MB"] for kind, figures in kinds.items()},
        threads=total["threads"],
        handles=total["handles"],
        disk=folder_bytes(state) >> 20,
        cores=cores,
        p50=float(p50),
        p99=float(p99),
    )


def rows_of(found: Sequence[Minute]) -> list[plots.Row]:
    """A plot of each figure over the minutes."""
    rows = [
        {"jvm": "JVM, MB", "driver": "driver, MB", "worker": "worker, MB"},
        {"threads": "threads", "handles": "handles", "disk": "state on disk, MB"},
        {"cores": "cores of CPU", "p50": "latency, p50 in s", "p99": "latency, p99 in s"},
    ]
    minutes = range(1, len(found) + 1)
    return [
        ("minutes", minutes, {what: [getattr(minute, name) for minute in found] for name, what in row.items()})
        for row in rows
    ]


if __name__ == "__main__":
    main()
