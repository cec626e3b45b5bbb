"""Runs schedules: one by its seed, or many at once; and shows that what is broken on purpose is found."""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence

from tests.simulation import product


def main() -> int:
    """Run what was asked for; status 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one alone, and print its faults and its trace's digest")
    parser.add_argument("--trace", action="store_true", help="print the trace too")
    parser.add_argument("--logs", action="store_true", help="print what the product logs")
    parser.add_argument("--shrink", action="store_true", help="find the fewest faults with which the seed breaks it")
    parser.add_argument("--runs", type=int, default=1000, help="how many schedules, of seeds that follow each other")
    parser.add_argument("--first", type=int, help="the first of those seeds; by default a fresh one")
    parser.add_argument("--only", default="", help="kinds of faults (with :WHAT in one way), with commas")
    parser.add_argument("--limit", type=float, help="seconds after which no further schedule is begun")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutations", nargs="?", const="", help="break the product in each way, or in this one")
    parser.add_argument("--kept", action="store_true", help="run the schedules that are kept, with and without")
    given = parser.parse_args()
    product.bind(logs=given.logs)
    only = tuple(filter(None, given.only.split(",")))
    # They use modules that were just bound.
    if given.seed is not None:
        return _one(given.seed, only, trace=given.trace, shrunk=given.shrink)
    from tests.simulation import schedule

    # The first one takes as long as fifteen others: once here, and not in each process that is forked.
    schedule.run(1, ())
    gc.freeze()  # or what is collected after a schedule is all that was imported
    if given.kept:
        from tests.simulation.mutations import replay_all

        return replay_all()
    if given.mutations is not None:
        from tests.simulation.mutations import find_all

        return find_all(given.mutations, given.processes)
    return _many(given.first, given.runs, given.limit, given.processes, only)


def _one(seed: int, only: Sequence[str], *, trace: bool, shrunk: bool) -> int:
    from tests.simulation import runner, schedule

    outcome = schedule.run(seed, schedule.faults_of(seed, only), traced=True)
    for line in outcome.trace if trace else ():
        print(line)
    faults = runner.shrink(seed, outcome.faults, outcome.name) if shrunk and outcome.violation else outcome.faults
    for fault in faults:
        print(fault)
    print(
        f"seed {seed}: {outcome.violation or 'every promise was kept'}; {outcome.virtual_s:.1f} s, {outcome.steps} "
        f"steps, digest {outcome.digest}"
    )
    return 1 if outcome.violation else 0


def _many(first: int | None, runs: int, limit_s: float | None, processes: int, only: Sequence[str]) -> int:
    from tests.simulation.runner import Tally, coverage, run_many, shrink

    begin = random.SystemRandom().randrange(1 << 40) if first is None else first
    print(f"schedules from seed {begin} on", flush=True)
    began, tally = time.monotonic(), Tally()

    def seeds() -> Iterator[int]:
        for seed in range(begin, begin + runs):
            if limit_s is not None and time.monotonic() - began > limit_s:
                return
            yield seed

    for outcome, cpu_s in run_many(seeds(), processes, only=only):
        tally.add(outcome, cpu_s)
        if outcome.violation is not None:
            print(f"seed {outcome.seed}: {outcome.violation}", flush=True)
    shown = set[str | None]()
    for outcome in tally.broken:
        if outcome.name not in shown:
            shown.add(outcome.name)
            fewest = shrink(outcome.seed, outcome.faults, outcome.name)
            again = f"make simulate SEED={outcome.seed}{' ONLY=' if only else ''}{','.join(only)}"
            print(f"\n{outcome.name}: {again}, with these faults alone:")
            print("\n".join(f"  {fault}" for fault in fewest) or "  none")
    print(coverage(tally))
    took_s = time.monotonic() - began
    print(
        f"\n{tally.runs} schedules, {len(tally.broken)} broken, {tally.steps} steps, {tally.virtual_s / 3600:.1f} h of "
        f"virtual time in {took_s:.0f} s; {60 * tally.runs / max(tally.cpu_s, 0.001):.0f} schedules a minute of CPU"
    )
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
