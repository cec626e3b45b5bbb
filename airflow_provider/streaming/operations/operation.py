"""The one contract of a keyed operation: with the worker, with the planner, and with people."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.control.records.status import TimeStatus
from airflow_provider.state.time_segments import TimeSegments
from airflow_provider.streaming.json.json_decoder import Decoded
from airflow_provider.streaming.json.types import json_schema, type_names
from airflow_provider.streaming.operations.batch import Changes, StateReader, StoreReader
from airflow_provider.streaming.operations.limits import Limits, first_too_large, row_by_row, shared_too_large
from airflow_provider.streaming.operations.stream_time import (
    MARK_MS,
    NO_WATERMARK,
    Ints,
    StreamTime,
    known,
    watermarks,
)
from airflow_provider.streaming.operations.upstream_time import UpstreamTime, upstream_column
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.terms.steps import PASSED

BESIDE_GROUPS: Final = b"\xff"
"""What the keys of a store begin with that are no groups: no UTF-8 text does."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A task's rows of a micro-batch.

    Args:
        key_name: the key column's name, for the output.
        rows: columns ``__key`` (binary), ``__offset`` (int64), with event time ``__event_ms``, and those that the
            operation reads, in the order of their offsets. Once they are placed, ``__key`` is what state is kept by.
        after: the time of the task after them.
        late: how many records came too late and are not among them.
        upstream: what the tasks have told that write the rows; None where the rows themselves move time.
        clock_ms: the time of the micro-batch, epoch ms, as the driver has said it; None where it has not.
    """

    key_name: str
    rows: pa.Table
    before: StreamTime
    after: StreamTime
    late: int = 0
    upstream: UpstreamTime | None = None
    clock_ms: int | None = None

    def watermarks(self, delay_ms: int) -> tuple[Ints, StreamTime]:
        """The watermark at each row, and the time of the task behind them.

        Args:
            delay_ms: by how much it lies behind the greatest event time, where no other task tells how far it is.
        """
        event_ms = self.rows.column(EVENT_MS).to_numpy()
        if self.upstream is None:
            return watermarks(event_ms, delay_ms, self.before)
        (of_side,) = self.side_watermarks(np.zeros(len(event_ms), np.int64), (delay_ms,))
        return of_side, self.time_of_sides(self.ends([of_side]))

    def own(self, marks: Ints) -> Ints:
        """The watermark at each row, by its own partition of the source where that has reached it (`PASSED`).

        Args:
            marks: by what else is known of time, as `watermarks` gives them.
        """
        if PASSED not in self.rows.schema.names:
            return marks
        passed: Ints = pc.fill_null(self.rows.column(PASSED), NO_WATERMARK).to_numpy()
        return np.maximum(marks, passed)

    def begins(self, sides: int) -> list[int]:
        """By side, its watermark before the rows, `NO_WATERMARK` before there is one; a single side has the task's."""
        if sides == 1:
            return [self.before.mark_ms]
        before = self.before.side_watermarks_ms or (None,) * sides
        return [NO_WATERMARK if mark is None else mark for mark in before]

    def side_watermarks(
        self, sides: Ints, delays_ms: Sequence[int], waits_ms: Sequence[int] | None = None
    ) -> list[Ints]:
        """By side, its watermark at each row, `NO_WATERMARK` before there is one.

        Args:
            sides: by row, which it is of.
            delays_ms: by side, by how much its watermark lies behind its greatest time, where no other task tells how
                far it is.
            waits_ms: by side, how far behind what other tasks tell it is to be; None for not at all.
        """
        event_ms, number = self.rows.column(EVENT_MS).to_numpy(), len(delays_ms)
        found = list[Ints]()
        waits = waits_ms or (0,) * number
        for side, (delay, wait, begin) in enumerate(zip(delays_ms, waits, self.begins(number), strict=True)):
            if (name := upstream_column(side)) in self.rows.schema.names:
                told = self.rows.column(name).to_numpy()
                marks = np.where(told == NO_WATERMARK, told, told - wait)
            else:
                marks = np.maximum.accumulate(np.where(sides == side, event_ms - delay, NO_WATERMARK))
            found.append(np.maximum(marks, begin))
        return found

    def ends(self, of_sides: Sequence[Ints], waits_ms: Sequence[int] | None = None) -> list[int]:
        """By side, its watermark behind the rows; see `side_watermarks`."""
        found, number = list[int](), len(of_sides)
        waits = waits_ms or (0,) * number
        for side, (of_side, wait, begin) in enumerate(zip(of_sides, waits, self.begins(number), strict=True)):
            told = None if self.upstream is None else self.upstream.sides[side]
            if told is not None and told != NO_WATERMARK:
                found.append(max(told - wait, begin))
            else:
                found.append(int(of_side[-1]) if len(of_side) else begin)
        return found

    def time_of_sides(self, ends: Sequence[int], watermark_ms: int | None = None) -> StreamTime:
        """The time of the task behind the rows.

        Args:
            ends: as `ends` gives them.
            watermark_ms: of the task; None for the least of its sides'.
        """
        times, before = self.rows.column(EVENT_MS), self.before
        seen = [] if before.stream_time_ms is None else [before.stream_time_ms]
        seen += [int(times.to_numpy().max())] if len(times) else []
        mark = max(min(ends) if watermark_ms is None else watermark_ms, before.mark_ms)
        return StreamTime(
            stream_time_ms=max(seen, default=None),
            watermark_ms=known(mark),
            side_watermarks_ms=tuple(map(known, ends)) if len(ends) > 1 else (),
            marks={} if self.upstream is None else self.upstream.marks,
        )

    def with_rows(self, rows: pa.Table) -> Batch:
        """Some of its rows, at the same time."""
        return dataclasses.replace(self, rows=rows)

    def placed(self, rows: pa.Table, after: StreamTime, in_time: npt.NDArray[np.bool_] | None = None) -> Batch:
        """The rows, once it is known how they move time, and which came too late.

        Args:
            after: the time of the task after all of them.
            in_time: by row, whether it did not come too late; None for all. A record is late when none of its rows is
                left.
        """
        if in_time is None or in_time.all():
            return dataclasses.replace(self, rows=rows, after=after)
        kept = rows.filter(pa.array(in_time))
        all_, left = (len(np.unique(table.column("__offset").to_numpy())) for table in (rows, kept))
        return dataclasses.replace(self, rows=kept, after=after, late=all_ - left)


class Decoder(Protocol):
    """Reads the values of records in the worker."""

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """The columns of the rows, and which values are none."""


class StoredStates(NamedTuple):
    """What a store holds, for people.

    Args:
        schema: of the rows that the operation gets, with `columns` at least.
        read: gives the values of further keys.
    """

    items: Sequence[tuple[bytes, bytes]]
    schema: pa.Schema
    time: StreamTime
    read: Callable[[Sequence[bytes]], Sequence[bytes | None]]


class Operation(ABC):
    """What is done with the rows of a key. Pickled to the workers; pure, so that a repeated batch computes the same.

    A worker takes a batch through it from top to bottom: `place`, `merge`, `fitted`, `close`; what is over is dropped
    by `expired_before_ms`. What has a default is for an operation that knows nothing of time, and whose results are one
    for each key.
    """

    timed: ClassVar[bool] = False
    """Whether the keys of its store begin with a time (`state.time_segments`), and what is over is dropped."""

    sided: ClassVar[bool] = False
    """Whether its rows are of two sides, each with a time of its own."""

    lasting: ClassVar[bool] = False
    """Whether each record that it puts out stays, in no certain order, and a later one of its key replaces none."""

    lets_pass: ClassVar[bool] = False
    """Whether the watermark that a row of its left side brings goes on with what it is joined to (`PASSED`)."""

    shared: ClassVar[bool] = False
    """Whether a result is made of many rows, none of which can be left out alone."""

    if TYPE_CHECKING:  # a dataclass would take it for the default of its field

        @property
        def columns(self) -> tuple[str, ...]:
            """The input columns that it reads, besides the key."""

        @property
        def outputs(self) -> Mapping[str, str]:
            """By name the schema of the rows that it puts out beside (`Changes.named`), in Spark DDL; else none."""

    else:
        outputs: ClassVar = MappingProxyType({})

    # -- what is written for it, and by it -----------------------------------------------------------------------

    @property
    def decoder(self) -> Decoder | None:
        """Of the records that an earlier stage writes for it alone; None where they are JSON objects of its columns."""
        return None

    def of_rows(self, schema: pa.Schema) -> Operation:
        """The same, once it is known of which rows an earlier stage makes its records."""
        return self

    @property
    def uses_time(self) -> bool:
        """Whether what comes out depends on how far event time has got."""
        return self.timed

    @property
    def clocked(self) -> bool:
        """Whether something may come out by the clock: `close` is asked in each call, also where nothing has come."""
        return False

    @property
    def timer_prefixes(self) -> Mapping[str, bytes]:
        """By kind, what the keys of its timers begin with, before their times (`time_prefix`); none by default."""
        return {}

    @property
    def marks_rows(self) -> bool:
        """Whether its placed rows have the watermark at each of them, as `MARK_MS`."""
        return self.passes

    @property
    def passes(self) -> bool:
        """Whether what it puts out says how far time was where its rows came from (`PASSED`)."""
        return False

    def passing(self, delay_ms: int = 0, *, always: bool = False) -> Operation:
        """The same, where it writes rows for what lets their own watermark pass, or lets it pass itself.

        Args:
            delay_ms: by how much what is told of time behind that lies behind the rows' own.
            always: whether each row has it, because a step behind makes another time of the row's.
        """
        return self

    @property
    def wants_passed(self) -> bool:
        """Whether in what a row counts depends on that, when it is known not to be late."""
        return False

    @property
    def side_written(self) -> int | None:
        """Which side of a join it writes; None for none."""
        return None

    @property
    def needs_time(self) -> bool:
        """Whether it reads the event times of its rows."""
        return self.uses_time

    @property
    def written_key(self) -> str | None:
        """The column whose text is the key of what it puts out; None for the one that it groups by."""
        return None

    def writes(self, key_name: str, schema: pa.Schema) -> str:
        """The schema of the JSON objects that it puts out, in Spark DDL; by default it has the columns that it reads.

        Args:
            schema: of the rows that it gets, with `columns` at least.

        Raises:
            ConfigurationError: nobody knows what it puts out.
        """
        passed = [pa.field(PASSED, pa.int64())] if self.passes else []
        return json_schema(pa.schema([*(schema.field(name) for name in self.columns), *passed]))

    def written_keys(self, key_name: str) -> tuple[str, ...]:
        """The columns of what it puts out that hold the key, or parts of it, as text; none by default."""
        return ()

    def of_output(self, name: str) -> Operation:
        """The same, as those know it who read one of its outputs with a name: `writes` is of that one."""
        raise NotImplementedError(f"{type(self).__name__} has no output {name!r}")

    # -- what its state means ------------------------------------------------------------------------------------

    @abstractmethod
    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """What the state means that it writes into an empty store.

        Args:
            key_type: its type before it became text; None while it is not known.
            schema: of the rows that it gets, with `columns` at least; None while the types are not known, which are
                left out then.

        Raises:
            ConfigurationError: a column has a type that the operation cannot keep.
        """

    def reading(
        self, signature: StoreSignature, schema: pa.Schema | None, before: Mapping[str, Operation]
    ) -> StoreSignature:
        """Its signature behind an internal topic, with how it reads what is on the way.

        Args:
            schema: of the rows that it gets; None while their types are not known.
            before: by source topic, the operations of the stages that write the internal topic.
        """
        combined = False if signature.aggregates else None
        return dataclasses.replace(signature, combined=combined, columns=type_names(schema, self.columns))

    def going_on(self, signature: StoreSignature) -> Operation:
        """The same operation on a store that holds what was written before.

        Args:
            signature: of that store, continued by this operation's own (`StoreSignature.continued_by`).
        """
        return self

    # -- a batch -------------------------------------------------------------------------------------------------

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        """How the rows move time: leave out those that are late, and give the others the keys that state is kept by.

        Args:
            batch: with event time; it may be without rows where other tasks tell how far they are.
            delay_ms: by how much the watermark lies behind the source's time.
        """
        marks, after = batch.watermarks(delay_ms)
        own = batch.own(marks)
        at = own if self.passes or self.wants_passed else marks
        rows = batch.rows.append_column(MARK_MS, pa.array(at)) if self.marks_rows else batch.rows
        return batch.placed(rows, after, self.comes_in_time(rows.column(EVENT_MS).to_numpy(), own))

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        """Which rows are not late.

        Args:
            side: that the rows are of; or by row.
        """
        return np.ones(len(event_ms), bool)

    def told_by(self, side: int | None) -> tuple[int | None, ...]:
        """The sides whose tasks say how far a side of its rows has got, of which the least counts: by default its own.

        Args:
            side: None where its rows are of no side.
        """
        return (side,)

    def told_ms(self, time: StreamTime) -> int | None:
        """Before which event time none of the rows lies that it puts out later; None where that is not known."""
        return time.watermark_ms

    @abstractmethod
    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """New state and output; each key changes once at the most.

        Args:
            batch: placed; at least one row.
            state: reads the store as it was before the batch. Every key that is changed has to have been read with its
                `get_many`, or the store's digest is wrong from then on.
            tolerant: leave out the rows that make the user's function raise, instead of raising.

        Raises:
            FunctionError: the user's function raised, and `tolerant` is false; nothing has been written.
            ConfigurationError: a column has a type that the operation cannot keep.
        """

    def fitted(self, batch: Batch, changes: Changes, state: StoreReader, limits: Limits, tolerant: bool) -> Changes:
        """The changes without the records to blame for a state or an output that is larger than its topic takes.

        Args:
            tolerant: leave those records out, instead of raising.

        Raises:
            TooLargeError: there is one, and `tolerant` is false, or it is made of several rows of which none alone can
                be left out.
        """
        large = limits.of(changes)
        if not large:
            return changes
        if self.shared:
            raise shared_too_large(batch.rows, large, self.groups)
        if not tolerant:
            raise first_too_large(batch.rows, large)

        def merge(rows: pa.Table, known: StateReader) -> Changes:
            return self.merge(batch.with_rows(rows), known, tolerant=True)

        return row_by_row(merge, batch.rows, state.known, changes, limits, large)

    def close(self, batch: Batch, changes: Changes, state: StateReader) -> Changes:
        """What is written of a batch's changes: nothing is kept of what ended in it, and what ends comes out.

        Args:
            batch: placed; without rows where time alone goes on.
        """
        return changes

    @property
    def segments(self) -> TimeSegments | None:
        """How the keys' times are cut: what has ended is dropped by the segment. None where there are none."""
        return None

    def expired_before_ms(self, watermark_ms: int) -> int | None:
        """Before which time the store is dropped: the start of a segment; None where nothing is."""
        return None

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        """The groups that some keys of the store are of, in their order."""
        return list(keys)

    def ranges_of(self, group: bytes) -> Sequence[tuple[bytes, bytes]]:
        """From which keys to which a store keeps what people see of a group (`read_states`); by default under it alone.

        Where the operation is `timed`, what stands behind the time; other groups may lie there, too. Timers lie
        elsewhere, by their times.
        """
        return [(group, group + b"\0")]

    # -- what people see -----------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """What it does, such as ``aggregate count() AS orders``."""
        return type(self).__name__

    def time_status(self, time: StreamTime, sides: Sequence[str]) -> TimeStatus:
        """How far the watermark of a task has got, and what it waits for.

        Args:
            time: of the task, as of its last commit.
            sides: what the sides of its rows are, the left one first; empty where there are none.
        """
        told = {task: at for task, at in time.marks.items() if at is not None}
        if not told:
            return TimeStatus(watermark_ms=time.watermark_ms)
        last = min(told, key=lambda task: (told[task], task))
        ms = max(told.values()) - told[last]
        return TimeStatus(
            watermark_ms=time.watermark_ms, held_back_by=f"task {last}" if ms else None, held_back_ms=ms or None
        )

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """Stored values, as people read them; None for one that says that there is none. By default as they are.

        Args:
            states: as `Changes.state` has them.
            schema: of the rows that it gets, with `columns` at least.

        Raises:
            ConfigurationError: another operation wrote them.
        """
        return list(states)

    def read_states(self, stored: StoredStates) -> Iterator[tuple[str, str, Any]]:
        """What a store holds for people; of windows, those that are open.

        Returns:
            The group, the name of the state, which is that of the window's output records, and the state.
        """
        found = [(key, state) for key, state in stored.items if not key.startswith(BESIDE_GROUPS)]
        states = self.decode_states([state for _, state in found], stored.schema) if found else []
        for (key, _), state in zip(found, states, strict=True):
            if state is not None:
                yield key.decode(), key.decode(), state
