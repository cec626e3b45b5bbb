"""What an instance costs that has nothing to do, and how soon it notices that it has.

An instance with four active tasks is left alone for a minute: the CPU time of its JVM, its driver and its Python
workers. Then single records come, some seconds apart: the time from the producer's call to the committed output in a
consumer's hands. With `--against` the same is measured of another checkout of the project, in turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.benchmarks.cluster import broker, cpu_seconds, instance, make_topics
from tests.benchmarks.orders import SINK, SOURCE, Orders

_TASKS = 4
_FIRST = 200
_GAP_S = (0.5, 2.5)


@dataclass(frozen=True)
class Idle:
    """What one run found.

    Args:
        cpu: by kind of process, the share of a core that it took while nothing came.
        latencies: seconds of each single record.
    """

    cpu: Mapping[str, float]
    latencies: Sequence[float]

    @property
    def total(self) -> float:
        """The share of a core of all processes."""
        return sum(self.cpu.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{kind} {share:.1%}" for kind, share in self.cpu.items())
        p50, p90 = np.percentile(self.latencies, [50, 90])
        return f"{self.total:.1%} of a core ({parts}); single records p50 {p50 * 1000:.0f} ms, p90 {p90 * 1000:.0f} ms"


def measure(options: argparse.Namespace, checkout: Path | None, name: str) -> Idle:
    """One instance on a broker of its own.

    Args:
        options: of the command line.
        checkout: whose code the instance runs; None for this one.
        name: of the application.
    """
    env = {} if checkout is None else {"PYTHONPATH": str(checkout.absolute())}
    job = (Path(__file__).parents[2] if checkout is None else checkout) / "tests" / "benchmarks" / "latency_job.py"
    with tempfile.TemporaryDirectory() as folder_name, broker(Path(folder_name) / "kafka") as connection:
        make_topics(connection, name, _TASKS, SOURCE, SINK)
        orders = Orders(connection, _TASKS)
        with instance(connection, name, job, Path(folder_name), f"local[{options.cores}]", env=env) as (launched, _):
            if not options.empty:
                orders.fill(_FIRST)
            time.sleep(options.settle)
            before, begun = cpu_seconds(launched.launcher_pid), time.monotonic()
            time.sleep(options.seconds)
            after, took = cpu_seconds(launched.launcher_pid), time.monotonic() - begun
            random, latencies = np.random.default_rng(7), list[float]()
            for number in range(options.records):
                time.sleep(random.uniform(*_GAP_S))
                latencies.append(orders.latency(f"customer-{number % _FIRST:08d}"))
        orders.close()
    return Idle({kind: (after[kind] - before[kind]) / took for kind in after}, latencies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="without a record")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds before that: the JVM still compiles")
    parser.add_argument("--records", type=int, default=30, help="single ones, after that")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--empty", action="store_true", help="no record at all before the minute")
    parser.add_argument("--against", type=Path, help="another checkout of the project, measured in turn")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    sides = {"here": None} | ({} if options.against is None else {str(options.against): options.against})
    found: dict[str, list[Idle]] = {side: [] for side in sides}
    for run in range(options.runs):
        for side, checkout in sides.items():
            found[side].append(measure(options, checkout, f"idle-{run}"))
            print(f"run {run + 1}  {side}: {found[side][-1]}  (load {os.getloadavg()[0]:.1f})", flush=True)
    for side, runs in found.items():
        latencies = [latency for run in runs for latency in run.latencies]
        total = statistics.median(run.total for run in runs)
        print(f"median {side}: {total:.1%} of a core, single records {statistics.median(latencies) * 1000:.0f} ms")
    if options.against is not None:
        here, there = found["here"], found[str(options.against)]
        cpu = [ours.total / theirs.total for ours, theirs in zip(here, there, strict=True)]
        late = [
            statistics.median(ours.latencies) / statistics.median(theirs.latencies)
            for ours, theirs in zip(here, there, strict=True)
        ]
        print(
            f"here against {options.against}: {statistics.median(cpu):.2f}x CPU ({min(cpu):.2f} to {max(cpu):.2f}), "
            f"{statistics.median(late):.2f}x latency ({min(late):.2f} to {max(late):.2f})"
        )


if __name__ == "__main__":
    main()
