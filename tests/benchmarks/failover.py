"""A failover of 2, 8 and 32 warm tasks onto one instance: from the new generation to owned, and on to the first output.

Two instances share twice as many tasks, each the standby of the other's. One is killed; then records come in every
partition, so that each task has something to put out; then the other gets all tasks. Detection and Airflow's part come
before that, so they are in no figure. The times are those that the tasks report.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.control.records.status import InstanceStatus, TaskState, TaskStatus
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.cluster import broker, idle_instance, make_topics, publish
from tests.benchmarks.orders import SINK, SOURCE, Orders

_JOB: Final = Path(__file__).parent / "latency_job.py"
CUSTOMERS_A_TASK: Final = 50
_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, kw_only=True)
class Failover:
    """What one run found, in seconds.

    Args:
        owned_s: from the new generation until the last of the moved tasks was owned.
        output_s: from there until each of them had made its first commit.
        median_task_s: from when a task was owned until its first commit; the median of the moved ones.
    """

    owned_s: float
    output_s: float
    median_task_s: float

    @classmethod
    def of(cls, published_ms: int, moved: Sequence[TaskStatus]) -> Failover:
        """Of tasks that have all committed."""
        times = [(task.owned_at_ms or 0, task.first_commit_at_ms or 0) for task in moved]
        owned_ms, output_ms = max(owned for owned, _ in times), max(output for _, output in times)
        return cls(
            owned_s=(owned_ms - published_ms) / 1000,
            output_s=(output_ms - owned_ms) / 1000,
            median_task_s=statistics.median(output - owned for owned, output in times) / 1000,
        )

    def __str__(self) -> str:
        return (
            f"owned after {self.owned_s:.2f} s, first output of the last {self.output_s:.2f} s later; "
            f"a task's own {self.median_task_s:.2f} s"
        )


def until(reader: ControlReader, found: Callable[[Mapping[str, InstanceStatus]], bool], what: str) -> None:
    """Follow the statuses until `found` is true of them."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not found(reader.view.statuses):
        reader.poll(0.1)
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {_TIMEOUT_S:g} s for {what}")


def settled(statuses: Mapping[str, InstanceStatus], tasks: int, standbys: int = 1) -> bool:
    """Whether every task runs on one instance and has its warm copies on others."""
    copies = [task for status in statuses.values() for task in status.tasks]
    running, warm = sum(task.state is TaskState.RUNNING for task in copies), sum(task.ready for task in copies)
    return running == tasks and warm == standbys * tasks


def fail_over(
    connection: KafkaConnection,
    reader: ControlReader,
    application: str,
    orders: Orders,
    instances: Sequence[str],
    *,
    replicas: int,
    customers: int,
    moved: int,
) -> Failover:
    """Kill instance ``a`` and give its tasks to others.

    Args:
        instances: that live on.
        replicas: standbys of each task afterwards.
        customers: who order something in between, so that each task has something to put out.
        moved: tasks that ``a`` has.
    """
    os.killpg(os.getpgid(reader.view.statuses["a"].process.pid), signal.SIGKILL)
    until(reader, lambda statuses: not statuses["a"].state.alive, "the end of a")
    orders.put(customers)
    published_ms = now_ms()
    generation = publish(connection, application, instances, replicas)
    until(reader, lambda statuses: len(_committed(statuses, generation)) == moved, "the first outputs")
    return Failover.of(published_ms, _committed(reader.view.statuses, generation))


def _committed(statuses: Mapping[str, InstanceStatus], generation: int) -> list[TaskStatus]:
    """Tasks that were owned with this generation and have put something out."""
    tasks = (task for status in statuses.values() if status.state.alive for task in status.tasks)
    return [task for task in tasks if task.generation == generation and task.first_commit_at_ms]


def measure(moved: int, cores: int) -> Failover:
    """One failover of so many tasks, on a broker and instances of its own."""
    tasks, application = 2 * moved, f"failover-{moved}"
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        connection = stack.enter_context(broker(folder / "kafka"))
        make_topics(connection, application, tasks, SOURCE, SINK)
        orders = Orders(connection, tasks)
        stack.callback(orders.close)
        for name in ("a", "b"):
            _, reader = stack.enter_context(
                idle_instance(connection, application, name, _JOB, folder / name, f"local[{cores}]")
            )
        publish(connection, application, ["a", "b"], 1)
        orders.fill(CUSTOMERS_A_TASK * tasks)
        until(reader, lambda statuses: settled(statuses, tasks), "warm standbys")
        customers = CUSTOMERS_A_TASK * tasks
        return fail_over(connection, reader, application, orders, ["b"], replicas=0, customers=customers, moved=moved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moved", type=int, nargs="+", default=[2, 8, 32], help="how many tasks move, in turn")
    parser.add_argument("--cores", type=int, default=2, help="of each of the two instances")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    found: dict[int, list[Failover]] = {moved: [] for moved in options.moved}
    for run in range(options.runs):
        for moved in found:
            found[moved].append(measure(moved, options.cores))
            print(f"run {run + 1}  {moved:3} tasks: {found[moved][-1]}  (load {os.getloadavg()[0]:.1f})", flush=True)
    first = 0.0
    for moved, runs in found.items():
        owned, output = statistics.median(r.owned_s for r in runs), statistics.median(r.output_s for r in runs)
        first = first or output
        print(f"median {moved:3} tasks: owned {owned:.2f} s, first output {output:.2f} s later ({output / first:.1f}x)")


if __name__ == "__main__":
    main()
