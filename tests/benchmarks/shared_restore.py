"""Restore of one partition in a real instance with as many cores: alone, and shared by several Spark tasks.

Alone it is the slot's Python worker that reads and writes; fetching and RocksDB's flushes run beside it in threads of
their own, so that it occupies more than one core already. Shared, Spark tasks write table files, which it takes over.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.status import TaskState
from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks import restore
from tests.benchmarks.cluster import broker, cpu_seconds, instance, make_topics
from tests.benchmarks.figures import Figures, compare

_JOB = Path(__file__).parent / "shared_restore_job.py"
_DEADLINE_S = 300.0


def measure(connection: KafkaConnection, application: str, folder: Path, cores: int) -> Figures:
    """From when the task is taken until its store is whole, as the instance reports; CPU of its Python workers."""
    with instance(connection, application, _JOB, folder, f"local[{cores}]") as (launched, reader):
        before, deadline = 0.0, time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            reader.poll(0.1)
            task = reader.view.statuses["bench"].task(TaskId(0, 0))
            if task is not None and task.state is TaskState.RUNNING:
                return Figures(
                    task.restore.records, task.restore.took_s, cpu_seconds(launched.launcher_pid)["worker"] - before
                )
        raise RuntimeError(f"the store was not whole within {_DEADLINE_S:g} s; the log is {launched.log_file}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--record-bytes", type=int, default=116, help="key and value together")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker(folder / "kafka") as connection:

            def side(parallelism: int) -> Callable[[int], Figures]:
                application = f"restore-{parallelism}"
                make_topics(connection, application, 1, "source")
                restore.fill(connection, options.records, options.keys, options.record_bytes, application=application)

                def run(number: int) -> Figures:
                    own = folder / f"{application}-{number}"
                    try:
                        return measure(connection, application, own, options.cores)
                    finally:
                        shutil.rmtree(own, ignore_errors=True)

                return run

            compare({"shared": side(options.cores), "alone": side(1)}, options.runs)


if __name__ == "__main__":
    main()
