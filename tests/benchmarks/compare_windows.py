"""Orders and spending per customer and hour, some of them late: ours, and Kafka Streams' with and without its cache."""

from __future__ import annotations

import argparse

from tests.benchmarks.side_by_side import compare_case, with_options
from tests.benchmarks.timed_orders import TimedOrders


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2_000_000)
    parser.add_argument("--customers", type=int, default=50_000)
    parser.add_argument("--hours", type=int, default=24)
    options = with_options(parser, arguments)
    compare_case(
        TimedOrders(options.orders, options.customers, options.hours).case(),
        {
            "ours": lambda side, run: side.ours(run),
            "cache-on": lambda side, run: side.theirs(run),
            "cache-off": lambda side, run: side.theirs(run, statestore_cache_max_bytes=0),
        },
        options,
    )


if __name__ == "__main__":
    main()
