"""Many schedules, on all cores: what was broken, by how few faults, and what was passed."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Final, cast

from tests.simulation import schedule
from tests.simulation.faults import KINDS, Fault
from tests.simulation.product import FailPoint, TaskState
from tests.simulation.schedule import Outcome


@dataclass
class Tally:
    """What came of many schedules.

    Args:
        broken: those in which a promise was.
        pairs: of kinds of faults in one schedule, how often.
    """

    runs: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome, cpu_s: float = 0.0) -> None:
        """Count one more."""
        self.runs += 1
        self.steps += outcome.steps
        self.virtual_s += outcome.virtual_s
        self.cpu_s += cpu_s
        self.seen += outcome.seen
        kinds = sorted({fault.kind for fault in outcome.faults})
        self.pairs.update(itertools.combinations(kinds, 2))
        if outcome.violation is not None:
            self.broken.append(outcome)


def run_many(
    seeds: Iterable[int], processes: int, *, only: Sequence[str] = (), stop_at_first: bool = False
) -> Iterator[tuple[Outcome, float]]:
    """Run schedules in several processes; each outcome, with the seconds of CPU that it took.

    Args:
        processes: how many; each inherits what is imported and bound, and makes threads of its own.
        only: the kinds of faults; all where there are none.
        stop_at_first: whether the first broken promise ends it.
    """
    context = multiprocessing.get_context("fork")
    queue = iter(seeds)
    links: dict[Connection, multiprocessing.context.ForkProcess] = {}
    for _ in range(processes):
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, only), daemon=True)
        process.start()
        there.close()
        links[here] = process
    try:
        for link in links:
            link.send(list(itertools.islice(queue, 8)))
        waiting = set(links)
        while waiting:
            for ready in wait(list(waiting)):
                link = cast(Connection, ready)
                found: list[tuple[Outcome, float]] = link.recv()
                if not found:
                    waiting.discard(link)
                    continue
                yield from found
                if stop_at_first and any(outcome.violation for outcome, _ in found):
                    return
                link.send(list(itertools.islice(queue, 8)))
    finally:
        for process in links.values():
            process.kill()
            process.join()


def _serve(link: Connection, only: Sequence[str]) -> None:
    while True:
        seeds: list[int] = link.recv()
        found = []
        for seed in seeds:
            began = time.process_time()
            outcome = schedule.run(seed, schedule.faults_of(seed, only))
            found.append((outcome, time.process_time() - began))
        link.send(found)
        if not seeds:
            return


def shrink(seed: int, faults: Sequence[Fault], name: str | None) -> list[Fault]:
    """The fewest faults with which the seed breaks the same promise: one after the other is left out."""
    left = list(faults)
    while True:
        for at in range(len(left)):
            fewer = [*left[:at], *left[at + 1 :]]
            if schedule.run(seed, fewer).name == name:
                left = fewer
                break
        else:
            return left


def coverage(tally: Tally) -> str:
    """The table of what was passed, and of what was not."""
    lines = ["", "passed                                     times"]
    points = [f"fail point {point}" for point in FailPoint]
    states = [f"{state.value} > {to.value}" for state in TaskState for to in sorted(state.successors, key=str)]
    kinds = [f"fault:{kind}" for kind in KINDS]
    other = sorted(tally.seen.keys() - {*points, *states, *kinds})
    for name in (*points, *states, *kinds, *other):
        if name.startswith("start "):
            continue
        lines.append(f"{name:<40} {tally.seen[name]:>8}")
    return "\n".join([*lines, "", *_pairs(tally)])


_NAMED: Final = 5


def _pairs(tally: Tally) -> list[str]:
    """Which kinds of faults came in one schedule: of each how often with the others, and with which least or never."""
    possible = len(KINDS) * (len(KINDS) - 1) // 2
    lines = [
        f"{len(tally.pairs)} of {possible} pairs of kinds of faults came in one schedule",
        f"{'fault':<20} {'with':>6} {'times':>7}   never with, or the least often",
    ]
    for kind in KINDS:
        times = {other: tally.pairs[min(kind, other), max(kind, other)] for other in KINDS if other != kind}
        never = [other for other, count in times.items() if not count]
        least = min(times, key=lambda other: times[other])
        more = f" and {len(never) - _NAMED} more" if len(never) > _NAMED else ""
        rest = ", ".join(never[:_NAMED]) + more if never else f"{least} ({times[least]})"
        lines.append(f"{kind:<20} {len(times) - len(never):>6} {sum(times.values()):>7}   {rest}")
    return lines
