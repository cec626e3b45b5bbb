"""The writes that a store is checked with: the same for a seed, so that each process knows what it has to hold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.state.kind import AnyStore
from airflow_provider.state.position import ChangelogPosition, Position
from airflow_provider.state.time_segments import time_prefix

STORE: Final = "checked"
_TIMES: Final = range(-2, 8)
_ENDINGS: Final = (b"", b"\x00", b"\x00\x00", b"a", b"ab", b"b", b"B", b"\x7f", b"\x80", b"\xff", b"\xff\xff")
KEYS: Final = tuple(time_prefix(time) + ending for time in _TIMES for ending in _ENDINGS)
_MANY: Final = 2_500
"""More than are read at once."""
_MANY_AT: Final = 12
_EXPIRES_EACH: Final = 7

State = dict[bytes, bytes]


@dataclass(frozen=True)
class Write:
    """One write.

    Args:
        expired_before_ms: as of `Store.write`; None for nothing.
    """

    changes: Sequence[tuple[bytes, bytes | None]]
    expired_before_ms: int | None = None

    def after(self, state: State) -> State:
        """What a store holds then."""
        found = {**state, **dict(self.changes)}
        first = b"" if self.expired_before_ms is None else time_prefix(self.expired_before_ms)
        return {key: value for key, value in sorted(found.items()) if value is not None and key >= first}


@dataclass
class Writes:
    """The writes of a seed, each with what a store holds after it; after none, nothing."""

    seed: int
    states: list[State] = field(default_factory=lambda: [{}])
    _writes: list[Write] = field(default_factory=list)

    def at(self, number: int) -> Write:
        """The write after so many others."""
        for made in range(len(self._writes), number + 1):
            write = _write(self.seed, made, self.states[-1])
            self._writes.append(write)
            self.states.append(write.after(self.states[-1]))
        return self._writes[number]

    def apply(self, store: AnyStore, number: int) -> None:
        """Have a store do the write after so many others."""
        write = self.at(number)
        expired = {} if write.expired_before_ms is None else {STORE: write.expired_before_ms}
        position = Position(changelogs={STORE: ChangelogPosition(offset=number + 1)}, commit=b"%d" % number)
        store.write({STORE: write.changes}, position, expired)


def writes_in(store: AnyStore) -> int:
    """How many writes a store says that it stands for."""
    return 0 if store.position is None else store.position.changelogs[STORE].offset


def _write(seed: int, number: int, state: State) -> Write:
    randomness = random.Random(f"{seed} {number}")
    return Write(
        tuple(_changes(randomness, number, state)),
        randomness.choice(_TIMES) if number % _EXPIRES_EACH == _EXPIRES_EACH - 1 else None,
    )


def _changes(randomness: random.Random, number: int, state: State) -> Iterator[tuple[bytes, bytes | None]]:
    for key in randomness.sample(KEYS, 5):
        yield key, randomness.choice((b"", b"%d" % number, b"%d" % number * 40))
    there = list(state)
    for key in randomness.sample(there, min(2, len(there))):
        yield key, None
    # Of one key several: the last counts, and what is not there is deleted.
    again = randomness.choice(KEYS)
    yield again, b"first"
    yield again, None if number % 2 else b"last of %d" % number
    if number == _MANY_AT:
        for at in range(_MANY):
            yield time_prefix(max(_TIMES)) + b"many%05d" % at, b"%d" % at
