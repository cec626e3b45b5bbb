"""A micro-batch's rows as they arrive in the worker."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Iterable, Iterator
from queue import Full, Queue
from threading import Event, Thread
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions.row_functions import text_of
from airflow_provider.streaming.expressions.time_functions import event_ms
from airflow_provider.streaming.joins.join_rows import DELETED
from airflow_provider.streaming.json.json_text import not_json, not_text
from airflow_provider.streaming.operations.operation import Decoder
from airflow_provider.streaming.operations.upstream_time import with_marks
from airflow_provider.streaming.planner.stage_spec import InputSpec, StageSpec
from airflow_provider.streaming.terms.event_time import EVENT_MS

ROUND_COLUMN = "__round"
"""The one column of a round's rows; a micro-batch has other columns."""

_PART_BYTES: Final = 64 << 20
"""Of one task's rows that are processed together: more of them come in several commits."""

_DECODED_BYTES: Final = 4 << 20
"""Of records that are decoded at once."""

_PREFETCHED: Final = 4
_PUT_S: Final = 0.1

T = TypeVar("T")


class RowMeter:
    """A micro-batch's rows as they arrive, counted; a round has none."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        for batch in self._batches:
            if ROUND_COLUMN not in batch.schema.names:
                self.rows += batch.num_rows
                self.bytes += batch.nbytes
            yield batch


def rows_by_partition(job: StageSpec, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Each partition's rows, as soon as those of the next begin: Spark reads one partition after the other.

    So a task is processed while the JVM reads the next one's records: a micro-batch takes about the time of the slower
    of the two. Many large rows of one partition come in several parts, so that memory is bounded whatever the size of
    the micro-batch; their order stays, and the rows of one record stay together. A round brings none.
    """
    number, pieces, size = -1, list[pa.Table](), 0
    for batch in itertools.chain.from_iterable(map(_decoded_at_once, batches)):
        if ROUND_COLUMN in batch.schema.names:
            continue
        raw = pa.Table.from_batches([batch])
        with no_collection():
            if job.input.decoder is None:
                origin, rows = raw, _checked(job, raw)
            else:
                origin, rows = _decoded(job.input.decoder, job, raw)
            rows = with_deletions(job.input, origin, rows)
            if job.input.from_stage:
                rows = with_marks(origin, rows)
        for next_number, run in _runs(rows):
            # What is kept of a record keeps the piece that it came in, with all that no column takes.
            held = max(run.nbytes, raw.nbytes * run.num_rows // rows.num_rows)
            if pieces and next_number != number:
                yield number, pa.concat_tables(pieces).combine_chunks()
                pieces, size = [], 0
            elif pieces and size + held > _PART_BYTES:
                part, pieces = _whole_records(pieces, run)
                size = sum(piece.nbytes for piece in pieces)
                if part is not None:
                    yield number, part
            number = next_number
            pieces.append(run)
            size += held
    if pieces:
        yield number, pa.concat_tables(pieces).combine_chunks()


def drained(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """No rows, once all were taken from Spark: a worker that leaves some is not used again."""
    for _ in batches:
        pass
    yield from ()


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """The same items, taken by a thread of its own, so that making them need not wait for their use.

    At most a few are taken ahead. The thread ends with the items, or soon after the last of them is asked for.
    """
    queue: Queue[tuple[bool, T | BaseException | None]] = Queue(_PREFETCHED)
    left = Event()

    def put(entry: tuple[bool, T | BaseException | None]) -> bool:
        while not left.is_set():
            try:
                queue.put(entry, timeout=_PUT_S)
            except Full:
                continue
            return True
        return False

    def take() -> None:
        try:
            for item in items:
                if not put((True, item)):
                    return
        except BaseException as error:  # it is raised where the items are used
            put((False, error))
        else:
            put((False, None))

    Thread(target=take, name="arrival", daemon=True).start()
    try:
        while True:
            there, item = queue.get()
            if not there:
                if isinstance(item, BaseException):
                    raise item
                return
            yield item  # type: ignore[misc]  # there is one
    finally:
        left.set()


def _decoded_at_once(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Pieces of which much less than a part is made: a text may become many rows, and what compresses well is large."""
    rows = max(1, batch.num_rows * _DECODED_BYTES // max(batch.nbytes, 1))
    for begin in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(begin, rows)


def _runs(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    numbers = rows.column("__partition").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for begin, end in itertools.pairwise(edges):
        if end > begin:
            yield int(numbers[begin]), rows.slice(begin, end - begin)


def _whole_records(pieces: list[pa.Table], following: pa.Table) -> tuple[pa.Table | None, list[pa.Table]]:
    """Rows that are cut off where a record ends, and those that the following rows belong to.

    Args:
        following: those that come next, at least one.
    """
    rows = pa.concat_tables(pieces)
    offsets = rows.column("__offset").to_numpy()
    # Where the next row is another record's, all are whole.
    end = int(np.searchsorted(offsets, following.column("__offset")[0].as_py()))
    part = rows.slice(0, end).combine_chunks() if end else None
    return part, [rows.slice(end)] if end < len(offsets) else []


def _decoded(decoder: Decoder, job: StageSpec, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """For each row the record that it is of, and the row."""
    decoded = decoder.decode(rows.column("__value"))
    # The record itself is wanted only where it may become a dead letter.
    kept = ("__value", "__timestamp_ms") if job.error_policy.topic is not None else ()
    if decoded.rows is not None:
        rows = (rows if kept or job.input.from_stage else rows.drop_columns("__value")).take(decoded.rows)
    why = [decoded.bad.get(at) for at in range(rows.num_rows)] if decoded.bad else None
    event_time = job.input.event_time
    times = {}
    if event_time is not None:
        times[EVENT_MS] = (
            rows["__timestamp_ms"] if event_time.of_record else event_ms(decoded.columns[event_time.column])
        )
    return rows, pa.table(
        {
            **{name: rows.column(name) for name in ("__partition", "__offset", "__source_key", *kept)},
            "__filtered": pa.nulls(rows.num_rows, pa.int32()) if decoded.filtered is None else decoded.filtered,
            "__corrupt": pa.nulls(rows.num_rows, pa.string()) if why is None else pa.array(why, pa.string()),
            "__key": rows.column("__source_key")
            if job.input.keyed
            else text_of(decoded.columns[job.input.key_name]).cast(pa.binary()),
            **times,
            **decoded.columns,
        }
    )


def _checked(job: StageSpec, rows: pa.Table) -> pa.Table:
    """What Spark decoded, less what it should not have: a value that is not JSON, a text that is not UTF-8."""
    bad, unreadable = dict[int, str](), dict[int, str]()
    if job.input.json:
        values, known = rows.column("__value"), job.input.by_spark
        bad = known.misread(values) | not_json(values)
        # Spark refuses a value as a whole; which column it was, it does not say.
        for at in np.flatnonzero(pc.is_valid(rows.column("__corrupt")).to_numpy()).tolist():
            value = values[at].as_py()
            misfit = None if at in bad or value is None else known.misfit(value)
            if misfit is not None:
                bad[at] = misfit
    for name in rows.schema.names:
        for at, reason in not_text(rows.column(name)).items():
            unreadable.setdefault(at, f"column {name!r} is not text ({reason})")
    if bad or unreadable:
        # A filter cannot drop what does not decode, yet it may drop a text that is not UTF-8.
        filtered = [None if at in bad else number for at, number in enumerate(rows.column("__filtered").to_pylist())]
        bad = {at: reason for at, reason in unreadable.items() if filtered[at] is None} | bad
        why = [bad.get(at, by_spark) for at, by_spark in enumerate(rows.column("__corrupt").to_pylist())]
        rows = _with_column(rows, "__corrupt", pa.array(why, pa.string()))
        rows = _with_column(rows, "__filtered", pa.array(filtered, pa.int32()))
    return rows if job.error_policy.topic is not None or not job.input.json else rows.drop_columns("__value")


def with_deletions(given: InputSpec, raw: pa.Table, rows: pa.Table) -> pa.Table:
    """The rows, of a table with its deletions (`DELETED`), of a side of a join less those without a key.

    They stay as they are where they are neither.

    Args:
        raw: the rows as they came, of a table with ``__value`` and ``__timestamp_ms``.
    """
    if given.table:
        empty, failed = pc.is_null(raw.column("__value")), rows.column("__filtered")
        # All that an empty record has is its key and time.
        rows = _with_column(rows, "__key", pc.if_else(empty, rows.column("__source_key"), rows.column("__key")))
        if EVENT_MS in rows.schema.names:
            rows = _with_column(rows, EVENT_MS, pc.if_else(empty, raw.column("__timestamp_ms"), rows.column(EVENT_MS)))
        # Of a table no step drops a row.
        rows = _with_column(rows, "__filtered", pa.nulls(rows.num_rows, failed.type))
        rows = rows.append_column(DELETED, pc.or_(empty, pc.is_valid(failed)))
    if given.null_keys == "drop":
        nowhere = pc.and_(pc.is_null(rows.column("__key")), pc.is_null(rows.column("__corrupt")))
        number = pa.scalar(len(given.filters) - 1, pa.int32())
        dropped = pc.and_(nowhere, pc.is_null(rows.column("__filtered")))
        rows = _with_column(rows, "__filtered", pc.if_else(dropped, number, rows.column("__filtered")))
    return rows


def _with_column(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)


# -- the cycle collector ---------------------------------------------------------------------------------------------
#
# PySpark's daemon collects after every task, over everything that the imports left: 25 ms a call. And a loop that makes
# a million short-lived messages a second has the collector look at them again and again, though reference counts free
# them.


def freeze() -> None:
    """Never look again at what exists by now: modules, functions, classes. To be called once, after the imports."""
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Collect nothing inside the block: for a bounded piece of work after which the collector gets its turn."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
