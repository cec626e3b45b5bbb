"""The active step: records a second and CPU a record, exactly-once, on one Spark core.

The first micro-batch, in which the JVM compiles, is left out of the figures and named apart.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.cluster import broker, cpu_seconds, instance, make_topics, publish_orders
from tests.benchmarks.figures import Figures, median
from tests.benchmarks.orders_job import JOBS

TASKS = 4
SOURCE, SINK = "orders", "spent"


@contextlib.contextmanager
def published(folder: Path, orders: int, customers: int) -> Iterator[KafkaConnection]:
    """A broker with the orders on it, for any number of applications."""
    with broker(folder / "kafka") as connection:
        make_topics(connection, "orders", TASKS, SOURCE, SINK)
        publish_orders(connection, SOURCE, orders, customers)
        yield connection


def measure(
    connection: KafkaConnection,
    folder: Path,
    application_id: str,
    orders: int,
    cores: int = 1,
    arguments: Sequence[str] = (),
) -> tuple[Figures, dict[str, float]]:
    """All micro-batches but the first of a new application; and CPU us a record by process.

    Args:
        arguments: of the job's file, behind the application's id.
    """
    make_topics(connection, application_id, TASKS, SOURCE, SINK)
    job = Path(__file__).with_name("orders_job.py")
    with instance(connection, application_id, job, folder, f"local[{cores}]", arguments=arguments) as (
        launched,
        reader,
    ):
        samples: list[tuple[float, int, dict[str, float]]] = []
        while not samples or samples[-1][1] < orders:
            reader.poll(0.05)
            done = sum(task.processed_records for task in reader.view.statuses["bench"].tasks)
            if done and (not samples or done != samples[-1][1]):
                samples.append((time.monotonic(), done, cpu_seconds(launched.launcher_pid)))
    if len(samples) < 2:
        raise ValueError(f"All {orders:,} orders were done in the first micro-batch, which is left out: give more.")
    (t0, n0, cpu0), (t1, n1, cpu1) = samples[0], samples[-1]
    used = {kind: cpu1[kind] - cpu0[kind] for kind in cpu1}
    figures = Figures(n1 - n0, t1 - t0, sum(used.values()))
    return figures, {kind: seconds / figures.records * 1e6 for kind, seconds in used.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2_000_000)
    parser.add_argument("--customers", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--jobs", nargs="+", default=["plain"], choices=[*JOBS, *(f"{name}/spark-reads" for name in JOBS)],
        help="measured in turn in each run",
    )  # fmt: skip
    asked = parser.parse_args()
    results: dict[str, list[Figures]] = {job: [] for job in asked.jobs}
    with tempfile.TemporaryDirectory() as name, published(Path(name), asked.orders, asked.customers) as connection:
        for run, job in itertools.product(range(asked.runs), asked.jobs):
            id_ = f"{job.replace('/', '-')}-{run}"
            figures, parts = measure(connection, Path(name) / id_, id_, asked.orders, arguments=job.split("/"))
            results[job].append(figures)
            split = ", ".join(f"{kind} {value:.1f}" for kind, value in parts.items())
            print(f"{job}, run {run + 1}: {figures} ({split})", flush=True)
    for job, of_job in results.items():
        print(f"{job}, median of {len(of_job)}: {median(of_job)}")


if __name__ == "__main__":
    main()
