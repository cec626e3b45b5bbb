"""Ten applications on one host, each with an instance of its own and 200 orders a second: CPU, memory, latency.

Memory is the proportional set size: what processes share counts once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from tests.benchmarks.active_step import TASKS
from tests.benchmarks.cluster import broker, by_kind, cpu_seconds, instance, make_topics
from tests.benchmarks.latency import collect, produce

_JOB: Final = Path(__file__).with_name("latency_job.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=10)
    parser.add_argument("--rate", type=int, default=200, help="orders a second, of each")
    parser.add_argument("--settle", type=float, default=120.0, help="seconds left out: the JVMs compile")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        connection = stack.enter_context(broker(folder / "kafka"))
        launchers, sources, sinks = list[int](), list[str](), list[str]()
        for number in range(options.applications):
            name = f"app-{number}"
            source, sink = f"{name}-orders", f"{name}-newest"
            make_topics(connection, name, TASKS, source, sink)
            launched, _ = stack.enter_context(
                instance(connection, name, _JOB, folder / name, "local[1]", arguments=(source, sink))
            )
            launchers.append(launched.launcher_pid)
            sources.append(source)
            sinks.append(sink)
            print(f"{name} runs", flush=True)
        ended, latencies = threading.Event(), list[float]()
        load = (connection, options.rate, options.settle + options.seconds, 10_000, ended, sources)
        threads = [
            threading.Thread(target=produce, args=load, daemon=True),
            threading.Thread(target=collect, args=(connection, ended, latencies, sinks), daemon=True),
        ]
        for thread in threads:
            thread.start()
        time.sleep(options.settle)
        before, begun = cpu_seconds(*launchers), time.monotonic()
        latencies.clear()
        time.sleep(options.seconds - 2.0)
        after, took, memory = cpu_seconds(*launchers), time.monotonic() - begun, by_kind(_memory_mb, *launchers)
        for thread in threads:
            thread.join()
    cores = {kind: (after[kind] - before[kind]) / took for kind in after}
    p50, p99 = np.percentile(latencies, [50, 99])
    print(
        f"{options.applications} applications, {options.rate:,} orders/s each: {sum(cores.values()):.2f} cores "
        f"({', '.join(f'{kind} {share:.2f}' for kind, share in cores.items())}); {sum(memory.values()):,.0f} MB "
        f"({', '.join(f'{kind} {mb:,.0f}' for kind, mb in memory.items())}); p50 {p50:.3f} s, p99 {p99:.3f} s "
        f"(load {os.getloadavg()[0]:.1f})"
    )


def _memory_mb(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss / 2**20)


if __name__ == "__main__":
    main()
