"""Aggregates per customer, words and hourly windows: ours, and Flink's SQL with checkpoints a second and ten apart.

Flink is no dependency of the project: what it needs is named with ``--flink``, see the README beside this file.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.case import Case, Side
from tests.benchmarks.customer_orders import CustomerOrders
from tests.benchmarks.figures import Figures
from tests.benchmarks.flink.program import flink_job, flink_program, table
from tests.benchmarks.kafka_streams.program import Program
from tests.benchmarks.side_by_side import SideBySide, compare_case, with_options
from tests.benchmarks.timed_orders import TimedOrders
from tests.benchmarks.words import Words

_READS = {"scan__startup__mode": "earliest-offset", "properties__isolation__level": "read_committed"}
_WRITES = {
    "sink__delivery_guarantee": "exactly-once",
    "sink__parallelism": 1,
    "properties__transaction__timeout__ms": 600_000,
}
_UPSERTS = {"connector": "upsert-kafka", "key__format": "raw", "value__format": "json"} | _WRITES


@dataclass(frozen=True, kw_only=True)
class Query:
    """A job in SQL.

    Args:
        source: the columns of its source.
        format: of the source's values.
        sink: the columns of its sink.
        writes: options of the sink.
        select: what is written there.
    """

    source: str
    format: str = "json"
    sink: str
    writes: Mapping[str, object]
    select: str

    def statements(self, connection: KafkaConnection, name: str, source: str, sink: str) -> Sequence[str]:
        """Two tables, and the job between them."""
        reads = _READS | {"connector": "kafka", "format": self.format}
        writes = {**self.writes, "sink__transactional_id_prefix": name}
        return (
            table("source", self.source, connection, source, name, **reads),
            table("sink", self.sink, connection, sink, name, **writes),
            f"INSERT INTO sink {self.select}",
        )


AGGREGATE = Query(
    source="customer STRING, amount BIGINT",
    sink="customer STRING, orders BIGINT, spent BIGINT, largest BIGINT, PRIMARY KEY (customer) NOT ENFORCED",
    writes=_UPSERTS,
    select="SELECT customer, COUNT(*), SUM(amount), MAX(amount) FROM source GROUP BY customer",
)
WORDS = Query(
    source="line STRING",
    format="raw",
    sink="word STRING, `count` BIGINT, PRIMARY KEY (word) NOT ENFORCED",
    writes=_UPSERTS,
    select=(
        "SELECT word, COUNT(*) FROM source "
        "CROSS JOIN UNNEST(REGEXP_EXTRACT_ALL(LOWER(line), '([a-z]+)', 1)) AS t (word) GROUP BY word"
    ),
)
WINDOWS = Query(
    source=(
        "customer STRING, amount BIGINT, `at` BIGINT, ts AS TO_TIMESTAMP_LTZ(`at`, 3), "
        "WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE"
    ),
    sink="customer STRING, `start` TIMESTAMP(3), orders BIGINT, spent BIGINT",
    writes={"connector": "kafka", "format": "json", "json__timestamp_format__standard": "ISO-8601", **_WRITES},
    select=(
        "SELECT customer, window_start, COUNT(*), SUM(amount) "
        "FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY customer, window_start, window_end"
    ),
)
"""Written once a window is over, as Flink's windows are; ours writes what each micro-batch makes of them, too."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flink", type=Path, required=True, help="the folder of Flink's jars, pyflink/lib")
    parser.add_argument("--cases", nargs="+", choices=_CASES, default=list(_CASES))
    options = with_options(parser, arguments)
    with tempfile.TemporaryDirectory() as folder:
        program = flink_program(options.flink, Path(folder))
        for name in options.cases:
            make, query, arguments_of_ours = _CASES[name]
            print(name, flush=True)
            compare_case(
                make(),
                {
                    "ours": functools.partial(_ours, arguments_of_ours),
                    "flink-1s": functools.partial(_flink, program, query, 1_000),
                    "flink-10s": functools.partial(_flink, program, query, 10_000),
                },
                options,
            )


_CASES: Final[Mapping[str, tuple[Callable[[], Case], Query, Sequence[str]]]] = {
    "aggregate": (lambda: CustomerOrders(2_000_000, 200_000).spent(), AGGREGATE, ()),
    "words": (lambda: Words(10_000_000, 200_000, 1.0).case(), WORDS, ("combined",)),
    "windows": (lambda: TimedOrders(2_000_000, 50_000, 24).case(), WINDOWS, ()),
}


def _ours(arguments: Sequence[str], side: SideBySide, run: int) -> Figures:
    return side.ours(run, *arguments)


def _flink(program: Program, query: Query, checkpoint_ms: int, side: SideBySide, run: int) -> Figures:
    name = f"flink-{checkpoint_ms}-{run}"
    side.make_topics(name)
    topics = (f"{name}-{part}" for part in (side.case.source, side.case.sink))
    statements = query.statements(side.connection, name, *topics)
    with flink_job(program, side.folder / name, checkpoint_ms, side.cores, statements) as jvm:
        return side.measured(name, Side.FLINK, lambda: {"jvm": jvm.cpu_seconds()}, jvm.check)


if __name__ == "__main__":
    main()
