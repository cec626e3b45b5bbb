"""What has to hold in every state of the takeover protocol, by the names that the specification has too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.model.state import LOST, Task, restored

__all__ = ["INVARIANTS", "is_done"]


def exactly_once(task: Task) -> bool:
    """What readers see counts each input that a commit stands for once, and has put it out once."""
    seen = restored(task.log)
    return seen.value == task.outputs == tuple(range(seen.next))


def one_owner_per_generation(task: Task) -> bool:
    """Two instances never commit in the same generation."""
    commits = {(record.generation, record.instance) for record in task.log if record.kind == "commit"}
    return len(commits) == len({generation for generation, _ in commits})


def generations_grow(task: Task) -> bool:
    """Behind a commit there is none of an earlier generation: an outdated owner writes nothing."""
    generations = [record.generation for record in task.log if record.kind == "commit"]
    return generations == sorted(generations)


def fenced_writes_nothing(task: Task) -> bool:
    """No commit is of an owner that had been fenced."""
    return not any(record.fenced for record in task.log)


def store_is_prefix(task: Task) -> bool:
    """A store is what the changelog makes of an empty one up to its position, and never claims more than it holds.

    Only a commit that the brokers lost may be in one, until it is read back: it is not gone on from.
    """
    return all(_is_prefix(task, i) for i in range(len(task.copies)))


def _is_prefix(task: Task, i: int) -> bool:
    copy = task.copies[i]
    store, known = copy.store, tuple(record for record in (*task.log, *task.hidden) if record.kind != "output")
    if copy.mode in ("stored", "half"):
        return True  # with a rule off, until a crash or an error shows it
    if store.value[: store.next] != tuple(range(store.next)):
        return False
    if store._replace(own=False) == restored(known[: store.position]):
        return True
    in_use = copy.mode in ("running", "writing", "committed", "slow") and task.holder == i
    caught_up = copy.mode == "standby" and not store.own and store.position == len(task.log)
    return LOST in task.log[: store.position] and not in_use and not caught_up


INVARIANTS: Final[Mapping[str, Callable[[Task], bool]]] = {
    "ExactlyOnce": exactly_once,
    "OneOwnerPerGeneration": one_owner_per_generation,
    "GenerationsGrow": generations_grow,
    "FencedWritesNothing": fenced_writes_nothing,
    "StoreIsPrefix": store_is_prefix,
}


def is_done(task: Task, inputs: int) -> bool:
    """Whether every input is committed, which an idle owner knows that lost its marker."""
    return restored((*task.log, *task.hidden)).next == inputs
