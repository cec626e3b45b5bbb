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
    Kept(
        "GenerationCheck",
        "generations grow",
        35,
        (Fault(at=1.793, kind="deaf_owner_at", target=2, what="fence.before", seconds=12.0),),
    ),
    Kept(
        "NewProducer",
        "torn transaction",
        2,
        (Fault(at=5.909, kind="overtaken", target=7, what="produce"),),
    ),
    Kept(
        "OwnAgain",
        "RuntimeError",
        2,
        (Fault(at=5.909, kind="cut_worker_at", target=7, what="commit.offsets", seconds=35.0),),
    ),
    Kept(
        "ReadBack",
        "lost write",
        2,
        (Fault(at=5.909, kind="lose_commit", target=7, what="commit.offsets"),),
    ),
    Kept(
        "WarmCopiesStay",
        "warm copies stay",
        5,
        (Fault(at=6.0, kind="add_instance", target=0, seconds=15.0, count=2),),
    ),
    Kept(
        "NoGap",
        "torn transaction",
        6,
        (Fault(at=4.077, kind="break_store", target=9, count=2),),
    ),
    Kept(
        "PublisherReadsFenced",
        "generations grow",
        3,
        (
            Fault(at=3.139, kind="pause_publisher", target=3, what="init", seconds=6.0, count=2),
            Fault(at=3.777, kind="two_failovers", target=0),
        ),
    ),
    Kept(
        "Slept",
        "store is a prefix",
        5,
        (
            Fault(at=5.416, kind="away", target=4, seconds=26.0),
            Fault(at=6.0, kind="away", target=0, seconds=26.0, count=2),
        ),
    ),
    Kept(
        "FencedFencesAgain",
        "fenced owner",
        27,
        (
            Fault(at=1.522, kind="deaf_owner_at", target=2, what="fence.before", seconds=12.0),
            Fault(at=1.598, kind="deaf_owner_at", target=10, what="fence.before", seconds=15.0),
            Fault(at=6.134, kind="deaf_owner_at", target=4, what="fence.done", seconds=12.0),
        ),
    ),
    Kept(
        "PublisherFencing",
        "generations grow",
        3,
        (
            Fault(at=3.139, kind="pause_publisher", target=3, what="add", seconds=6.0, count=2),
            Fault(at=3.777, kind="two_failovers", target=0),
        ),
    ),
    Kept(
        "Forget",
        "unanswered incident",
        2,
        (Fault(at=5.909, kind="create_again", target=7, what="assignment"),),
    ),
    Kept(
        "Tombstones",
        "store is a prefix",
        1,
        (),
    ),
    Kept(
        "ToTheEnd",
        "aborted read",
        6,
        (Fault(at=4.077, kind="flip_bit", target=9, count=2),),
    ),
)
