"""Schedules that are kept: each breaks a promise where the product is broken in one way, and none where it is not.

What a seed alone comes to changes with every request that the product makes, so its faults are kept with it, and that
it still finds what it is kept for is tested. One that does not any more is recorded again, from what
`python -m tests.simulation --mutations NAME` prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.simulation.faults import Fault
from tests.simulation.size import LONG, SHORT, TINY, Size


@dataclass(frozen=True)
class Kept:
    """A schedule that found something.

    Args:
        mutation: the way in which the product is broken.
        promise: what is broken then.
        size: of the schedule.
    """

    mutation: str
    promise: str
    seed: int
    faults: tuple[Fault, ...]
    size: Size = SHORT


KEPT: Final = (
    Kept(
        "Fencing",
        "generations grow",
        776,
        (Fault(at=2.0, kind="zombie_worker_at", target=9, what="commit.begun", seconds=7.0, count=2),),
    ),
    Kept(
        "LastEnd",
        "lost write",
        9,
        (Fault(at=0.442, kind="fail_over_by_hand", target=0),),
        TINY,
    ),
    Kept(
        "WaitForHidden",
        "liveness",
        371,
        (
            Fault(at=0.896, kind="fail_over_by_hand", target=8),
            Fault(at=0.973, kind="lose_marker", target=8, what="changelog"),
        ),
        TINY,
    ),
    Kept(
        "GenerationCheck",
        "generations grow",
        34,
        (
            Fault(at=0.755, kind="deaf_owner_at", target=5, what="fence.before", seconds=15.0),
            Fault(at=1.091, kind="kill", target=6, count=3),
        ),
    ),
    Kept(
        "OneOwnerAGeneration",
        "one owner a generation",
        37,
        (Fault(at=0.396, kind="begin_again", target=2, what="both", count=3),),
        TINY,
    ),
    Kept(
        "Renewed",
        "liveness",
        28,
        (
            Fault(at=0.625, kind="begin_again", target=8, what="both", count=2),
            Fault(at=1.2, kind="kill", target=1),
        ),
        TINY,
    ),
    Kept(
        "DropRows",
        "duplicate",
        9,
        (Fault(at=0.483, kind="kill_at", target=0, what="commit.done", count=3),),
        TINY,
    ),
    Kept("ResumeAtCommit", "store is a prefix", 2, (Fault(at=1.435, kind="fail_over_by_hand", target=8, count=2),)),
    Kept("RecordLast", "torn transaction", 1, ()),
    Kept("StoreAfterCommit", "store is a prefix", 1, ()),
    Kept(
        "NewProducer",
        "torn transaction",
        9,
        (Fault(at=0.474, kind="overtaken", target=10, what="produce", count=2),),
        TINY,
    ),
    Kept(
        "OwnAgain",
        "RuntimeError",
        7,
        (Fault(at=1.942, kind="cut_worker_at", target=1, what="commit.offsets", seconds=35.0),),
    ),
    Kept("ReadCommitted", "store is a prefix", 2, (Fault(at=1.435, kind="kill_at", target=8, what="commit.offsets"),)),
    Kept("ReadBack", "lost write", 1, (Fault(at=0.612, kind="lose_commit", target=6, what="commit.offsets"),)),
    Kept(
        "FencedFencesAgain",
        "fenced owner",
        27,
        (Fault(at=0.504, kind="deaf_owner_at", target=2, what="fence.before", seconds=12.0),),
    ),
    Kept(
        "PublisherFencing",
        "generations grow",
        10,
        (
            Fault(at=0.447, kind="pause_publisher", target=0, what="add", seconds=2.0, count=3),
            Fault(at=0.8, kind="two_failovers", target=6),
        ),
        TINY,
    ),
    Kept(
        "PublisherReadsFenced",
        "generations grow",
        10,
        (
            Fault(at=0.447, kind="pause_publisher", target=0, what="init", seconds=2.0, count=3),
            Fault(at=0.8, kind="two_failovers", target=6),
        ),
        TINY,
    ),
    Kept("Forget", "unanswered incident", 1, (Fault(at=0.612, kind="create_again", target=6, what="assignment"),)),
    Kept(
        "TopicIds",
        "liveness",
        119,
        (
            Fault(at=0.745, kind="create_again", target=1, what="assignment", count=2),
            Fault(at=0.8, kind="assign_again", target=10, what="balance"),
        ),
        TINY,
    ),
    Kept(
        "CarriedOut",
        "liveness",
        26240,
        (
            Fault(at=4.856, kind="kill", target=0),
            Fault(at=10.588, kind="kill", target=6),
            Fault(at=13.407, kind="unclean_leader", target=6, what="assignment", seconds=0.1),
        ),
        LONG,
    ),
    Kept(
        "TakenUp",
        "unanswered incident",
        26,
        (
            Fault(at=0.319, kind="kill_watcher", target=3, what="answered", seconds=5.0, count=3),
            Fault(at=0.609, kind="kill", target=2),
        ),
        TINY,
    ),
    Kept(
        "WarmCopiesStay",
        "warm copies stay",
        7,
        (Fault(at=2.571, kind="add_instance", target=1, seconds=15.0, count=3),),
    ),
    Kept(
        "TouchIsNoTry",
        "liveness",
        217,
        (
            Fault(at=0.837, kind="revoke", target=0, what="read changelog", seconds=12.0),
            Fault(at=0.944, kind="set_clock", target=4, seconds=-5000.0),
        ),
        TINY,
    ),
    Kept(
        "CutIsOutdated",
        "lost write",
        16,
        (Fault(at=2.198, kind="cut_changelog", target=3, what="changelog", seconds=0.1),),
    ),
    Kept(
        "AppliedIsReadBack",
        "torn transaction",
        746,
        (
            Fault(at=1.043, kind="fail_over_by_hand", target=11),
            Fault(at=1.073, kind="cut_changelog", target=3, what="changelog", seconds=5.0, count=3),
        ),
        TINY,
    ),
    Kept(
        "OwnInItsPlace",
        "store is a prefix",
        785,
        (Fault(at=1.07, kind="cut_changelog", target=8, what="changelog", seconds=0.1, count=2),),
        TINY,
    ),
    Kept(
        "LookBeforeCommit",
        "torn transaction",
        4,
        (
            Fault(at=0.547, kind="cut_changelog", target=10, what="changelog", seconds=1.0, count=2),
            Fault(at=0.786, kind="cut_changelog", target=8, what="changelog", seconds=0.1),
        ),
        TINY,
    ),
    Kept(
        "NoGapBehindWhatWasCut",
        "duplicate",
        451,
        (
            Fault(at=0.65, kind="remove_folder", target=8),
            Fault(at=1.14, kind="cut_changelog", target=9, what="changelog", seconds=1.0),
        ),
        TINY,
    ),
    Kept(
        "NoticedWithoutARow",
        "liveness",
        837722457646,
        (
            Fault(at=0.993, kind="remove_folder", target=4, count=3),
            Fault(at=1.144, kind="cut_changelog", target=10, what="changelog", seconds=0.1, count=2),
        ),
        TINY,
    ),
    Kept("NoGap", "duplicate", 1, (Fault(at=0.612, kind="break_store", target=6),)),
    Kept(
        "Slept",
        "store is a prefix",
        12,
        (
            Fault(at=0.978, kind="away", target=8, seconds=40.0, count=2),
            Fault(at=1.2, kind="away", target=8, seconds=40.0, count=3),
        ),
        TINY,
    ),
    Kept("LeastTime", "liveness", 117, ()),
    Kept(
        "TimeStays",
        "wrong window",
        165,
        (
            Fault(at=0.352, kind="kill_at", target=4, what="store.done"),
            Fault(at=0.426, kind="kill_at", target=3, what="commit.outputs", count=3),
        ),
        TINY,
    ),
    Kept("Tombstones", "store is a prefix", 7, (Fault(at=2.571, kind="kill", target=1, count=3),)),
    Kept("ToTheEnd", "aborted read", 7, (Fault(at=2.571, kind="flip_bit", target=1, count=3),)),
    Kept(
        "Terms",
        "store is a prefix",
        324228010110,
        (
            Fault(at=0.796, kind="cut_changelog", target=8, what="changelog", seconds=5.0, count=3),
            Fault(at=0.8, kind="cut_changelog", target=0, what="changelog", seconds=5.0, count=2),
        ),
        TINY,
    ),
    Kept("FellBack", "liveness", 7, (Fault(at=0.94, kind="cut_source", target=11, seconds=1.0),), TINY),
    Kept(
        "Overlap",
        "liveness",
        51,
        (
            Fault(at=0.879, kind="cut_source", target=9, seconds=5.0),
            Fault(at=1.2, kind="fail_over_by_hand", target=0),
        ),
        TINY,
    ),
    Kept(
        "InFrontOfACut",
        "liveness",
        5000014072799,
        (
            Fault(at=0.61, kind="break_store", target=10, count=3),
            Fault(at=0.7, kind="cut_source", target=9, seconds=5.0),
        ),
        TINY,
    ),
    Kept(
        "BehindTrouble",
        "torn transaction",
        3,
        (Fault(at=0.434, kind="fetch_error", target=5, what="source", count=3),),
        TINY,
    ),
    Kept(
        "BehindTroubleOfAChangelog",
        "store is a prefix",
        9,
        (Fault(at=0.435, kind="fetch_error", target=10, what="changelog", count=2),),
        TINY,
    ),
    Kept(
        "EndIsGone",
        "liveness",
        5000022016295,
        (
            Fault(at=0.5, kind="disk_full", target=10, seconds=8.0, count=2),
            Fault(at=0.7, kind="cut_changelog", target=6, what="changelog", seconds=5.0, count=2),
        ),
        TINY,
    ),
    Kept(
        "OwnPatience",
        "liveness",
        5000023004928,
        (
            Fault(at=1.633, kind="disk_full", target=10, seconds=40.0, count=3),
            Fault(at=7.26, kind="revoke_at", target=3, what="fence.done", seconds=4.0),
            Fault(at=7.72, kind="disk_full", target=8, seconds=40.0, count=3),
        ),
        LONG,
    ),
)
