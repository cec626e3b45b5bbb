"""Schedules that are kept: each breaks a promise where the product is broken in one way, and none where it is not.

What a seed alone comes to changes with every request that the product makes, so its faults are kept with it, and that
it still finds what it is kept for is tested. One that does not any more is recorded again, from what
`python -m tests.simulation --mutations NAME` prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.simulation.faults import Fault


@dataclass(frozen=True)
class Kept:
    """A schedule that found something.

    Args:
        mutation: the way in which the product is broken.
        promise: what is broken then.
    """

    mutation: str
    promise: str
    seed: int
    faults: tuple[Fault, ...]


KEPT: Final = (
    Kept(
        "WaitForHidden",
        "liveness",
        17,
        (
            Fault(at=3.918, kind="fail_over_by_hand", target=6, count=2),
            Fault(at=4.166, kind="lose_marker", target=7, what="changelog"),
            Fault(at=8.818, kind="lose_marker", target=9, what="changelog", count=2),
        ),
    ),
    Kept(
        "TopicIds",
        "liveness",
        236,
        (
            Fault(at=5.701, kind="cut_in", target=6, seconds=6.0, count=2),
            Fault(at=5.941, kind="create_again", target=3, what="assignment", count=2),
        ),
    ),
)
