"""What an instance costs while no broker answers: the CPU of its processes, and which of their threads take it.

An instance with some active tasks is left alone with its broker. Then it gets a backlog, and the broker is killed in
the middle of it. The CPU time of both, over as many seconds. With `--against` the same is measured of another checkout
of the project, in turn.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.settings import BrokerSettings
from tests.benchmarks.cluster import instance, kind_of, make_topics
from tests.benchmarks.orders import SINK, SOURCE, Orders
from tests.benchmarks.resources import held, table, until_running

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_NAMED: Final = 12

Key = tuple[str, int, int, str]
"""The kind of its process, the process, the thread, and its name."""


def thread_seconds(pid: int) -> dict[Key, float]:
    """CPU time so far of each thread of all descendants."""
    found: dict[Key, float] = {}
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            kind = kind_of(process)
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                name, _, rest = (thread / "stat").read_text().partition("(")[2].rpartition(")")
                fields = rest.split()
                found[kind, process.pid, int(thread.name), name] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found


def over(pid: int, seconds: float) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """The share of a core of each kind of process, and of each name of a thread, over some seconds."""
    before, begun = thread_seconds(pid), time.monotonic()
    time.sleep(seconds)
    after, took = thread_seconds(pid), time.monotonic() - begun
    kinds, names = collections.Counter[str](), collections.Counter[str]()
    for key, spent in after.items():
        share = (spent - before.get(key, 0.0)) / took
        kinds[key[0]] += share  # type: ignore[assignment]
        names[f"{key[0]}:{key[3].rstrip('0123456789-')}"] += share  # type: ignore[assignment]
    return kinds, names


def told(kinds: Mapping[str, float], names: collections.Counter[str]) -> str:
    """In a line or two."""
    parts = ", ".join(f"{kind} {share:.1%}" for kind, share in sorted(kinds.items()))
    most = ", ".join(f"{name} {share:.2%}" for name, share in names.most_common(_NAMED))
    return f"{sum(kinds.values()):.1%} of a core ({parts})\n      {most}"


def measure(options: argparse.Namespace, checkout: Path | None, name: str) -> None:
    """One instance on a broker of its own; prints what was found."""
    env = {} if checkout is None else {"PYTHONPATH": str(checkout.absolute())}
    job = (Path(__file__).parents[2] if checkout is None else checkout) / "tests" / "benchmarks" / "latency_job.py"
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        broker = EmbeddedBroker(BrokerSettings.on_free_ports(folder / "kafka", die_with_parent=True))
        try:
            connection = KafkaConnection(broker.start(300.0).bootstrap_servers)
            make_topics(connection, name, options.tasks, SOURCE, SINK)
            orders = Orders(connection, options.tasks)
            master = f"local[{options.cores}]"
            with instance(connection, name, job, folder, master, env=env) as (launched, reader):
                until_running(reader, options.tasks)
                orders.fill(50 * options.tasks)
                time.sleep(options.settle)
                print("with a broker: " + told(*over(launched.launcher_pid, options.seconds)), flush=True)
                orders.put(options.backlog)
                broker.kill()
                orders.close()
                time.sleep(options.after)
                print("without one:   " + told(*over(launched.launcher_pid, options.seconds)), flush=True)
                print(table(held(launched.launcher_pid)), flush=True)
                broker.start(300.0)  # else it would not end cleanly
        finally:
            broker.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--backlog", type=int, default=100_000, help="orders that are under way when the broker ends")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds before the first: the JVM still compiles")
    parser.add_argument("--after", type=float, default=60.0, help="seconds after the broker's end, before the second")
    parser.add_argument("--against", type=Path, help="another checkout of the project, measured in turn")
    options = parser.parse_args()
    sides = {"here": None} | ({} if options.against is None else {str(options.against): options.against})
    for number, (side, checkout) in enumerate(sides.items()):
        print(f"{side}, {options.tasks} tasks (load {os.getloadavg()[0]:.1f})", flush=True)
        measure(options, checkout, f"outage-{number}")


if __name__ == "__main__":
    main()
