"""The active step: records a second and CPU a record, exactly-once, on one Spark core.

The first micro-batch, in which the JVM compiles, is left out of the figures and named apart.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.benchmarks.cluster import broker, cpu_seconds, instance, make_topics, publish_orders

_TASKS = 4


def measure(orders: int, customers: int) -> tuple[float, float, dict[str, float]]:
    """Records a second, CPU us a record, and that by process, over all micro-batches but the first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker(folder / "kafka") as connection:
            make_topics(connection, "orders", _TASKS, "orders", "spent")
            publish_orders(connection, "orders", orders, customers)
            job = Path(__file__).with_name("orders_job.py")
            with instance(connection, "orders", job, folder, "local[1]") as (launched, reader):
                samples: list[tuple[float, int, dict[str, float]]] = []
                while not samples or samples[-1][1] < orders:
                    reader.poll(0.05)
                    done = sum(task.processed_records for task in reader.view.statuses["bench"].tasks)
                    if done and (not samples or done != samples[-1][1]):
                        samples.append((time.monotonic(), done, cpu_seconds(launched.launcher_pid)))
    (t0, n0, cpu0), (t1, n1, cpu1) = samples[0], samples[-1]
    by_process = {kind: (cpu1[kind] - cpu0[kind]) / (n1 - n0) * 1e6 for kind in cpu1}
    return (n1 - n0) / (t1 - t0), sum(by_process.values()), by_process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2_000_000)
    parser.add_argument("--customers", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    results = []
    for run in range(arguments.runs):
        rate, cpu, parts = measure(arguments.orders, arguments.customers)
        results.append((rate, cpu))
        split = ", ".join(f"{kind} {value:.1f}" for kind, value in parts.items())
        print(f"run {run + 1}: {rate:,.0f} records/s, {cpu:.1f} us CPU a record ({split})", flush=True)
    rates, cpus = zip(*results, strict=True)
    print(f"median of {len(results)}: {statistics.median(rates):,.0f} records/s, {statistics.median(cpus):.1f} us CPU")


if __name__ == "__main__":
    main()
