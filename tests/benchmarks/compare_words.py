"""Word count: ours with and without combining before the repartition, and Kafka Streams' with and without its cache."""

from __future__ import annotations

import argparse

from tests.benchmarks.side_by_side import compare_case, with_options
from tests.benchmarks.words import Words


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=10_000_000)
    parser.add_argument("--vocabulary", type=int, default=200_000)
    parser.add_argument("--skew", type=float, default=1.0, help="exponent of Zipf's law")
    options = with_options(parser, arguments)
    compare_case(
        Words(options.words, options.vocabulary, options.skew).case(),
        {
            "combined": lambda side, run: side.ours(run, "combined"),
            "each-row": lambda side, run: side.ours(run, "each-row"),
            "cache-on": lambda side, run: side.theirs(run),
            "cache-off": lambda side, run: side.theirs(run, statestore_cache_max_bytes=0),
        },
        options,
    )


if __name__ == "__main__":
    main()
