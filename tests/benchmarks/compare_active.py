"""The active step: ours against Kafka Streams under exactly-once, over one source topic on one broker.

Both leave out what the JVM compiles in: ours the first micro-batch, Kafka Streams a fifth of the records, which is as
much. Both end when the last record is committed. Kafka Streams without its cache writes a row an order, with it a row
a key and commit (100 ms); ours writes a row a key and micro-batch.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.active_step import SINK, SOURCE, measure, published
from tests.benchmarks.figures import Figures, compare
from tests.benchmarks.kafka_streams.program import Program

_WARM_UP = 0.2


def kafka_streams(
    program: Program,
    connection: KafkaConnection,
    folder: Path,
    orders: int,
    threads: int,
    cache: bool,
    tuning: dict[str, str],
) -> Figures:
    """A new application in one JVM with `threads` stream threads."""
    settings: dict[str, object] = {
        "source": SOURCE,
        "sink": SINK,
        "records": orders,
        "skip": int(orders * _WARM_UP),
        "cache": str(cache).lower(),
        "application.id": f"kafka-streams-{time.time_ns()}",
        "bootstrap.servers": connection.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(folder),
        "num.stream.threads": threads,
        "auto.offset.reset": "earliest",
    }
    return program.run("Active", settings | tuning)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2_000_000)
    parser.add_argument("--customers", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=1, help="stream threads of theirs, Spark cores of ours")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--tuning", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Kafka Streams; its defaults else"
    )
    options = parser.parse_args(arguments)
    tuning = dict(setting.split("=", 1) for setting in options.tuning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "classes").mkdir()
        program = Program.compile(folder / "classes")
        with published(folder, options.orders, options.customers) as connection:

            def theirs(cache: bool) -> Callable[[int], Figures]:
                return lambda run: kafka_streams(
                    program, connection, folder / f"{cache}-{run}", options.orders, options.threads, cache, tuning
                )

            def ours(run: int) -> Figures:
                return measure(connection, folder / f"ours-{run}", f"orders-{run}", options.orders, options.threads)[0]

            sides = {
                "ours": ours,
                "Kafka Streams, cache off": theirs(False),
                "Kafka Streams, cache on": theirs(True),
            }
            compare(sides, options.runs)


if __name__ == "__main__":
    main()
