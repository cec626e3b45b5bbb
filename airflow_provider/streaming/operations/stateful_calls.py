"""Calls of a job's functions with rows and timers, one after the other, over a store's state."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.streaming.json.user_values import decode_state, encode_state, rows_of
from airflow_provider.streaming.operations.batch import Changes, FunctionError, OpenState, StateReader
from airflow_provider.streaming.operations.limits import Limits, TooLargeError
from airflow_provider.streaming.operations.process import decoded, no_records_fault, time_limit
from airflow_provider.streaming.operations.process_state import (
    CLOCK,
    EXPIRY,
    SET,
    TIMER,
    KeptPairs,
    KeptStore,
    KeyState,
    Moment,
    Timers,
    group_of,
    stored_key,
    time_and_target,
    timed_key,
)
from airflow_provider.streaming.operations.put_out import PutOut
from airflow_provider.streaming.operations.stream_time import NO_WATERMARK

if TYPE_CHECKING:
    from airflow_provider.streaming.operations.operation import Batch
    from airflow_provider.streaming.operations.stateful_process import StatefulProcess

_NONE_SET: Final = "there is no function for this timer: give process() {}"


class _LargeError(Exception):
    """What a call came to does not fit."""


class StatefulCalls:
    """A part of a batch: rows, or time alone.

    Time goes from row to row. What is due at a row, because the watermark has reached its time, comes before the row,
    in the order of time and then key; so it does not matter where micro-batches end.

    Args:
        mark_ms: the watermark before.
        end_ms: the one behind.
        limits: how large what a call comes to may be; None where that is not known yet.
    """

    def __init__(
        self,
        operation: StatefulProcess,
        batch: Batch,
        state: StateReader,
        *,
        mark_ms: int,
        end_ms: int,
        limits: Limits | None = None,
    ) -> None:
        self._operation, self._key_name, self._limits = operation, batch.key_name, limits
        self._open = OpenState(state)
        self._now, self._end, self._clock_ms = mark_ms, end_ms, batch.clock_ms
        # Of event time, with the looks at what has a ttl; and of the clock.
        self._due, self._rings = list[tuple[int, bytes, bytes]](), list[tuple[int, bytes]]()
        self._output = PutOut.nothing()
        prefixes = [EXPIRY] if operation.has_ttl else []
        self._expect([*prefixes, TIMER] if operation.on_timer is not None else prefixes, end_ms)

    def _expect(self, prefixes: Iterable[bytes], end_ms: int) -> None:
        """Read what is due by a time, at once with what the calls will ask for."""
        found = list[bytes]()
        for prefix in prefixes:
            found += [key for key, _ in self._open.range(prefix, timed_key(prefix, end_ms + 1, b""))]
        if not found:
            return
        for key in found:
            time_ms, target = time_and_target(key)
            if key.startswith(CLOCK):
                heapq.heappush(self._rings, (time_ms, target))
            else:
                heapq.heappush(self._due, (time_ms, key[: len(TIMER)], target))
        targets = [time_and_target(key)[1] for key in found if key.startswith(EXPIRY)]
        self._open.load([*found, *targets])
        self.load(group_of(key) for key in found if not key.startswith(EXPIRY))

    def load(self, groups: Iterable[bytes]) -> None:
        """Read at once what the calls of some groups ask for most often."""
        stores = [store for store in self._operation.stores if store.kind != "map"]
        self._open.load(key for group in groups for key in (group, *(store.key(group) for store in stores)))

    def changes(self, failed: Iterable[FunctionError] = ()) -> Changes:
        """What all calls came to."""
        return Changes(self._open.changes, self._output.rows, list(failed), named=self._output.named)

    def advance(self, mark_ms: int) -> None:
        """The watermark goes on, and what is due by then comes out.

        Raises:
            ConfigurationError: the job's function raised: no record is to blame for it.
        """
        operation = self._operation
        while self._due and self._due[0][0] <= mark_ms:
            time_ms, prefix, target = heapq.heappop(self._due)
            key = timed_key(prefix, time_ms, target)
            if self._open.get(key) is None:
                continue  # it was taken back
            self._now = max(self._now, time_ms)
            self._open.put(key, None)
            if prefix == EXPIRY:
                self._expire(target)
            else:
                self._fire("on_timer", operation.on_timer, target, time_ms, TIMER)
        self._now = max(self._now, mark_ms)

    def ring(self) -> None:
        """What is due by the clock comes out; as `advance`."""
        if self._clock_ms is None or self._operation.on_clock is None:
            return
        self._expect([CLOCK], self._clock_ms)
        while self._rings and self._rings[0][0] <= self._clock_ms:
            time_ms, group = heapq.heappop(self._rings)
            key = timed_key(CLOCK, time_ms, group)
            if self._open.get(key) is not None:
                self._open.put(key, None)
                self._fire("on_clock", self._operation.on_clock, group, time_ms, CLOCK)
                self.advance(self._now)

    def row(self, group: bytes, row: dict[str, Any], offset: int, event_ms: int) -> None:
        """Call the function with a row, and fire what it set for a time that is over.

        Raises:
            FunctionError: it raised, or what it came to is too large; the state is as before.
            ConfigurationError: as `advance`.
        """
        text, value = group.decode("utf-8", "replace"), self._value(group)
        moment = Moment(self._now, max(self._now, event_ms))
        try:
            self._call(self._operation.function, group, [row], value, moment, None)
        except MemoryError:
            raise  # the host's: no record is to blame, and none may be skipped for it
        except _LargeError as error:
            self._open.undo()
            raise TooLargeError(offset, text, str(error)) from error
        except Exception as error:
            self._open.undo()
            reason = f"{type(error).__name__} in the job's function: {error}"
            raise FunctionError(offset, text, reason) from error
        self.advance(self._now)

    def _fire(self, name: str, function: Callable[..., Any] | None, group: bytes, time_ms: int, prefix: bytes) -> None:
        value = self._value(group)
        try:
            self._call(function, group, time_ms, value, Moment(self._now, self._now), (prefix, time_ms))
        except MemoryError:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, _LargeError) else f"it raised {type(error).__name__}: {error}"
            key = group.decode("utf-8", "replace")
            called = f"{name}() of the job was called for key {key!r} and the timer of {time_ms}"
            raise no_records_fault(called, reason, "timer") from error

    def _value(self, group: bytes) -> Any:
        """The one value of a key; raises where another operation wrote it, which is no record's fault."""
        raw = self._open.get(group)
        return None if raw is None else decoded(raw, group.decode("utf-8", "replace"))

    def _call(
        self,
        function: Callable[..., Any] | None,
        group: bytes,
        given: Any,
        value: Any,
        moment: Moment,
        fired: tuple[bytes, int] | None,
    ) -> None:
        """Call a function of the job, and keep what it came to.

        Args:
            fired: the kind and time of the timer; None of a row.
        """
        assert function is not None
        operation, text = self._operation, group.decode("utf-8", "replace")
        self._open.begin()
        state = KeyState(
            value,
            [(store, self._pairs(store, group, moment)) for store in operation.stores],
            self._timers(TIMER, group, moment.now_ms, fired),
            self._timers(CLOCK, group, NO_WATERMARK if self._clock_ms is None else self._clock_ms, fired),
        )
        with time_limit(operation.timeout_s):
            returned = rows_of(function(text, given, state))
        output = operation.put_out(returned, self._key_name, group, text)
        operation.check_times(returned, moment.now_ms)
        if state.changed:
            self._open.put(group, encode_state(state.get()) if state.exists() else None)
        if self._limits is not None:
            changes = Changes(self._open.changed_by_call, output.rows, named=output.named)
            for reason in self._limits.of(changes).values():
                raise _LargeError(reason)
        self._output.add(output)

    def _timers(self, prefix: bytes, group: bytes, now_ms: int, fired: tuple[bytes, int] | None) -> Timers:
        function, name = (
            (self._operation.on_timer, "on_timer=") if prefix == TIMER else (self._operation.on_clock, "on_clock=")
        )
        fired_ms = fired[1] if fired is not None and fired[0] == prefix else None
        return Timers(
            now_ms,
            fired_ms,
            lambda at, value: self._put(prefix, at, group, value),
            "" if function is not None else _NONE_SET.format(name),
        )

    def _pairs(self, store: KeptStore, group: bytes, moment: Moment) -> KeptPairs:
        return KeptPairs(self._open, store, group, moment, functools.partial(self._put, EXPIRY))

    def _put(self, prefix: bytes, time_ms: int, target: bytes, value: bytes | None) -> None:
        """Keep or forget what is due at a time, which may be in this batch."""
        self._open.put(timed_key(prefix, time_ms, target), value)
        if value is None:
            return
        if prefix == CLOCK:
            if self._clock_ms is not None and time_ms <= self._clock_ms:
                heapq.heappush(self._rings, (time_ms, target))
        elif time_ms <= self._end:
            heapq.heappush(self._due, (time_ms, prefix, target))

    def _expire(self, key: bytes) -> None:
        """What a look finds over is dropped; what is not is looked at again."""
        found, raw = stored_key(key), self._open.get(key)
        store = None if found is None else self._operation.store(found.kind, found.name)
        if found is None or store is None or raw is None:
            return
        left = store.alive(decode_state(raw), self._now)
        self._pairs(store, found.group, Moment(self._now, self._now)).write(left, found.entry)
        if (look := store.look_ms(left)) is not None:
            # It may have been for a shorter ttl, of the job as it was.
            self._put(EXPIRY, look, key, SET)
