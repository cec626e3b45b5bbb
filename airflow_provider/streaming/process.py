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
from airflow_provider.streaming.operation import Changes

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
    """

    function: ProcessFunction
    columns: tuple[str, ...]

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

    def apply(self, old: Sequence[bytes | None]) -> Changes:
        """See `GroupedRows.apply`."""
        state_changes: list[tuple[bytes, bytes | None]] = []
        output: list[tuple[bytes, bytes | None]] = []
        at = 0
        for key, size, before in zip(self.keys, self._sizes, old, strict=True):
            rows, text = self._rows[at : at + size], key.decode("utf-8", "replace")
            state = ValueState(None if before is None else _decoded(before, text))
            try:
                results = list(self._operation.function(text, rows, state) or ())
                encoded = [(key, msgspec.json.encode({self._key_name: text, **row})) for row in results]
                after = None if state.get() is None else msgspec.json.encode(state.get())
            except Exception as error:
                # Topic and partition are the active step's knowledge; it fills them in.
                reason = f"{type(error).__name__} in the job's function: {error}"
                raise ProcessError("", -1, self._offsets[at], text, reason) from error
            if state.changed and not (after is None and before is None):
                state_changes.append((key, after))
            output.extend(encoded)
            at += size
        return Changes(state_changes, output)


def _decoded(value: bytes, key: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            f"The state of key {key!r} is not JSON ({error}): the store was written by another operation. A changed "
            "job needs a new application id or store name."
        ) from error
