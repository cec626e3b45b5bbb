"""What each rule of the protocol is for: the shortest way to a broken invariant without it.

``python -m tests.model.mutations`` prints them all, and what there is with all rules; a rule's name prints that one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.model.checker import Broken, Explored, explore
from tests.model.invariants import INVARIANTS, is_done
from tests.model.state import LOST, Common, Task
from tests.model.takeover import ACTIONS, FAULTS, RULES, Bounds, Takeover

__all__ = ["LARGE", "LARGEST", "MUTATIONS", "STANDARD", "Mutation", "check", "in_words"]

STANDARD: Final = {"two partitions": Bounds(partitions=2, inputs=1, generations=1)}
"""What the tests look at each time."""

LARGE: Final = {
    "two generations": Bounds(generations=2),
    "three generations": Bounds(inputs=1),
    "two partitions that move": Bounds(partitions=2, inputs=1, generations=2, crashes=0, late_ends=0, lost_markers=0),
}
"""What takes half a minute."""

LARGEST: Final = {"two inputs and three generations": Bounds()}
"""What takes minutes, and comes out otherwise only where the model was changed."""


@dataclass(frozen=True)
class Mutation:
    """A rule that is off.

    Args:
        invariant: that breaks.
        steps: of the shortest way there.
        bounds: in which.
    """

    invariant: str
    steps: int
    bounds: Bounds = LARGE["two generations"]


MUTATIONS: Final = {
    "Fencing": Mutation("FencedWritesNothing", 16, Bounds(generations=2, late_ends=0)),
    "LastEnd": Mutation("ExactlyOnce", 22),
    "WaitForHidden": Mutation("ExactlyOnce", 21),
    "AbortForHolder": Mutation("StoreIsPrefix", 18),
    "GenerationCheck": Mutation("GenerationsGrow", 24),
    "ResumeAtCommit": Mutation("ExactlyOnce", 11),
    "DropRows": Mutation("ExactlyOnce", 16),
    "OneTransaction": Mutation("ExactlyOnce", 9),
    "RecordLast": Mutation("StoreIsPrefix", 13),
    "StoreAfterCommit": Mutation("StoreIsPrefix", 12),
    "OneWrite": Mutation("StoreIsPrefix", 13),
    "OwnAgain": Mutation("ExactlyOnce", 15),
    "NewProducer": Mutation("ExactlyOnce", 14),
    "AbortProvesNothing": Mutation("ExactlyOnce", 13),
    "ReadCommitted": Mutation("StoreIsPrefix", 10),
    "ReadBack": Mutation("StoreIsPrefix", 17),
    "FencedFencesAgain": Mutation("Progress", 11, Bounds(inputs=1, generations=2)),
    "PublisherFencing": Mutation("OneOwnerPerGeneration", 24),
    "PublisherReadsFenced": Mutation("OneOwnerPerGeneration", 24),
}
"""By the rule; each within the bounds in which the protocol with all its rules is looked at whole."""


def check(bounds: Bounds, *off: str) -> Explored[Common, Task]:
    """Look at all states, with these rules off."""
    return explore(
        Takeover(bounds, frozenset(off)),
        INVARIANTS,
        done=lambda task: is_done(task, bounds.inputs),
        faults=lambda label: label.action in FAULTS,
    )


def in_words(broken: Broken[Common, Task]) -> Iterator[str]:
    """The steps as sentences, with what readers see after those that changed it; then what broke."""
    seen: dict[int, str] = {}
    for number, step in enumerate(broken.way, 1):
        label = step.label
        words = ACTIONS[label.action].format(instance="" if label.instance is None else "AB"[label.instance])
        if label.action == "Publish":
            owners = ", ".join("AB"[task.owners[-1][0]] for task in step.parts)
            words += f": generation {step.common.generations[-1]}, {owners}"
        if step.part is not None and len(step.parts) > 1:
            words = f"task {step.part}: {words}"
        yield f"{number:3}. {words}"
        for at, task in enumerate(step.parts):
            if (task.log or task.outputs) and seen.get(at) != (now := _readable(task)):
                seen[at] = now
                yield f"       {now}"
    yield f"     {broken.invariant} is broken."


def _readable(task: Task) -> str:
    """The changelog's values, with the input that each commit stands before; the outputs."""
    words = (
        str(list(record.value)) if record.kind == "change" else "lost" if record == LOST else f"commit({record.next})"
        for record in task.log
    )
    return f"changelog: {' '.join(words)}; outputs: {list(task.outputs)}"


def _main(rules: list[str]) -> None:
    for title, bounds in () if rules else (STANDARD | LARGE).items():
        began = time.monotonic()
        found = check(bounds)
        took_s = time.monotonic() - began
        print(f"{title}: {found.states:,} states, {found.steps:,} steps, depth {found.depth}, {took_s:.0f} s")
    for rule in rules or MUTATIONS:
        found = check(MUTATIONS[rule].bounds, rule)
        print(f"\nWithout {rule} ({RULES[rule]}):", *([] if found.broken is None else in_words(found.broken)), sep="\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
