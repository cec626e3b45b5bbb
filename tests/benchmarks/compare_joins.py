"""Orders joined with a table of their customers: ours, and Kafka Streams'."""

from __future__ import annotations

import argparse

from tests.benchmarks.customer_orders import CustomerOrders
from tests.benchmarks.side_by_side import compare_case, with_options


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=2_000_000)
    parser.add_argument("--customers", type=int, default=100_000)
    options = with_options(parser, arguments)
    compare_case(
        CustomerOrders(options.orders, options.customers).case(),
        {"ours": lambda side, run: side.ours(run), "Kafka Streams": lambda side, run: side.theirs(run)},
        options,
    )


if __name__ == "__main__":
    main()
