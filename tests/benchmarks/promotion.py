"""Promotion of a warm standby with one time and with ten times the state: from the new plan to a task that may process.

It costs the lag and a fencing, never the size of the state. What comes before it in a failover (detection, decision)
and after it (the first micro-batch) does not see the state's size at all.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from pathlib import Path

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.records.task_state import Role, TaskState
from airflow_provider.streaming.worker.slot import Slot
from airflow_provider.streaming.worker.tasks.plan import SlotPlan, TaskPlan
from tests.benchmarks.cluster import broker, make_topics
from tests.benchmarks.restore import fill, plan_of

_SMALL, _LARGE = 0, 1


def promote(slot: Slot, plan: SlotPlan, task: int, generation: int) -> float:
    """Seconds until the task may process."""
    tasks = tuple(
        TaskPlan(task=TaskId(0, number), role=Role.ACTIVE if number == task else Role.STANDBY, generation=generation)
        for number in (_SMALL, _LARGE)
    )
    asked, begun = dataclasses.replace(plan, tasks=tasks), time.monotonic()
    while slot.call(asked, (), False)[task].state is not TaskState.RUNNING:
        pass
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=200_000, help="of the small state; the large one has ten times")
    parser.add_argument("--record-bytes", type=int, default=116, help="key and value together")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    took: dict[int, list[float]] = {_SMALL: [], _LARGE: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker(folder / "kafka") as connection:
            make_topics(connection, "restore", 2, "source")
            for task, keys in ((_SMALL, options.keys), (_LARGE, 10 * options.keys)):
                fill(connection, keys, keys, options.record_bytes, task)
            plan = plan_of(connection, folder, (_SMALL, _LARGE))
            slot = Slot(plan)
            while any(status.lag_records != 0 for status in slot.call(plan, (), False)):
                pass
            for run in range(options.runs):
                for task in took:  # in turn, so that a busy minute meets both
                    took[task].append(promote(slot, plan, task, 2 + 2 * run + task))
            slot.close()
    small, large = (statistics.median(took[task]) for task in (_SMALL, _LARGE))
    print(f"{options.keys:,} keys: median {small * 1000:.0f} ms of {options.runs}; ", end="")
    print(f"{10 * options.keys:,} keys: {large * 1000:.0f} ms; {large / small:.2f}x (load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
