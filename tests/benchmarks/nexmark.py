"""Records a second and core of each query of Nexmark, exactly-once, on a real instance.

A query has a broker, topics and an instance of its own. It gets a fifth of the events first, so that its JVM compiles.
With `--slices` each slice of the events is measured, and what memory and disk the instance has after it: the curve of a
state that grows. The records are those of the topics that the query reads.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_provider.common.files import folder_bytes
from tests.benchmarks.cluster import broker
from tests.benchmarks.figures import Figures
from tests.benchmarks.nexmark_sides import measured, ours, parts_of
from tests.nexmark.generator import Model
from tests.nexmark.queries import QUERIES

_WARM_UP = 0.2
_FIRST_S = 3
"""Nobody waits for a partition that never held a record: the first part is no longer than the watermark."""


def measure(query: str, model: Model, folder: Path, cores: int = 1, options: Sequence[str] = ()) -> Figures:
    """All events but the first fifth, by a new application."""
    with broker(folder / "kafka") as connection, ours(query, connection, folder, cores, options) as side:
        *_, found = measured(side, parts_of(model, ends(model)))
        return found


def ends(model: Model) -> list[int]:
    """Of the parts of which the last is measured."""
    warm_up = int(model.events * _WARM_UP)
    return [min(_FIRST_S * model.rate, warm_up // 2), warm_up, model.events]


def curve(query: str, model: Model, folder: Path, slices: int, options: Sequence[str]) -> Iterator[str]:
    """A line for each slice of the events."""
    first = min(_FIRST_S * model.rate, model.events // slices // 2)
    bounds = [first, *(model.events * number // slices for number in range(1, slices + 1))]
    with broker(folder / "kafka") as connection, ours(query, connection, folder, options=options) as side:
        for end, found in zip(bounds, measured(side, parts_of(model, bounds)), strict=True):
            memory = ", ".join(f"{kind} {size / 1e6:,.0f} MB" for kind, size in sorted(side.resident_bytes().items()))
            yield f"{end:11,} events: {found}; resident: {memory}; stores {folder_bytes(side.state) / 1e6:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="some of them, such as q5; default all")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--slices", type=int, help="how many slices are measured, each by itself; default none")
    parser.add_argument("--store-mb", type=int, help="of a task's block cache and write buffers; default the product's")
    arguments = parser.parse_args()
    model = Model(events=arguments.events, seed=1, rate=arguments.rate)
    options = [] if arguments.store_mb is None else ["--store-mb", str(arguments.store_mb)]
    for query in arguments.queries or QUERIES:
        with tempfile.TemporaryDirectory() as name:
            if arguments.slices is None:
                print(f"{query:4} {measure(query, model, Path(name), options=options)}", flush=True)
                continue
            for line in curve(query, model, Path(name), arguments.slices, options):
                print(f"{query:4} {line}", flush=True)


if __name__ == "__main__":
    main()
