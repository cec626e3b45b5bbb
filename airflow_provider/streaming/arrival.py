"""A micro-batch's rows as they arrive in the worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

import numpy as np
import pyarrow as pa

from airflow_provider.streaming.garbage import no_collection
from airflow_provider.streaming.json_decoder import JsonDecoder
from airflow_provider.streaming.plan import JobSpec

__all__ = ["ROUND_COLUMN", "ahead", "rows_by_task"]

ROUND_COLUMN = "__round"
"""The one column of a round's rows; a micro-batch has other columns."""

T = TypeVar("T")


def rows_by_task(job: JobSpec, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Each task's rows, as soon as those of the next begin: Spark reads one partition after the other.

    So a task is processed while the JVM reads the next one's records: a micro-batch takes about the time of the slower
    of the two. A round brings none.

    Args:
        job: of the job.
        batches: from Spark, in pieces of any size.
    """
    number, pieces = -1, list[pa.Table]()
    for batch in batches:
        if ROUND_COLUMN in batch.schema.names:
            continue
        rows = pa.Table.from_batches([batch])
        if job.decoder is not None:
            with no_collection():
                rows = _decoded(job.decoder, job, rows)
        for next_number, run in _runs(rows):
            if next_number != number and pieces:
                yield number, pa.concat_tables(pieces).combine_chunks()
                pieces = []
            number = next_number
            pieces.append(run)
    if pieces:
        yield number, pa.concat_tables(pieces).combine_chunks()


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, taken by a thread of its own, so that whoever makes them need not wait for whoever uses them."""
    queue: SimpleQueue[tuple[bool, T | BaseException | None]] = SimpleQueue()

    def take() -> None:
        try:
            for item in items:
                queue.put((True, item))
        except BaseException as error:  # it belongs to whoever uses the items
            queue.put((False, error))
        else:
            queue.put((False, None))

    Thread(target=take, name="arrival", daemon=True).start()
    while True:
        there, item = queue.get()
        if not there:
            if isinstance(item, BaseException):
                raise item
            return
        yield item  # type: ignore[misc]  # there is one


def _runs(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    numbers = rows.column("__task").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for begin, end in itertools.pairwise(edges):
        if end > begin:
            yield int(numbers[begin]), rows.slice(begin, end - begin)


def _decoded(decoder: JsonDecoder, job: JobSpec, rows: pa.Table) -> pa.Table:
    decoded = decoder.decode(rows.column("__value").to_pylist())
    why = [decoded.bad.get(at) for at in range(rows.num_rows)] if decoded.bad else None
    # The record itself is wanted only where it may become a dead letter.
    kept = ("__value", "__timestamp_ms") if job.error_policy.topic is not None else ()
    return pa.table(
        {
            **{name: rows.column(name) for name in ("__task", "__offset", "__source_key", *kept)},
            "__filtered": pa.nulls(rows.num_rows, pa.int8()),
            "__corrupt": pa.nulls(rows.num_rows, pa.string()) if why is None else pa.array(why, pa.string()),
            "__key": decoded.columns[job.key_name].cast(pa.string()).cast(pa.binary()),
            **decoded.columns,
        }
    )
