"""A Python function per key, with that key's rows and its state."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.error_text import bounded
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json.json_rows import key_parts
from airflow_provider.streaming.json.types import json_schema, type_name
from airflow_provider.streaming.json.user_values import decode_state, encode_state, rows_of
from airflow_provider.streaming.operations.batch import Changes, FunctionError, StateReader
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.streaming.operations.put_out import PutOut, check_outputs
from airflow_provider.streaming.terms.argument_check import check_kind, check_number

_SEARCH_S: Final = 10.0
"""For so long a row that a call went wrong with is searched for: far less than a call into a worker may take."""
_SHOWN_CHARS: Final = 200
_ARGUMENTS: Final = ("key", "rows", "state")

Row = dict[str, Any]
ProcessFunction = Callable[[str, list[Row], "ValueState"], Iterable[Row] | None]
"""``function(key, rows, state)``: returns the output rows of this key, or None for none; a row of an output with a name
as a pair, ``("refunds", row)``."""


class ValueState:
    """One key's state, with the words of PySpark's ``ValueState``.

    Its value is what `json.user_values` keeps: Python's plain types, and lists, dicts, tuples and sets of them.
    """

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
        self._value = value
        self._changed = True

    def clear(self) -> None:
        """Delete the value: the store forgets the key, and the changelog gets a tombstone."""
        self._value = None
        self._changed = True

    @property
    def changed(self) -> bool:
        """Whether `update` or `clear` was called."""
        return self._changed


@dataclass(frozen=True)
class Process(Operation):
    """An operation that calls a function once per key and micro-batch.

    The function has to be deterministic in key, rows and state: after a crash a batch may be computed again. Its state
    is kept with the types that Python gave it, as `json.user_values` says.

    Args:
        columns: the input columns that the rows hold; the key is given apart.
        timeout_s: how long a call may take, in seconds; then it counts as raised. None for no limit.
        version: of the state, as the function's author counts.
        by: the columns of a key of several, for the output; empty for one.
        schema: of the rows that it returns, in Spark DDL; None where nothing follows.
        outputs: by name, the schema of the rows of its further outputs.
    """

    function: ProcessFunction
    columns: tuple[str, ...]
    timeout_s: float | None = None
    version: int = 1
    by: tuple[str, ...] = ()
    schema: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        function: Callable[..., Iterable[Row] | None],
        columns: Sequence[str] | None,
        timeout_s: float | None,
        version: int,
        by: tuple[str, ...] = (),
        schema: str | None = None,
        outputs: object = None,
        arguments: Sequence[str] = _ARGUMENTS,
    ) -> Process:
        """What `process()` was asked for.

        Raises:
            ConfigurationError: an argument is not what it has to be.
        """
        if columns is None or isinstance(columns, str) or len(set(columns)) != len(columns):
            raise ConfigurationError(
                f"process() got columns={columns!r}: give the columns that its rows shall hold, each once, such as "
                'columns=["amount", "country"].'
            )
        check_process_function(function, None, arguments)
        check_number("process() got timeout_s", timeout_s, "seconds", none="no limit")
        check_kind("process() got version=", version, int, "a whole number, such as 2")
        named = {} if outputs is None else check_outputs(outputs)
        return cls(function, tuple(columns), timeout_s, version, by, schema, named)

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        return StoreSignature(key=key_name, key_type=type_name(key_type), operation="process", version=self.version)

    def writes(self, key_name: str, schema: pa.Schema) -> str:
        """See `Operation.writes`: the key as text, and what the function was said to return."""
        keys = json_schema(pa.schema([(name, pa.string()) for name in self.written_keys(key_name)]))
        return f"{keys}, {self.schema}"

    def written_keys(self, key_name: str) -> tuple[str, ...]:
        return self.by or (key_name,)

    def of_output(self, name: str) -> Process:
        return dataclasses.replace(self, schema=self.outputs[name])

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        encoded = pc.dictionary_encode(batch.rows.column("__key").combine_chunks())
        order = np.argsort(encoded.indices.to_numpy(), kind="stable")
        sizes = np.bincount(encoded.indices.to_numpy(), minlength=len(encoded.dictionary))
        ordered, keys = batch.rows.take(pa.array(order)), encoded.dictionary.to_pylist()
        grouped = GroupedProcess(self, batch.key_name, keys, ordered, sizes.tolist())
        return grouped.apply(state.get_many(keys), tolerant)

    def put_out(self, returned: Sequence[Any], key_name: str, key: bytes, text: str) -> PutOut:
        """What a call came to, for a key that is this text; raises as `PutOut.of`."""
        return PutOut.of(returned, key, key_parts(key_name, self.by, text) if returned else {}, self.outputs)

    @property
    def text(self) -> str:
        further = f" also into {', '.join(self.outputs)}" if self.outputs else ""
        return process_text(self.function, self.columns) + further

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: what `ValueState.get` returns."""
        return [decoded(state, "") for state in states]


class GroupedProcess:
    """A batch's rows, those of a key together."""

    def __init__(
        self, operation: Process, key_name: str, keys: list[bytes], rows: pa.Table, sizes: Sequence[int]
    ) -> None:
        self._operation = operation
        self._key_name = key_name
        self.keys = keys
        self._table = rows.select(list(operation.columns))
        self._rows, self._unreadable = python_rows(self._table)
        self._offsets: list[int] = rows.column("__offset").to_pylist()
        self._sizes = sizes

    def apply(self, old: Sequence[bytes | None], tolerant: bool) -> Changes:
        """See `Operation.merge`."""
        state_changes: list[tuple[bytes, bytes | None]] = []
        output = PutOut.nothing()
        failed: list[FunctionError] = []
        at = 0
        for key, size, before in zip(self.keys, self._sizes, old, strict=True):
            rows = range(at, at + size)
            try:
                called = self._call(key, rows, self._rows[rows.start : rows.stop], before)
            except FunctionError as error:
                if not tolerant:
                    raise self._of_first_row(error, key, rows, before) from error.__cause__
                called, bad = self._call_each(key, rows, before)
                failed += bad
            if called.changed and not (called.state is None and before is None):
                state_changes.append((key, called.state))
            output.add(called.output)
            at += size
        failed.sort(key=lambda failure: failure.offset)
        return Changes(state_changes, output.rows, failed, named=output.named)

    def _call(self, key: bytes, rows: range, given: list[Row], before: bytes | None) -> _Called:
        text = key.decode("utf-8", "replace")
        state = ValueState(None if before is None else decoded(before, text))
        for at in sorted(self._unreadable.keys() & rows) if self._unreadable else ():
            raise FunctionError(self._offsets[at], text, self._unreadable[at])
        try:
            with time_limit(self._operation.timeout_s):
                returned = rows_of(self._operation.function(text, given, state))
            output = self._operation.put_out(returned, self._key_name, key, text)
        except MemoryError:
            raise  # the host's: no record is to blame, and none may be skipped for it
        except Exception as error:
            reason = f"{type(error).__name__} in the job's function: {error}"
            raise FunctionError(self._offsets[rows.start], text, reason) from error
        try:
            after = encode_state(state.get()) if state.changed and state.exists() else None
        except ValueError as error:
            reason = f"the state that the job's function left cannot be kept: {error}"
            raise FunctionError(self._offsets[rows.start], text, reason) from error
        return _Called(state.changed, after, output)

    def _one_by_one(self, key: bytes, rows: range, before: bytes | None) -> Iterator[_Called | FunctionError]:
        """Call the function with each row alone, over the state that those before it left.

        The rows are made again: the call that raised may have changed those that it was given.
        """
        again, _ = python_rows(self._table.slice(rows.start, len(rows)))
        state = before
        for at, row in zip(rows, again, strict=True):
            try:
                called = self._call(key, range(at, at + 1), [row], state)
            except FunctionError as error:
                yield error
                continue
            state = called.state if called.changed else state
            yield called

    def _call_each(self, key: bytes, rows: range, before: bytes | None) -> tuple[_Called, list[FunctionError]]:
        """Row by row, so that only those that raise are left out. No function can rely on where batches end."""
        changed, state, failed = False, before, list[FunctionError]()
        output = PutOut.nothing()
        for called in self._one_by_one(key, rows, before):
            if isinstance(called, FunctionError):
                failed.append(called)
                continue
            changed, state = changed or called.changed, called.state if called.changed else state
            output.add(called.output)
        return _Called(changed, state, output), failed

    def _of_first_row(self, error: FunctionError, key: bytes, rows: range, before: bytes | None) -> FunctionError:
        """What a call raised, laid on the first of its rows that raises alone."""
        if len(rows) == 1:
            return error
        deadline = time.monotonic() + _SEARCH_S
        for called in self._one_by_one(key, rows, before):
            if isinstance(called, FunctionError):
                return called
            if time.monotonic() > deadline:
                break
        first, last = self._offsets[rows.start], self._offsets[rows.stop - 1]
        reason = (
            f"{error.reason} (the function was called with {len(rows):,} rows, from offset {first} to {last}, and none "
            "that was tried alone went wrong)"
        )
        return FunctionError(first, error.key, reason)


class _Called(NamedTuple):
    """What the user's function did with some rows of a key."""

    changed: bool
    state: bytes | None
    output: PutOut


def python_rows(rows: pa.Table) -> tuple[list[Row], dict[int, str]]:
    """Rows as dicts, a map as a dict too; and by index, why a row cannot be given to Python: its place is empty."""
    try:
        return rows.to_pylist(maps_as_pydicts="strict"), {}
    except (ValueError, OverflowError, KeyError):
        pass
    found, unreadable = list[Row](), dict[int, str]()
    for at in range(rows.num_rows):
        try:
            found += rows.slice(at, 1).to_pylist(maps_as_pydicts="strict")
        except (ValueError, OverflowError, KeyError) as error:
            found.append({})
            unreadable[at] = (
                f"a column of process() holds what Python cannot ({error}), such as a date after the year 9999 or a "
                "text that is not UTF-8: filter such records out, or cast the column to STRING"
            )
    return found, unreadable


def decoded(value: bytes, key: str) -> Any:
    """The value of a key.

    Raises:
        ConfigurationError: another operation wrote it.
    """
    try:
        return decode_state(value)
    except ValueError as error:
        raise ConfigurationError(
            f"The state of key {key!r} is not one of process() ({error}): the store was written by another operation. "
            "A changed job needs a new application id or store name."
        ) from error


_NO_LIMIT: Final = contextlib.nullcontext()


def time_limit(seconds: float | None) -> AbstractContextManager[None]:
    """Raise `TimeoutError` in the block when it takes longer.

    By an alarm signal, so it interrupts Python code and what waits in the kernel, in the main thread, where Spark's
    worker runs functions. It does not interrupt a library that computes without returning to Python.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        return _NO_LIMIT
    return _interrupted_after(seconds)


@contextlib.contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    def expired(*_: object) -> None:
        raise TimeoutError(f"it did not return within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def no_records_fault(called: str, why: str, what: str) -> ConfigurationError:
    """The error of a call that belongs to no record of the batch: it stops the task, under any policy.

    Args:
        called: which function was called, and for what.
        why: what went wrong.
        what: it was called for, which a corrected one goes on with.
    """
    return ConfigurationError(
        f"{called}, and {why}. Nothing was written, and no record of the input is to blame. Correct the function and "
        f"deploy again: the task goes on where it stopped, with that {what}."
    )


def process_text(function: Callable[..., Any], columns: Sequence[str]) -> str:
    """A function and what its rows hold, for people."""
    return f"process {getattr(function, '__name__', type(function).__name__)}({', '.join(columns)})"


def check_process_function(function: object, name: str | None = None, arguments: Sequence[str] = _ARGUMENTS) -> None:
    """Refuse a function that `process()` could not call with its three arguments, or whose call would do nothing.

    A generator function is taken: its rows are those that it yields.

    Args:
        function: any callable. One whose signature Python does not know, as of some that are written in C, is taken.
        name: of the argument of `process()` that it was given for; None for the function itself.

    Raises:
        ConfigurationError: it is none, is ``async``, takes fewer arguments, or needs more.
    """
    got = "process() got " if name is None else f"process() got {name}="
    if not callable(function):
        raise ConfigurationError(f"{got}{function!r}: give the function itself, without quotes.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    # An object is asynchronous by its class.
    if any(map(_is_asynchronous, (function, type(function).__call__))):
        raise ConfigurationError(
            f"{got}{_shown(function, signature)}, an 'async def': a call of it does nothing, because nothing "
            "awaits what it returns. Give a plain 'def'."
        )
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ConfigurationError(
            f"{got}{_shown(function, signature)}, and calls it as function({', '.join(arguments)}): {error}. "
            "Give a function that takes these three; functools.partial sets what else it needs."
        ) from None


def _is_asynchronous(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _shown(function: Callable[..., Any], signature: inspect.Signature) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return bounded(" ".join(f"{name}{signature}".split()), _SHOWN_CHARS)
