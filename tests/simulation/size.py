"""How large a schedule is: nearly all are tiny, because what breaks a promise mostly takes few things that come close
to each other, and a long one costs what eleven tiny ones do.
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
        lasting: in which share of the schedules faults are among them that last.
        patient: in which share they are over by themselves.
        least_s: when they end at the earliest, and with them the input.
        after_s: for how long after the last has begun they go on.
        look_s: how often it is looked at whether all is as it should be, once they are over.
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
    lasting: float
    patient: float
    least_s: float
    after_s: float = 1.0
    look_s: float = 0.5


TINY: Final = Size(
    partitions=(1, 1, 1, 1, 1, 1, 1, 2),
    standbys=(0, 1, 1),
    instances=(1, 2, 2, 2),
    cores=(1,),
    records=(1, 1),
    start_s=0.1,
    faults=(1, 1, 2, 2),
    faults_begin=0.3,
    faults_end=(0.7, 1.0),
    lasting=1 / 32,
    patient=1 / 32,
    least_s=0.9,
    after_s=0.3,
    look_s=0.2,
)
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
    lasting=1 / 8,
    patient=1 / 8,
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
    lasting=1.0,
    patient=1 / 8,
    least_s=4.0,
)
LONG_EVERY: Final = 64
SHORT_EVERY: Final = 8


def size_of(seed: int) -> Size:
    """Of 64 seeds that follow each other one is long, and seven are short."""
    return TINY if seed % SHORT_EVERY else SHORT if seed % LONG_EVERY else LONG
