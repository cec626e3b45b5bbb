"""What a micro-batch of one task does: what it reads of the store, what it changes, and what went wrong.

`Batch`, its rows, is in `operation`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.timer_count import TimerCount
from airflow_provider.state.digest import digest_change, digests_by_segment
from airflow_provider.state.time_segments import TimeSegments, time_of

if TYPE_CHECKING:
    from airflow_provider.changelog.replica import Replica


class FunctionError(Exception):
    """The user's function raised, or a sum has no room for a row's value.

    Topic and partition are the active step's knowledge: it makes a `ProcessError` of it.

    Args:
        offset: of the row; where none of a call's rows goes wrong alone, of the first, and the reason names them all.
        alone: whether the row goes wrong whatever lies beside it.
    """

    def __init__(self, offset: int, key: str, reason: str, *, alone: bool = False) -> None:
        self.offset, self.key, self.reason, self.alone = offset, key, reason, alone
        super().__init__(f"offset {offset}, key {key!r}: {reason}")


@dataclass(frozen=True)
class Changes:
    """New state and output.

    Args:
        state: pairs of key and new state; None deletes it.
        failed: of the rows that were left out, in the order of their offsets.
        dropped: by name, how many records the operation dropped, as filters do.
        named: by output with a name (`Operation.outputs`), what it has beside `output`.
        output_offsets: of the rows that `output` has, in its order, where an operation lets rows through; empty where
            it makes others of them.
    """

    state: Sequence[tuple[bytes, bytes | None]]
    output: Sequence[tuple[bytes, bytes | None]]
    failed: Sequence[FunctionError] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    output_offsets: Sequence[int] = ()
    named: Mapping[str, Sequence[Pair]] = field(default_factory=dict)

    def then(self, more: Changes) -> Changes:
        """The same, and what followed from it."""
        state = {**dict(self.state), **dict(more.state)}
        named = {name: list(pairs) for name, pairs in self.named.items()}
        add_named(named, more.named)
        output = [*self.output, *more.output]
        return dataclasses.replace(self, state=sorted(state.items()), output=output, named=named)

    def also_failed(self, failed: Sequence[FunctionError]) -> Changes:
        """The same, where further rows were left out."""
        return dataclasses.replace(self, failed=sorted([*failed, *self.failed], key=lambda error: error.offset))


def without_records(rows: pa.Table, offsets: Iterable[int]) -> pa.Table:
    """The rows of the other records."""
    return rows.filter(pc.invert(pc.is_in(rows.column("__offset"), value_set=pa.array(list(offsets), pa.int64()))))


def without_failed(rows: pa.Table, failed: Sequence[FunctionError], changes: Callable[[pa.Table], Changes]) -> Changes:
    """What rows come to once those are left out that went wrong.

    Args:
        changes: that rows come to, at least one.
    """
    left = without_records(rows, (error.offset for error in failed))
    return (changes(left) if left.num_rows else Changes([], [])).also_failed(failed)


Pair = tuple[bytes, bytes | None]


def add_named(named: dict[str, list[Pair]], more: Mapping[str, Sequence[Pair]]) -> None:
    """Add to what outputs with a name have (`Changes.named`) what came later."""
    for name, pairs in more.items():
        named.setdefault(name, []).extend(pairs)


class StateReader(Protocol):
    """The state as it was before a batch."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of some keys, in their order; None where there is none.

        What an operation changes it has to have read, unless it is sure that nothing is there.

        Args:
            keys: distinct.
        """

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The pairs from one key (included) to another (excluded), in the order of the keys' bytes."""


class StoreReader(StateReader):
    """Reads a store, and remembers which values were read: what the digest needs, and who looks for new keys."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values = self._replica.get_many(keys)
        self._keys += keys
        self._values += values
        return values

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._replica.range(begin, end)

    @property
    def known(self) -> dict[bytes, bytes | None]:
        """What was read by key."""
        return dict(zip(self._keys, self._values, strict=True))

    @property
    def new(self) -> list[bytes]:
        """The keys that were looked for and are not there."""
        return [key for key, value in zip(self._keys, self._values, strict=True) if value is None]

    def digest_change(self, changes: Sequence[Pair], segments: TimeSegments | None) -> Mapping[int, int]:
        """What changes add to the digest of each of the store's segments.

        Args:
            segments: of its keys; None where they begin with no time.
        """
        if not changes:
            return {}
        keys = [key for key, _ in changes]
        if segments is None and keys == self._keys:
            return {0: digest_change(keys, self._values, changes)}
        known = self.known
        # A key that was not looked up cannot be there.
        old = [known.get(key) for key in keys]
        if segments is None:
            return {0: digest_change(keys, old, changes)}
        return digests_by_segment(
            segments, keys, lambda begin, end: digest_change(keys[begin:end], old[begin:end], changes[begin:end])
        )


class ChangedState(StateReader):
    """A state with what a batch has made of it already."""

    def __init__(self, state: StateReader, changes: Sequence[Pair]) -> None:
        self._state, self._new = state, dict(changes)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        others = [key for key in keys if key not in self._new]
        found = self._new | dict(zip(others, self._state.get_many(others), strict=True))
        return [found[key] for key in keys]

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        found: dict[bytes, bytes | None] = dict(self._state.range(begin, end))
        found |= {key: value for key, value in self._new.items() if begin <= key < end}
        return ((key, value) for key in sorted(found) if (value := found[key]) is not None)


class KnownState(StateReader):
    """What is known already, with what some rows have made of it: nothing else is read."""

    def __init__(self, known: Mapping[bytes, bytes | None]) -> None:
        self._known = dict(known)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._known.get(key) for key in keys]

    def range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """See `StateReader`: what is over with the batch is the matter of all of its rows."""
        return iter(())

    def update(self, changes: Sequence[Pair]) -> None:
        """Rows were processed that come before the next."""
        self._known.update(changes)


class OpenState:
    """The state before a batch, with what its calls have made of it so far.

    What a call has changed can be undone until the next one begins.
    """

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._read = dict[bytes, bytes | None]()
        self._new = dict[bytes, bytes | None]()
        self._undo = dict[bytes, bytes | None]()

    def load(self, keys: Iterable[bytes]) -> None:
        """Read at once what will be asked for."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._read]
        if missing:
            self._read.update(zip(missing, self._state.get_many(missing), strict=True))

    def get(self, key: bytes) -> bytes | None:
        """The value now; None where there is none."""
        if key in self._new:
            return self._new[key]
        if key not in self._read:
            self.load([key])
        return self._read[key]

    def put(self, key: bytes, value: bytes | None) -> None:
        """Replace the value; None deletes it."""
        self._undo.setdefault(key, self.get(key))
        self._new[key] = value

    def range(self, begin: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
        """The pairs from one key (included) to another (excluded) now, in the order of the keys' bytes."""
        found: dict[bytes, bytes | None] = dict(self._state.range(begin, end))
        found |= {key: value for key, value in self._new.items() if begin <= key < end}
        return [(key, value) for key in sorted(found) if (value := found[key]) is not None]

    def begin(self) -> None:
        """A call begins: those before it stay."""
        self._undo.clear()

    def undo(self) -> None:
        """Take back what was changed since the call began."""
        self._new |= self._undo
        self._undo.clear()

    @property
    def changed_by_call(self) -> list[tuple[bytes, bytes | None]]:
        """What was changed since the call began, and what it is now."""
        return [(key, self._new[key]) for key in self._undo]

    @property
    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """What is another than before the batch, by the order of the keys; all of it was read."""
        return [(key, self._new[key]) for key in sorted(self._new) if self._new[key] != self._read[key]]


def timer_counts(
    prefixes: Mapping[str, bytes], last: Mapping[str, TimerCount], changes: Sequence[Pair], state: StoreReader
) -> dict[str, TimerCount]:
    """The timers after some changes, by kind: no commit and no heartbeat reads all of them.

    Args:
        prefixes: by kind, what the keys of its timers begin with (`Operation.timer_prefixes`).
        last: before the changes; a kind that is missing, because nobody counted it, is counted in the store.
        changes: of the state, all of which was read.
        state: before them.
    """
    found = dict[str, TimerCount]()
    for kind, prefix in prefixes.items():
        changed = {key: value for key, value in changes if key.startswith(prefix)}
        before = last.get(kind)
        if before is not None and not changed:
            found[kind] = before
            continue
        end, known = prefix[:-1] + bytes([prefix[-1] + 1]), state.known
        number = sum(1 for _ in state.range(prefix, end)) if before is None else before.number
        number += sum((value is not None) - (known.get(key) is not None) for key, value in changed.items())
        # Of those that are left the first is enough: they lie in the order of their times.
        left = next((key for key, _ in state.range(prefix, end) if changed.get(key, b"") is not None), None)
        keys = [left, *(key for key, value in changed.items() if value is not None)]
        first = min((key for key in keys if key is not None), default=None)
        found[kind] = TimerCount(number, None if first is None else time_of(first[len(prefix) :]))
    return found
