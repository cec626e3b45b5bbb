"""Queries of Nexmark: ours, and Kafka Streams' where its DSL has them; records a second of a core, and the ratio."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.cluster import broker
from tests.benchmarks.figures import Figures, compare
from tests.benchmarks.kafka_streams.program import Program
from tests.benchmarks.nexmark import ends
from tests.benchmarks.nexmark_sides import SIDE_INPUT, THEIRS, Running, measured, ours, parts_of, theirs
from tests.benchmarks.nexmark_table import row_of, with_rows
from tests.benchmarks.side_by_side import read_all, with_options
from tests.nexmark.generator import CLOSING_ID, Model
from tests.nexmark.queries import QUERIES
from tests.nexmark.results import Row, differences, rows_of

_DAY_MS: Final = 86_400_000
_MOST_CLOSINGS: Final = 30
_STEP_MS: Final = 10_000
"""Between two closings: behind an internal topic Kafka Streams drops what lies further back than it waits for."""
_NAMED: Final = ("auction", "bidder", "id")
"""Columns that say whose a row is: one of them is what a closing event is of."""

Side = Callable[[str, KafkaConnection, Path], AbstractContextManager[Running]]


def _run(query: str, model: Model, side: Side, expected: list[Row] | None, number: int) -> Figures:
    """On a broker of its own, whatever its number is."""
    with (
        tempfile.TemporaryDirectory() as name,
        broker(Path(name) / "kafka") as connection,
        side(query, connection, Path(name) / query) as running,
    ):
        *_, found = measured(running, parts_of(model, ends(model)))
        if expected is not None:
            _check(query, model, running, expected)
        return found


def _check(query: str, model: Model, side: Running, expected: list[Row]) -> None:
    """Close what is open, step by step, until it is all there.

    Raises:
        AssertionError: what came out is something else, and some more closings did not change it.
    """
    wrong = ""
    for number in range(_MOST_CLOSINGS):
        records = [(key.decode(), json.loads(value)) for key, value in read_all(side.connection, side.sink)]
        if side.corrects:
            records = list(dict(records).items())
        found = [row for row in rows_of(query, records) if not _of_closing(row)]
        if not (wrong := differences(expected, found)):
            return
        closing = model.closing(later_ms=(number + 1) * _STEP_MS - _DAY_MS)
        list(measured(side, [closing], name=f"closing-{number}"))
    raise AssertionError(f"{query} came to something else than SQL: {wrong}")


def _of_closing(row: Row) -> bool:
    return any(int(row[name]) >= CLOSING_ID for name in _NAMED if name in row)


def _expected(queries: list[str], model: Model) -> dict[str, list[Row]]:
    """What batch SQL comes to, by Spark, which is imported only for that."""
    from airflow_provider.testing.source_rows import local_spark
    from tests.nexmark.oracle import Oracle

    spark = local_spark()
    try:
        oracle = Oracle(spark, [*SIDE_INPUT, *itertools.chain.from_iterable(parts_of(model, ends(model)))])
        return {query: oracle.rows(query) for query in queries}
    finally:
        spark.stop()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="some of them, such as q5; default all")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the results with SQL; with --rate 1000 or less, no times are equal",
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the medians into the table of docs/nexmark.md")
    options = with_options(parser, arguments)
    model = Model(events=options.events, seed=1, rate=options.rate)
    queries = options.queries or list(QUERIES)
    expected: Mapping[str, list[Row]] = _expected(queries, model) if options.check else {}
    with tempfile.TemporaryDirectory() as name:
        program = Program.compile(Path(name))
        sides: dict[str, Side] = {
            "ours": functools.partial(ours, cores=options.threads),
            "Kafka Streams": functools.partial(theirs, program=program, cores=options.threads),
        }
        for query in queries:
            print(f"== {query}", flush=True)
            chosen = [side for side in options.only or sides if side == "ours" or query in THEIRS]
            runs = {side: functools.partial(_run, query, model, sides[side], expected.get(query)) for side in chosen}
            found = compare(runs, options.runs) if runs else {}
            if options.write is not None:
                row = row_of(query, found.get("ours", ()), found.get("Kafka Streams", ()))
                options.write.write_text(with_rows(options.write.read_text(), {query: row}))


if __name__ == "__main__":
    main()
