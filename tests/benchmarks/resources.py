"""What an instance with 64 active tasks holds: threads, sockets, open files, Kafka clients, memory; and its heartbeats.

Then one order comes for each task, again and again: the time until the last of them has come out says what it costs
that the commits of a slot follow each other.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import psutil

from airflow_provider.control.records.task_state import TaskState
from airflow_provider.control.topics.codec import to_value
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.kafka.names import status_topic
from tests.benchmarks.cluster import broker, instance, kind_of, make_topics
from tests.benchmarks.orders import SINK, SOURCE, Orders

T = TypeVar("T")

_JOB: Final = Path(__file__).parent / "latency_job.py"
_APPLICATION: Final = "resources"
_CUSTOMERS_A_TASK: Final = 50
_SETTLE_S: Final = 20.0
_HEARTBEATS_S: Final = 20.0
_FIGURES: Final = ("processes", "threads", "clients", "handles", "sockets", "MB")


def held(pid: int) -> dict[str, collections.Counter[str]]:
    """By kind of process below a launcher: what all of that kind hold together.

    ``handles`` are all open files, the ``sockets`` among them; ``clients`` those of librdkafka, each of which has one
    thread of the name that is counted.
    """
    found = {kind: collections.Counter[str]() for kind in ("jvm", "driver", "worker")}
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            folder = Path(f"/proc/{process.pid}")
            names = [name for task in (folder / "task").iterdir() if (name := _known(task.joinpath("comm").read_text))]
            links = [link for file in (folder / "fd").iterdir() if (link := _known(file.readlink))]
            found[kind_of(process)].update(
                processes=1,
                threads=len(names),
                clients=names.count("rdk:main\n"),
                handles=len(links),
                sockets=sum(link.name.startswith("socket:") for link in links),
                MB=process.memory_info().rss >> 20,
            )
    return found


def _known(read: Callable[[], T]) -> T | None:
    """None of a thread or a file that ends meanwhile."""
    try:
        return read()
    except OSError:
        return None


def table(found: Mapping[str, Mapping[str, int]]) -> str:
    """A line for each kind of process, and their sum."""
    total = collections.Counter[str]()
    for figures in found.values():
        total.update(figures)
    lines = ["".join(f"{word:>11}" for word in ("", *_FIGURES))]
    for kind, figures in {**found, "all": total}.items():
        lines.append(f"{kind:>11}" + "".join(f"{figures.get(word, 0):>11,}" for word in _FIGURES))
    return "\n".join(lines)


def heartbeats(reader: ControlReader, logs: Path) -> str:
    """What the heartbeats of some seconds come to, as they are and as the broker stores them."""

    def stored() -> int:
        return sum(path.stat().st_size for path in logs.glob(f"**/{status_topic(_APPLICATION)}-0/*.log"))

    before, begun, count, size, last = stored(), time.monotonic(), 0, 0, 0
    while (took := time.monotonic() - begun) < _HEARTBEATS_S:
        reader.poll(0.1)
        status = reader.view.statuses["bench"]
        if status.sent_at_ms != last:
            count, size, last = count + 1, size + len(to_value(status) or b""), status.sent_at_ms
    stored_bytes = stored() - before
    return (
        f"{count / took:.1f} heartbeats/s of {size / count / 1024:.1f} KiB; "
        f"stored {stored_bytes / took / 1024:.1f} KiB/s"
    )


def until_running(reader: ControlReader, tasks: int) -> None:
    """Until every task may process."""
    while sum(task.state is TaskState.RUNNING for task in reader.view.statuses["bench"].tasks) < tasks:
        reader.poll(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10, help="of one order for each task")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, broker(Path(name) / "kafka") as connection:
        make_topics(connection, _APPLICATION, options.tasks, SOURCE, SINK)
        orders = Orders(connection, options.tasks)
        with instance(connection, _APPLICATION, _JOB, Path(name), f"local[{options.cores}]") as (launched, reader):
            until_running(reader, options.tasks)
            customers = orders.fill(_CUSTOMERS_A_TASK * options.tasks)
            time.sleep(_SETTLE_S)
            print(f"{options.tasks} active tasks on {options.cores} cores")
            print(table(held(launched.launcher_pid)))
            print(heartbeats(reader, Path(name) / "kafka"))
            took = []
            for _ in range(options.rounds):
                begun = time.monotonic()
                orders.send(list(customers.values()))
                took.append(time.monotonic() - begun)
            print(
                f"one order for each of {len(customers)} tasks: all of them out after {statistics.median(took):.2f} s "
                f"({min(took):.2f} to {max(took):.2f}; load {os.getloadavg()[0]:.1f})"
            )
        orders.close()


if __name__ == "__main__":
    main()
