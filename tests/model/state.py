"""The states of the takeover protocol: what all partitions share, and what a task is for each of its instances."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "LOST",
    "Common",
    "Copy",
    "Record",
    "Store",
    "Task",
    "aborted",
    "applied",
    "mirrored",
    "restored",
    "shown",
    "size",
]


class Record(NamedTuple):
    """What a transaction writes: ``change`` and ``commit`` into the changelog, ``output`` into the sink.

    Of a commit that was lost the changelog keeps the offsets: ``lost``.
    """

    kind: str
    value: tuple[int, ...] = ()
    """Of a change: the inputs that the key's value counts; of an output the one that it is of."""
    next: int = 0
    """Of a commit: the first input that it did not process."""
    generation: int = 0
    instance: int = 0
    fenced: bool = False
    """Of a commit: whether its writer had been fenced. None is."""


LOST: Final = Record("lost")


class Store(NamedTuple):
    """A copy's store, which outlives a crash."""

    position: int = 0
    value: tuple[int, ...] = ()
    next: int = 0
    generation: int = 0
    own: bool = False
    """Whether it ends with a commit of this instance that was not seen in the changelog yet."""


class Copy(NamedTuple):
    """What an instance is for a task."""

    store: Store
    mode: str = "off"
    """``off`` ``standby`` ``owning`` ``fenced`` ``restoring`` ``running`` ``writing`` ``committed`` ``slow`` ``closed``
    ``outdated``; ``stored`` and ``half`` too, where a rule is switched off."""
    plan: int = 0
    """Which assignment it follows, counted from one; 0 for none."""
    at: int = 0
    """While it restores, the end; after a commit, the offset behind it."""
    batch: tuple[Record, ...] = ()
    """What its transaction consists of."""
    step: int = 0
    """How much of that is written."""
    cut: int = 0
    """How much of that a late request has ended."""


class Task(NamedTuple):
    """A partition's task."""

    owners: tuple[tuple[int, int], ...] = ()
    """Of each assignment, who is active, and since which generation."""
    log: tuple[Record, ...] = ()
    """The changelog up to where it can be read."""
    hidden: tuple[Record, ...] = ()
    """What a commit wrote that the brokers acknowledged and did not mark."""
    outputs: tuple[int, ...] = ()
    """The inputs that they are of."""
    holder: int | None = None
    """The instance that fenced last: the only one whose requests the brokers take."""
    late: bool = False
    """Whether a request of its producer to commit is still on its way."""
    copies: tuple[Copy, ...] = (Copy(Store()), Copy(Store()))


class Common(NamedTuple):
    """What partitions share: the assignments, the processes, and how much may still befall them."""

    generations: tuple[int, ...]
    """Of the assignments, in the order of their topic."""
    publishers: tuple[tuple[str, int], ...]
    """Of each its phase (``idle`` ``fenced`` ``ready``) and how many assignments it read; they are alike, so sorted."""
    up: tuple[bool, ...]
    crashes: int
    late_ends: int
    lost_markers: int


def applied(store: Store, record: Record) -> Store:
    """A record of the changelog, or one that goes there, on a store."""
    match record.kind:
        case "change":
            store = store._replace(value=record.value)
        case "commit":
            store = store._replace(next=record.next, generation=record.generation)
    return store._replace(position=store.position + (record.kind != "output"))


def restored(records: tuple[Record, ...]) -> Store:
    """What an empty store becomes by a changelog."""
    store = Store()
    for record in records:
        store = applied(store, record)
    return store


def size(records: tuple[Record, ...]) -> int:
    return sum(record.kind != "output" for record in records)


def shown(task: Task, i: int, records: tuple[Record, ...]) -> Task:
    """Readers see the records, and what was hidden."""
    fenced = task.holder != i
    shown = (*task.hidden, *(r._replace(fenced=fenced) if r.kind == "commit" else r for r in records))
    return task._replace(
        log=(*task.log, *(record for record in shown if record.kind != "output")),
        outputs=(*task.outputs, *(row for record in shown if record.kind == "output" for row in record.value)),
        hidden=(),
    )


def aborted(task: Task) -> Task:
    """What is hidden is aborted: its offsets hold nothing."""
    return task._replace(log=(*task.log, *(LOST,) * size(task.hidden)), hidden=())


def mirrored(records: tuple[Record, ...]) -> tuple[Record, ...]:
    return tuple(r._replace(instance=1 - r.instance) if r.kind == "commit" else r for r in records)
