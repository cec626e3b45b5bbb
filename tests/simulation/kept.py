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
        "TopicIds",
        "unanswered incident",
        5,
        (
            Fault(at=2.478, kind="pause_watcher", target=6, seconds=35.0, count=3),
            Fault(at=3.821, kind="create_again", target=8, what="assignment", count=2),
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
