"""Restore of a cold store: ours against Kafka Streams', from one changelog on one broker.

quixstreams joins in where it is installed.

Both read the same topic, committed records only. Kafka Streams is measured from the first partition's start of
restoration to the last one's end, in a JVM of its own for each run; ours from opening the store to a lag of nothing,
in a process that has loaded its modules.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks import restore
from tests.benchmarks.cluster import broker, make_topics
from tests.benchmarks.figures import Figures, compare
from tests.benchmarks.kafka_streams.program import Program
from tests.benchmarks.quix import side as quix

_APPLICATION, _SOURCE = "restore", "source"
_START_TIMEOUT_S = 120.0
_barrier: Barrier | None = None


def _loaded(barrier: Barrier) -> None:
    global _barrier  # a barrier can only be inherited by a process
    _barrier = barrier


def _restore(connection: KafkaConnection, folder: Path, tasks: tuple[int, ...]) -> Figures:
    assert _barrier is not None
    _barrier.wait(_START_TIMEOUT_S)
    return restore.restore(connection, folder, tasks)


def ours(connection: KafkaConnection, folder: Path, partitions: int, threads: int) -> Figures:
    """Restore in `threads` processes at once, as many Spark cores do: records of all, seconds of the slowest."""
    spawn = multiprocessing.get_context("spawn")
    slots = [tuple(range(slot, partitions, threads)) for slot in range(min(threads, partitions))]
    with ProcessPoolExecutor(len(slots), spawn, _loaded, (spawn.Barrier(len(slots)),)) as pool:
        runs = [
            done.result()
            for done in [
                pool.submit(_restore, connection, folder / f"slot-{slot}", tasks) for slot, tasks in enumerate(slots)
            ]
        ]
    return Figures(
        sum(run.records for run in runs), max(run.seconds for run in runs), sum(run.cpu_seconds for run in runs)
    )


def kafka_streams(
    program: Program, connection: KafkaConnection, folder: Path, partitions: int, threads: int, tuning: dict[str, str]
) -> Figures:
    """Restore in one JVM with `threads` stream threads, each with its restoring thread."""
    settings: dict[str, object] = {
        "source": _SOURCE,
        "partitions": partitions,
        "application.id": _APPLICATION,  # its store's changelog then has the name of ours
        "bootstrap.servers": connection.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(folder),
        "num.stream.threads": threads,
    }
    return program.run("Restore", settings | tuning)


def by_quix(python: str, connection: KafkaConnection, options: argparse.Namespace) -> Callable[[Path], Figures]:
    """Restores by quixstreams, from a changelog of as many records in its own format."""
    group = f"quix-{_APPLICATION}"
    quix.fill(connection, group, _SOURCE, options.records, options.keys, options.record_bytes)
    return lambda state: quix.restore(python, connection, group, _SOURCE, state, options.records)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="of all partitions together")
    parser.add_argument("--keys", type=int, default=2_000_000, help="of all partitions together")
    parser.add_argument("--record-bytes", type=int, default=116, help="key and value together")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--tuning", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Kafka Streams; its defaults else"
    )
    parser.add_argument("--quixstreams", metavar="PYTHON", help="a Python that has quixstreams; for one partition")
    options = parser.parse_args(arguments)
    tuning = dict(setting.split("=", 1) for setting in options.tuning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "classes").mkdir()
        program = Program.compile(folder / "classes")
        with broker(folder / "kafka") as connection:
            make_topics(connection, _APPLICATION, options.partitions, _SOURCE)
            for task in range(options.partitions):
                share = options.records // options.partitions, options.keys // options.partitions
                restore.fill(connection, *share, options.record_bytes, task)

            def on_cold_disk(side: str, measure: Callable[[Path], Figures]) -> Callable[[int], Figures]:
                def run(number: int) -> Figures:
                    state = folder / f"{side}-{number}"
                    try:
                        return measure(state)
                    finally:
                        shutil.rmtree(state, ignore_errors=True)

                return run

            spread = options.partitions, options.threads
            sides = {
                "ours": on_cold_disk("ours", lambda state: ours(connection, state, *spread)),
                "Kafka Streams": on_cold_disk(
                    "kafka-streams", lambda state: kafka_streams(program, connection, state, *spread, tuning)
                ),
            }
            python = quix.interpreter(options.quixstreams) if options.partitions == 1 else None
            if python is None:
                print("quixstreams is left out: it is not installed, or there are several partitions.", flush=True)
            else:
                sides["quixstreams"] = on_cold_disk("quixstreams", by_quix(python, connection, options))
            compare(sides, options.runs)


if __name__ == "__main__":
    main()
