"""A Python function per key, with several stores of each key, and timers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json.user_values import decode_state
from airflow_provider.streaming.operations.batch import ChangedState, Changes, FunctionError, StateReader, StoreReader
from airflow_provider.streaming.operations.limits import Limits
from airflow_provider.streaming.operations.operation import Batch, StoredStates
from airflow_provider.streaming.operations.process import Process, Row, check_process_function, python_rows
from airflow_provider.streaming.operations.process_state import (
    CLOCK,
    TIMER,
    KeptStore,
    KeyState,
    Kind,
    check_stores,
    epoch_ms,
    group_of,
    stored_key,
    time_and_target,
)
from airflow_provider.streaming.operations.put_out import kinds_of
from airflow_provider.streaming.operations.stateful_calls import StatefulCalls
from airflow_provider.streaming.operations.stream_time import MARK_MS, NO_WATERMARK, Ints
from airflow_provider.streaming.terms.event_time import EVENT_MS

RowFunction = Callable[[str, list[Row], KeyState], Iterable[Row] | None]
"""``function(key, rows, state)`` as a `ProcessFunction`, with one row."""

TimerFunction = Callable[[str, int, KeyState], Iterable[Row] | None]
"""``function(key, time_ms, state)``: called when a timer of a key is due; returns what a `ProcessFunction` does."""


@dataclass(frozen=True)
class StatefulProcess(Process):
    """An operation that calls a function once per row, and others when their timers are due.

    With rows of one call the watermark would go on in the middle of it, and with it what is due and what is over.

    Args:
        on_timer: of timers of event time.
        on_clock: of those of the clock.
        event_time: the column of what it puts out that holds the time of that; None where nobody asks for it.
    """

    stores: tuple[KeptStore, ...] = ()
    on_timer: TimerFunction | None = None
    on_clock: TimerFunction | None = None
    event_time: str | None = None

    @classmethod
    def extended(
        cls, process: Process, stores: object, on_timer: object, on_clock: object, event_time: str | None = None
    ) -> StatefulProcess:
        """A `process()` with stores and timers, or whose rows have a time.

        Raises:
            ConfigurationError: an argument is not what it has to be.
        """
        for name, function in (("on_timer", on_timer), ("on_clock", on_clock)):
            if function is not None:
                check_process_function(function, name, ("key", "time_ms", "state"))
        return cls(
            **{name: getattr(process, name) for name in Process.__dataclass_fields__},
            stores=check_stores(stores),
            on_timer=on_timer,  # type: ignore[arg-type]  # it was just checked
            on_clock=on_clock,  # type: ignore[arg-type]
            event_time=event_time,
        )

    @property
    def marks_rows(self) -> bool:
        return True

    @property
    def has_ttl(self) -> bool:
        """Whether what it keeps may be over some time."""
        return any(store.ttl_ms is not None for store in self.stores)

    @property
    def clocked(self) -> bool:
        return self.on_clock is not None

    @property
    def timer_prefixes(self) -> Mapping[str, bytes]:
        kinds = (("timers", TIMER, self.on_timer), ("clock", CLOCK, self.on_clock))
        return {kind: prefix for kind, prefix, function in kinds if function is not None}

    @property
    def uses_time(self) -> bool:
        return self.on_timer is not None or self.has_ttl or self.event_time is not None

    def store(self, kind: Kind, name: str) -> KeptStore | None:
        """A store that it has."""
        return next((store for store in self.stores if (store.kind, store.name) == (kind, name)), None)

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        return [group_of(key) for key in keys]

    def ranges_of(self, group: bytes) -> Sequence[tuple[bytes, bytes]]:
        """See `Operation.ranges_of`: its value, and each store."""
        return [*super().ranges_of(group), *(store.range_of(group) for store in self.stores)]

    # -- a batch -------------------------------------------------------------------------------------------------

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        """See `Operation.comes_in_time`: nothing is late, unless what comes of it would be, behind."""
        return super().comes_in_time(event_ms, marks) if self.event_time is None else event_ms >= marks

    def check_times(self, returned: Sequence[Any], watermark_ms: int) -> None:
        """Refuse what a call put out for a time that is over: those behind were told that no such row comes.

        Args:
            returned: rows, and pairs of an output's name and a row, as `PutOut.of` takes them.

        Raises:
            ValueError: a row's time is before the watermark, or none.
        """
        for one in returned if self.event_time is not None else ():
            row, schema = (one[1], self.outputs[one[0]]) if isinstance(one, tuple) else (one, self.schema)
            if self.event_time not in kinds_of(schema or ""):
                continue
            if (time_ms := epoch_ms(row.get(self.event_time), "an event time")) < watermark_ms:
                raise ValueError(
                    f"a row was put out with {self.event_time!r} at {time_ms}, and the watermark is at {watermark_ms} "
                    "already: those behind wait for no such row. Give it a time that is not over, such as the timer's"
                )

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: row after row, in the order of the topic."""
        return self._merged(batch, state, tolerant, None)

    def fitted(self, batch: Batch, changes: Changes, state: StoreReader, limits: Limits, tolerant: bool) -> Changes:
        """See `Operation.fitted`: the rows are gone through again, and each call is measured."""
        return self._merged(batch, state, tolerant, limits) if limits.of(changes) else changes

    def _merged(self, batch: Batch, state: StateReader, tolerant: bool, limits: Limits | None) -> Changes:
        rows, timed = batch.rows, MARK_MS in batch.rows.schema.names
        given, unreadable = python_rows(rows.select(list(self.columns)))
        keys, offsets = rows.column("__key").to_pylist(), rows.column("__offset").to_pylist()
        marks = rows.column(MARK_MS).to_pylist() if timed else [NO_WATERMARK] * len(keys)
        times = rows.column(EVENT_MS).to_pylist() if timed else marks
        calls = StatefulCalls(self, batch, state, mark_ms=batch.before.mark_ms, end_ms=marks[-1], limits=limits)
        calls.load(dict.fromkeys(keys))
        failed = list[FunctionError]()
        for at, (key, offset, mark, time) in enumerate(zip(keys, offsets, marks, times, strict=True)):
            calls.advance(mark)
            try:
                if at in unreadable:
                    raise FunctionError(offset, key.decode("utf-8", "replace"), unreadable[at])
                calls.row(key, given[at], offset, time)
            except FunctionError as error:
                if not tolerant:
                    raise
                failed.append(error)
        return calls.changes(failed)

    def close(self, batch: Batch, changes: Changes, state: StateReader) -> Changes:
        """See `Operation.close`: what is due behind the rows, by what other tasks told, or by the clock."""
        rows, end = batch.rows, batch.after.mark_ms
        placed = MARK_MS in rows.schema.names and rows.num_rows
        last = rows.column(MARK_MS)[-1].as_py() if placed else batch.before.mark_ms
        if end <= last and (self.on_clock is None or batch.clock_ms is None):
            return changes
        calls = StatefulCalls(self, batch, ChangedState(state, changes.state), mark_ms=last, end_ms=end)
        calls.advance(end)
        calls.ring()
        more = calls.changes()
        return changes.then(more) if more.state or more.output or more.named else changes

    # -- what people see -----------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        stores = [f"{store.kind} {store.name}" for store in self.stores]
        timers = [name for name, function in (("timers", self.on_timer), ("clock", self.on_clock)) if function]
        kept = ", ".join([*stores, *timers])
        return f"{super().text} with {kept}" if kept else super().text

    def read_states(self, stored: StoredStates) -> Iterator[tuple[str, str, Any]]:
        """See `Operation.read_states`: by key a dict of its ``value``, its stores by name, ``timers`` and ``clock``."""
        now = stored.time.mark_ms
        found = defaultdict[bytes, dict[str, Any]](dict)
        for key, raw in stored.items:
            group = group_of(key)
            if key == group:
                found[group]["value"] = self.decode_states([raw], stored.schema)[0]
            elif (named := stored_key(key)) is not None:
                store = self.store(named.kind, named.name) or KeptStore(named.kind, named.name)
                values = [value for _, value in store.alive(decode_state(raw), now)]
                if not values:
                    continue
                if named.kind == "map":
                    found[group].setdefault(named.name, {})[decode_state(named.entry)] = values[0]
                else:
                    found[group][named.name] = values if named.kind == "list" else values[0]
            elif key.startswith((TIMER, CLOCK)):
                name = "timers" if key.startswith(TIMER) else "clock"
                found[group].setdefault(name, []).append(time_and_target(key)[0])
        for group in sorted(found):
            yield group.decode(), group.decode(), found[group]


def check_time(operation: StatefulProcess, *, has_time: bool) -> None:
    """Refuse timers of event time, a ttl and an event time of what it puts out where there is none.

    Raises:
        ConfigurationError: the stream has no event time.
    """
    if operation.uses_time and not has_time:
        what = "on_timer=" if operation.on_timer is not None else "a ttl=" if operation.has_ttl else "event_time="
        raise ConfigurationError(
            f"process() got {what}, and the source has no event time, by which that goes: say for how long late "
            "records are waited for with watermark='10 minutes' where the source is named, and which column is the "
            "time with event_time='at'; without that it is the record's own."
        )
