"""A Python function per key, with that key's rows and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import ConfigurationError, ProcessError
from airflow_provider.streaming.failure import Failure
from airflow_provider.streaming.operation import Changes
from airflow_provider.streaming.time_limit import time_limit

__all__ = ["Process", "ProcessFunction", "ValueState"]

Row = dict[str, Any]
ProcessFunction = Callable[[str, list[Row], "ValueState"], Iterable[Row] | None]
"""``function(key, rows, state)``: returns the output rows of this key, or None for none."""


class ValueState:
    """One key's state, with the words of PySpark's ``ValueState``. Its value is anything that JSON can hold."""

    __slots__ = ("_changed", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._changed = False

    def exists(self) -> bool:
        """Whether there is a value."""
        return self._value is not None

    def get(self) -> Any:
        """The value, or None."""
        return self._value

    def update(self, value: Any) -> None:
        """Replace the value. Mutating what `get` returned without this changes nothing."""
        if value is None:
            raise ValueError("ValueState.update(None): call clear() to delete the state.")
        self._value, self._changed = value, True

    def clear(self) -> None:
        """Delete the value: the store forgets the key, and the changelog gets a tombstone."""
        self._value, self._changed = None, True

    @property
    def changed(self) -> bool:
        """Whether `update` or `clear` was called."""
        return self._changed


@dataclass(frozen=True)
class Process:
    """An operation that calls a function once a key and micro-batch.

    The function has to be deterministic in key, rows and state: after a crash a batch may be computed again. Its state
    is kept as JSON.

    Args:
        function: see `ProcessFunction`.
        columns: the input columns that the rows hold; the key is given apart.
        timeout_s: how long a call may take, in seconds; then it counts as raised. None for no limit.
    """

    function: ProcessFunction
    columns: tuple[str, ...]
    timeout_s: float | None = None

    def group(self, key_name: str, rows: pa.Table) -> GroupedProcess:
        """See `Operation.group`."""
        encoded = pc.dictionary_encode(rows.column("__key").combine_chunks())
        order = np.argsort(encoded.indices.to_numpy(), kind="stable")
        sizes = np.bincount(encoded.indices.to_numpy(), minlength=len(encoded.dictionary))
        ordered = rows.take(pa.array(order))
        return GroupedProcess(self, key_name, encoded.dictionary.to_pylist(), ordered, sizes.tolist())


class GroupedProcess:
    """See `GroupedRows`."""

    def __init__(
        self, operation: Process, key_name: str, keys: list[bytes], rows: pa.Table, sizes: Sequence[int]
    ) -> None:
        self._operation, self._key_name = operation, key_name
        self.keys = keys
        self._rows: list[Row] = rows.select(list(operation.columns)).to_pylist()
        self._offsets: list[int] = rows.column("__offset").to_pylist()
        self._sizes = sizes

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`."""
        state_changes: list[tuple[bytes, bytes | None]] = []
        output: list[tuple[bytes, bytes]] = []
        failed: list[Failure] = []
        at = 0
        for key, size, before in zip(self.keys, self._sizes, old, strict=True):
            rows = range(at, at + size)
            try:
                called = self._call(key, rows, before)
            except ProcessError:
                if not tolerant:
                    raise
                called, bad = self._call_each(key, rows, before)
                failed += bad
            if called.changed and not (called.state is None and before is None):
                state_changes.append((key, called.state))
            output += called.output
            at += size
        return Changes(state_changes, output, sorted(failed, key=lambda failure: failure.offset))

    def _call(self, key: bytes, rows: range, before: bytes | None) -> _Called:
        text = key.decode("utf-8", "replace")
        state = ValueState(None if before is None else _decoded(before, text))
        try:
            with time_limit(self._operation.timeout_s):
                results = list(self._operation.function(text, self._rows[rows.start : rows.stop], state) or ())
            output = [(key, msgspec.json.encode({self._key_name: text, **row})) for row in results]
            after = None if state.get() is None else msgspec.json.encode(state.get())
        except Exception as error:
            # Topic and partition are the active step's knowledge; it fills them in.
            reason = f"{type(error).__name__} in the job's function: {error}"
            raise ProcessError("", -1, self._offsets[rows.start], text, reason) from error
        return _Called(state.changed, after, output)

    def _call_each(self, key: bytes, rows: range, before: bytes | None) -> tuple[_Called, list[Failure]]:
        """Row by row, so that only those that raise are left out. Where batches end is nobody's promise anyway."""
        changed, state, failed = False, before, list[Failure]()
        output: list[tuple[bytes, bytes]] = []
        for at in rows:
            try:
                called = self._call(key, range(at, at + 1), state)
            except ProcessError as error:
                failed.append(Failure.of(self._offsets[at], error, error.__cause__ or error))
                continue
            changed, state = changed or called.changed, called.state if called.changed else state
            output += called.output
        return _Called(changed, state, output), failed


@dataclass(frozen=True)
class _Called:
    """What the user's function did with some rows of a key."""

    changed: bool
    state: bytes | None
    output: list[tuple[bytes, bytes]]


def _decoded(value: bytes, key: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            f"The state of key {key!r} is not JSON ({error}): the store was written by another operation. A changed "
            "job needs a new application id or store name."
        ) from error
