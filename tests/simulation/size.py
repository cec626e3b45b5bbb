"""How large a schedule is: nearly all are short, because what breaks a promise mostly takes few things, and four long
ones cost what fifteen short ones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Size:
    """From each of these the seed chooses.

    Args:
        cores: of an instance.
        records: of a partition, in bursts.
        start_s: within which instances begin, load what they need, and are seen to run.
        faults: how many.
        faults_begin: when the first may begin, in seconds of the schedule.
        faults_end: until when they begin.
        least_s: when they end at the earliest, and with them the input.
    """

    partitions: tuple[int, ...]
    standbys: tuple[int, ...]
    instances: tuple[int, ...]
    cores: tuple[int, ...]
    records: tuple[int, int]
    start_s: float
    faults: tuple[int, ...]
    faults_begin: float
    faults_end: tuple[float, ...]
    least_s: float


SHORT: Final = Size(
    partitions=(1, 1, 1, 2),
    standbys=(0, 1, 1),
    instances=(1, 2, 2, 2, 2, 3),
    cores=(1, 1, 1, 2),
    records=(1, 3),
    start_s=0.3,
    faults=(0, 1, 1, 1, 2, 2),
    faults_begin=0.5,
    faults_end=(2.0, 2.0, 3.0),
    least_s=2.0,
)
LONG: Final = Size(
    partitions=(1, 1, 2, 2, 3),
    standbys=(0, 1, 1, 1, 2),
    instances=(1, 2, 2, 2, 3, 3, 4),
    cores=(1, 1, 2),
    records=(2, 8),
    start_s=1.0,
    faults=(0, 1, 1, 2, 2, 3, 3, 4, 6),
    faults_begin=1.5,
    faults_end=(6.0, 6.0, 9.0, 14.0),
    least_s=4.0,
)
_LONG_EVERY: Final = 16


def size_of(seed: int) -> Size:
    """Of sixteen seeds that follow each other one is long."""
    return SHORT if seed % _LONG_EVERY else LONG
