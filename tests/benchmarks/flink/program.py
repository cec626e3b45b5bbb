"""Flink's side of a comparison: its jars, a job in SQL, a run of it.

Everything runs in one JVM, as its documentation starts a job locally: RocksDB with incremental checkpoints,
exactly-once, mini-batches as its guide to tuning SQL sets them.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_provider.jars.jar_sets import Coordinate, resolve
from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.kafka_streams.program import Program, Started, compiled

__all__ = ["flink_job", "flink_program", "table"]

_CONNECTOR = Coordinate("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")
_STOP_S = 60.0
_OPENED = ("lang", "net", "io", "nio", "util", "util.concurrent", "time", "text")
"""What Flink's own scripts open to it (`env.java.opts.all`)."""


def flink_program(lib: Path, folder: Path) -> Program:
    """What runs statements, compiled into a folder.

    Args:
        lib: the folder of Flink's own jars, ``pyflink/lib`` of the package `apache-flink-libraries`.

    Raises:
        SystemExit: there are no jars or no Java compiler, or it refused the program.
    """
    jars = sorted(lib.glob("*.jar"))
    if not jars:
        raise SystemExit(f"There are no jars in {lib}: unpack apache-flink-libraries, and name its pyflink/lib.")
    return compiled(Path(__file__).parent, (*jars, *resolve([_CONNECTOR])), folder)


@contextlib.contextmanager
def flink_job(
    program: Program, folder: Path, checkpoint_ms: int, threads: int, statements: Sequence[str], *, heap: str = "2g"
) -> Iterator[Started]:
    """Statements in a JVM that runs until it is left, and is then killed.

    Args:
        folder: of its state and checkpoints.
        checkpoint_ms: the time from one checkpoint to the next.
        threads: its parallelism.
        heap: the largest heap.
    """
    settings = {
        "parallelism.default": threads,
        "taskmanager.numberOfTaskSlots": threads,
        "taskmanager.memory.managed.size": "512m",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "execution.checkpointing.interval": f"{checkpoint_ms}ms",
        "io.tmp.dirs": str(folder),
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": f"{min(checkpoint_ms, 5000)}ms",
        "table.exec.mini-batch.size": 5000,
        "table.local-time-zone": "UTC",
    }
    folder.mkdir(parents=True, exist_ok=True)
    opened = (f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED)
    command = [str(program.java), f"-Xmx{heap}", *opened, "-cp", program.class_path, "Sql"]
    process = subprocess.Popen([*command, *(f"{name}={value}" for name, value in settings.items()), *statements])
    try:
        yield Started("Flink", process)
    finally:
        process.kill()  # there is nothing to leave in order, and it is not measured
        process.wait(_STOP_S)


def table(name: str, columns: str, connection: KafkaConnection, topic: str, group: str, **options: object) -> str:
    """A table over a topic.

    Args:
        columns: in Flink's SQL.
        options: of the connector, with ``__`` for a point and ``_`` for a dash; ``connector`` among them.
    """
    given = {
        "topic": topic,
        "properties.bootstrap.servers": connection.bootstrap_servers,
        "properties.group.id": group,
        **{option.replace("__", ".").replace("_", "-"): value for option, value in options.items()},
    }
    listed = ", ".join(f"'{option}' = '{value}'" for option, value in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({listed})"
