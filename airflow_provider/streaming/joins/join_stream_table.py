"""Rows of a stream, each with the row of a table that has its key."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.control.records.status import TimeStatus
from airflow_provider.streaming.joins.deleted_keys import (
    deleted_key,
    group_of_deleted,
    listed,
    over_keys,
    over_until,
    place_by_side,
    times_before,
)
from airflow_provider.streaming.joins.join_operation import JoinOperation
from airflow_provider.streaming.joins.join_rows import (
    FLAGS,
    GONE,
    LEFT,
    RIGHT,
    ROW,
    UNKEYED,
    JoinedColumns,
    KeptRow,
    decode_rows,
    encode_rows,
    newest_row,
    python_row,
)
from airflow_provider.streaming.joins.join_table_in_time import TABLE_MS, TableRowsInTime, group_of
from airflow_provider.streaming.joins.version_chunks import chunk_keys, versions_of, whole_state
from airflow_provider.streaming.operations.batch import ChangedState, Changes, StateReader
from airflow_provider.streaming.operations.operation import BESIDE_GROUPS, Batch, StoredStates
from airflow_provider.streaming.operations.stream_time import MARK_MS, NO_WATERMARK, StreamTime
from airflow_provider.streaming.terms.argument_check import duration_text
from airflow_provider.streaming.terms.event_time import EVENT_MS

Change = tuple[bytes, bytes | None]


@dataclass(frozen=True, kw_only=True)
class StreamTableJoin(JoinOperation):
    """An operation that keeps a table's rows by key, and emits the stream's rows with those of the table.

    A row of the table that is older than the newest of its key by more than `history_ms` says nothing any more: so
    without a history an older row never replaces a newer one, and a row of the stream meets the newest. With a history
    it meets the last one that is not later than itself.

    With a grace a row of the stream waits until the stream's time has passed its own by that. One that is further
    behind than that is joined at once. What the watermark, which is the stream's time less the grace, has passed is
    needed no more, so without a history of their own a key's earlier rows are kept until then. Where it waits for the
    table, the watermark is the least of what the tasks of both sides have told: Flink's temporal join.

    Args:
        how: ``inner`` emits only rows of the stream for which the table has one, ``left`` all.
        history_ms: for how long a key's earlier rows are kept, counted back from its newest; None for as long as a row
            of the stream may have to meet them, which needs a grace.
        grace_ms: how long rows of the stream wait; None for not at all.
        waits_for_table: whether the table's time counts as well; with a grace.
        passes: whether the stream's rows bring their own watermark (`PASSED`), for what is done with them behind.
    """

    lasting: ClassVar[bool] = True
    lets_pass: ClassVar[bool] = True

    joined: JoinedColumns
    how: Literal["inner", "left"]
    history_ms: int | None = 0
    grace_ms: int | None = None
    waits_for_table: bool = False
    broadcast: bool = False
    passes: bool = False

    @property
    def delay_ms(self) -> int:
        return self.grace_ms or 0

    def passing(self, delay_ms: int = 0, *, always: bool = False) -> StreamTableJoin:
        return dataclasses.replace(self, passes=True)

    @property
    def in_time(self) -> bool:
        """Whether a row of the stream meets the table's row of its time."""
        return self.grace_ms is not None or bool(self.history_ms)

    @property
    def kept(self) -> str:
        # What waits, and what is to be forgotten, lies beside the table's rows.
        until = ", each until its history is over, in chunks" if self.in_time else ""
        return f"{'all of ' if self.broadcast else ''}a table's rows for a stream{until}"

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """See `JoinOperation.kept_columns`; `how` and the stream's may change, because nothing is kept of them."""
        return (self.joined.on, *self.joined.right)

    def place(self, batch: Batch, delay_ms: int) -> Batch:
        """See `Operation.place`: the stream alone moves the watermark, and the table has a time of its own."""
        if not self.in_time:
            return place_by_side(batch)
        rows = batch.rows
        sides = (rows.column(FLAGS).to_numpy() & RIGHT).astype(np.int64)
        waits = (self.grace_ms or 0, 0)
        of_sides = batch.side_watermarks(sides, waits, waits)
        rows = rows.append_column(MARK_MS, pa.array(of_sides[LEFT])).append_column(TABLE_MS, pa.array(of_sides[RIGHT]))
        ends = batch.ends(of_sides, waits)
        return batch.placed(rows, batch.time_of_sides(ends, NO_WATERMARK if self.grace_ms is None else ends[LEFT]))

    @property
    def uses_time(self) -> bool:
        return self.grace_ms is not None

    def told_by(self, side: int | None) -> tuple[int | None, ...]:
        return (LEFT, RIGHT) if self.waits_for_table and side == LEFT else (side,)

    def told_ms(self, time: StreamTime) -> int | None:
        """See `Operation.told_ms`: the stream's."""
        return time.side_watermarks_ms[LEFT] if time.side_watermarks_ms else None

    def close(self, batch: Batch, changes: Changes, state: StateReader) -> Changes:
        """See `Operation.close`: what other tasks have told behind the rows lets out what waited for it."""
        mark = batch.after.watermark_ms
        if self.grace_ms is None or batch.upstream is None or mark is None:
            return changes
        more = TableRowsInTime(self, batch.rows.slice(0, 0), mark).merge(ChangedState(state, changes.state))
        return changes.then(more)

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`; the output is in the order of the topic."""
        if self.in_time:
            return TableRowsInTime(self, batch.rows).merge(state)
        return StreamTableRows(self, batch.rows).merge(state)

    @property
    def keeps_many(self) -> bool:
        """See `JoinOperation.keeps_many`: what comes out with the rows of its time may be made of many."""
        return self.in_time

    def groups(self, keys: Sequence[bytes]) -> list[bytes]:
        return [group_of(key) for key in keys]

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: the table's newest row; with a history all that are kept, and from when on.

        None where there is none: the key was deleted.
        """
        if not self.in_time:
            kept = [decode_rows(state) for state in states]
            return [None if versions[-1].gone else python_row(versions[-1].row) for versions in kept]
        return [
            [{"from_ms": v.time, "row": None if v.gone else python_row(v.row)} for v in versions_of(state)]
            for state in states
        ]

    def read_states(self, stored: StoredStates) -> Iterator[tuple[str, str, Any]]:
        """See `Operation.read_states`: with a history or a grace, all versions that a row may still need."""
        if not self.in_time:
            yield from super().read_states(stored)
            return
        kept = ((key, state) for key, state in stored.items if not key.startswith(BESIDE_GROUPS))
        stored = stored._replace(items=[(key, self._whole(key, state, stored.read)) for key, state in kept])
        for group, name, versions in super().read_states(stored):
            # What is over lies there until the next row of its key.
            begin = stored.time.mark_ms if self.history_ms is None else NO_WATERMARK
            over = max(bisect.bisect_right(versions, begin, key=itemgetter("from_ms")) - 1, 0)
            yield group, name, versions[over:]

    @staticmethod
    def _whole(key: bytes, state: bytes, read: Callable[[Sequence[bytes]], Sequence[bytes | None]]) -> bytes:
        keys = chunk_keys(key, state)
        return whole_state(key, {key: state, **dict(zip(keys, read(keys), strict=True))})

    @property
    def text(self) -> str:
        history = f", history {duration_text(self.history_ms)}" if self.history_ms else ""
        grace = f", grace {duration_text(self.grace_ms)}" if self.grace_ms else ""
        if self.waits_for_table:
            grace = " as of the row's time"
        table = "all of a table" if self.broadcast else "a table"
        return f"{self.how} join of a stream with {table}{history}{grace}"

    def time_status(self, time: StreamTime, sides: Sequence[str]) -> TimeStatus:
        """See `Operation.time_status`: rows of the stream that wait for the table's go on at their own pace."""
        if self.grace_ms is None or self.waits_for_table or not time.side_watermarks_ms:
            return super().time_status(time, sides)
        left, right = time.side_watermarks_ms
        # Up to where the stream would have to get, for all to be let out that the table has rows for.
        right = None if right is None else right - self.grace_ms
        behind = None if right is None or (left is not None and left >= right) else LEFT
        return self._held_back(time, sides, (left, right), behind)


class StreamTableRows:
    """A batch's rows of both sides, where a row of the stream meets the table's newest."""

    def __init__(self, operation: StreamTableJoin, rows: pa.Table) -> None:
        self._operation = operation
        self._rows = rows.select(["__key", FLAGS, EVENT_MS, ROW]).combine_chunks()
        coded = self._rows.column("__key").combine_chunks().dictionary_encode()
        self._distinct: list[bytes] = coded.dictionary.to_pylist()
        self._places = coded.indices.to_numpy()
        flags = self._rows.column(FLAGS).to_numpy()
        self._of_table = (flags & RIGHT) != 0
        self._table_ms = times_before(rows, RIGHT) if self._of_table.any() else []
        gone = self._rows.take(np.flatnonzero(flags & GONE))
        pairs = zip(gone.column(EVENT_MS).to_pylist(), gone.column("__key").to_pylist(), strict=True)
        self._deleted = {deleted_key(RIGHT, time, key) for time, key in pairs}

    def _read(self, state: StateReader) -> dict[bytes, bytes | None]:
        """What is kept of the rows' keys, and of those whose deletions are over after the batch."""
        # In the order of the store's keys: its reads and its memtable's inserts go through the blocks once.
        keys = sorted([*self._distinct, *self._deleted])
        if self._table_ms:
            self._deleted |= over_keys(state, RIGHT, over_until(self._table_ms[-1]))
        if self._deleted:
            keys += sorted((self._deleted | set(map(group_of_deleted, self._deleted))).difference(keys))
        return dict(zip(keys, state.get_many(keys), strict=True))

    def merge(self, state: StateReader) -> Changes:
        """See `Operation.merge`."""
        before = self._read(state)
        changing = np.zeros(len(self._distinct), dtype=bool)
        changing[self._places[self._of_table]] = True
        # Where no row of the table comes among them, all rows of a key meet the same one.
        in_turn = changing[self._places]
        places, pairs = self._together(np.flatnonzero(~in_turn), before)
        if not in_turn.any():
            return Changes([], pairs)
        changes, more = self._one_by_one(np.flatnonzero(in_turn), before)
        output = dict(zip(places, pairs, strict=True)) | more
        return Changes(changes, [output[at] for at in sorted(output)])

    def _together(
        self, at: npt.NDArray[np.int64], before: Mapping[bytes, bytes | None]
    ) -> tuple[list[int], list[Change]]:
        """The places and the output, in their order, of rows of the stream whose keys do not change."""
        joined, codes, rows = self._operation.joined, self._places[at], self._rows.take(at)
        beside: list[bytes | None] = [None] * len(self._distinct)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            row = newest_row(before[self._distinct[code]])
            if row is not None:
                beside[code] = joined.beside(row)
        rights = pa.array(beside, pa.binary()).take(pa.array(codes))
        unkeyed = (rows.column(FLAGS).to_numpy() & UNKEYED) != 0
        if unkeyed.any():
            rights = pc.if_else(pa.array(unkeyed), pa.scalar(None, pa.binary()), rights)
        if self._operation.how == "inner":
            met = pc.is_valid(rights)
            at, rows, rights = at[met.to_numpy(False)], rows.filter(met), rights.filter(met)
        values = joined.of_left(rows.column(ROW).combine_chunks(), rights).to_pylist()
        return at.tolist(), list(zip(rows.column("__key").to_pylist(), values, strict=True))

    def _one_by_one(
        self, at: npt.NDArray[np.int64], before: Mapping[bytes, bytes | None]
    ) -> tuple[list[Change], dict[int, Change]]:
        """New state, and the output by place, of rows of both sides, in their order."""
        operation, rows = self._operation, self._rows.take(at)
        both, one = operation.joined.both, operation.joined.one
        is_left = operation.how == "left"
        columns = [rows.column(name).to_pylist() for name in ("__key", FLAGS, EVENT_MS, ROW)]
        changed = set(map(group_of_deleted, self._deleted))
        kept = {key: decode_rows(before[key]) for key in changed.union(columns[0])}
        output = dict[int, Change]()
        for place, key, flags, time, row in zip(at.tolist(), *columns, strict=True):
            versions = kept[key]
            if flags & RIGHT:
                versions = self._known(versions, place)
                if not versions or time >= versions[-1].time:
                    # A deletion is known like a row: an older one may come.
                    kept[key] = [KeptRow(time, flags, row)]
                    changed.add(key)
                continue
            if versions and not versions[-1].gone and not flags & UNKEYED:
                output[place] = (key, both(row, versions[-1].row))
                continue
            if is_left:
                output[place] = (key, one(LEFT, row))
        kept |= {key: self._known(kept[key], -1) for key in changed}
        new = {key: encode_rows(kept[key]) for key in changed} | listed(self._deleted, kept)
        # In the order of the keys, as the digest needs them.
        return [(key, new[key]) for key in before if key in new and new[key] != before[key]], output

    def _known(self, versions: list[KeptRow], at: int) -> list[KeptRow]:
        """What is known of a key before a row of the batch, or with -1 after the last."""
        if versions and versions[-1].gone and versions[-1].time <= over_until(self._table_ms[at]):
            return []
        return versions
