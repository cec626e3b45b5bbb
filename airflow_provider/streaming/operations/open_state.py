"""A store's state while calls change it, one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.streaming.operations.batch import StateReader


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
