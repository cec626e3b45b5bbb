"""What a run measured, and one side against the other."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

__all__ = ["Figures", "compare", "median"]


class Figures(msgspec.Struct, frozen=True):
    """What a run measured.

    Args:
        records: how many.
        seconds: of wall time.
        cpu_seconds: of all processes of that side, the broker's not among them.
    """

    records: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU a record."""
        return self.cpu_seconds / self.records * 1e6

    @property
    def rate_per_core(self) -> float:
        """Records that a core makes in a second of its own time."""
        return self.records / self.cpu_seconds

    def __str__(self) -> str:
        return (
            f"{self.records:,} records in {self.seconds:.2f} s, {self.rate:,.0f} records/s, "
            f"{self.cpu_us:.2f} us CPU a record, {self.rate_per_core:,.0f} records/s per core"
        )


def median(runs: Sequence[Figures]) -> str:
    """Medians of what matters, each by itself."""
    per_core = 1e6 / _cpu_us(runs)
    return f"{_rate(runs):,.0f} records/s, {_cpu_us(runs):.2f} us CPU a record, {per_core:,.0f} records/s per core"


def compare(sides: Mapping[str, Callable[[int], Figures]], runs: int) -> Mapping[str, Sequence[Figures]]:
    """Measure the sides in turn, A B A B, so that a busy minute of the machine meets all of them.

    Prints every run with the machine's load, the medians, and the first side against each other one: the ratio of
    medians, and the range of the ratios of neighbours in time, which shows how far to trust it.

    Args:
        sides: by name, what measures one run, given its number.
        runs: how many of each.

    Returns:
        The runs of each side.
    """
    results: dict[str, list[Figures]] = {name: [] for name in sides}
    width = max(map(len, sides))
    for run in range(runs):
        for name, measure in sides.items():
            results[name].append(measure(run))
            load = os.getloadavg()[0]
            print(f"run {run + 1}  {name:{width}}  {results[name][-1]}  (load {load:.1f})", flush=True)
    for name, done in results.items():
        print(f"median {name:{width}}  {median(done)}")
    first, *others = results.items()
    for name, done in others:
        rates = [ours.rate / theirs.rate for ours, theirs in zip(first[1], done, strict=True)]
        print(
            f"{first[0]} against {name}: {_rate(first[1]) / _rate(done):.2f}x records/s "
            f"({min(rates):.2f} to {max(rates):.2f}), {_cpu_us(first[1]) / _cpu_us(done):.2f}x CPU a record, "
            f"{_cpu_us(done) / _cpu_us(first[1]):.2f}x records/s per core",
            flush=True,
        )
    return results


def _rate(runs: Sequence[Figures]) -> float:
    return statistics.median(run.rate for run in runs)


def _cpu_us(runs: Sequence[Figures]) -> float:
    return statistics.median(run.cpu_us for run in runs)
