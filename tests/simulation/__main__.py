"""Runs schedules: one by its seed, or many at once; and shows that what is broken on purpose is found."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.simulation import product


def main() -> int:
    """Run what was asked for; status 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one, and print its trace's digest")
    parser.add_argument("--trace", action="store_true", help="print the trace too")
    parser.add_argument("--logs", action="store_true", help="print what the product logs")
    parser.add_argument("--runs", type=int, default=100, help="how many schedules, of seeds that follow each other")
    given = parser.parse_args()
    product.bind(logs=given.logs)
    from tests.simulation import schedule  # it uses modules that were just bound

    if given.seed is not None:
        outcome = schedule.run(given.seed, traced=given.trace)
        print("\n".join(outcome.trace))
        print("\n".join(map(str, outcome.faults)) or "no faults")
        print(f"seed {outcome.seed}: {outcome.violation or 'every promise was kept'}; {outcome.virtual_s:.1f} s, "
              f"{outcome.steps} steps, digest {outcome.digest}")  # fmt: skip
        return 1 if outcome.violation else 0
    first = random.SystemRandom().randrange(1 << 32)
    print(f"seeds {first} to {first + given.runs - 1}", flush=True)
    broken, began = 0, time.process_time()
    for seed in range(first, first + given.runs):
        outcome = schedule.run(seed)
        if outcome.violation is not None:
            broken += 1
            print(f"seed {seed}: {outcome.violation}", flush=True)
    took_s = time.process_time() - began
    print(f"{given.runs} schedules, {broken} broken, {took_s / given.runs * 1000:.0f} ms of CPU each")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
