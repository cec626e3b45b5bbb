"""What a task's rows come to: new state and output, each small enough for its topic."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.error_text import bounded
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.operations.drop_duplicates import DropDuplicates
from airflow_provider.streaming.operations.function_error import FunctionError
from airflow_provider.streaming.operations.join_interval import IntervalJoin
from airflow_provider.streaming.operations.join_rows import ROW
from airflow_provider.streaming.operations.join_stream_table import StreamTableJoin
from airflow_provider.streaming.operations.operation import Changes, GroupedRows, Operation
from airflow_provider.streaming.operations.session_aggregate import SessionAggregation
from airflow_provider.streaming.operations.timed_rows import TimedOperation
from airflow_provider.streaming.planner.stage_spec import StageSpec

__all__ = ["TooLargeError", "check_results", "compute"]

_KEY_CHARS: Final = 200

_BESIDE_ROW_BYTES: Final = 50
"""Bytes that the store of a join adds to a row and its key, rounded up; of many chunks it says eight more for each."""


class TooLargeError(FunctionError):
    """What a key's rows come to is larger than a topic takes."""


def compute(
    job: StageSpec, operation: Operation, rows: pa.Table, grouped: GroupedRows, old: Sequence[bytes | None]
) -> Changes:
    """The changes that rows make.

    A row whose new state or output is larger than its topic takes counts as one that made the function raise.

    Args:
        job: of the job.
        operation: the job's, on what the store holds.
        rows: that can be processed, in the order of their offsets; at least one.
        grouped: what the operation made of them.
        old: the keys' state, in the order of `grouped.keys`; None where there is none.

    Raises:
        FunctionError: the user's function raised, and the job's policy is to fail.
        TooLargeError: state or output is too large, and the job's policy is to fail, or it is made of several rows in
            a session, in a join of two streams, or in one with a table's rows of their time.
    """
    changes = grouped.apply(old, job.error_policy.tolerant)
    if isinstance(operation, DropDuplicates):
        return _let_through(job, operation, rows, dict(zip(grouped.keys, old, strict=True)), changes)
    if large := _too_large(job, changes):
        if isinstance(operation, (SessionAggregation, IntervalJoin)) or _in_time(operation):
            assert isinstance(operation, (SessionAggregation, IntervalJoin, StreamTableJoin))
            if alone := _too_large_alone(job, operation, rows):
                if not job.error_policy.tolerant:
                    raise alone[0]
                # The rest is computed without them.
                return Changes([], [], alone)
            # It is made of many rows, and none of them alone can be left out.
            known = set(rows.column("__key").to_pylist())
            raise _first_too_large(
                rows, {key if key in known else operation.groups([key])[0]: why for key, why in large.items()}
            )
        if not job.error_policy.tolerant:
            raise _first_too_large(rows, large)
        changes = _row_by_row(job, operation, rows, dict(zip(grouped.keys, old, strict=True)), changes, large)
    return changes


def check_results(job: StageSpec, output: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Refuse what comes out as time goes on, where the sink does not take it.

    What it is made of is committed, most often: no record of the batch is to blame, and none can be left out for it.

    Args:
        job: of the job.
        output: what is written into the sink, under the keys that it gets there.

    Raises:
        ConfigurationError: one of the results is too large.
    """
    topic = job.narrowest_output
    if topic is None or not output:
        return
    limit = job.pair_limit(topic)
    for key, value in output:
        size = len(key) + (0 if value is None else len(value))
        if size > limit:
            name = bounded(repr(key.decode("utf-8", "replace")), _KEY_CHARS)
            raise ConfigurationError(
                f"The result {name} is {size:,} bytes, and {topic!r} takes {limit:,} at the most. Nothing was written, "
                "and no single record of the input is to blame: it is made of all that its key and window have had. "
                f"Raise max.message.bytes of {topic!r} and deploy again: the task goes on where it stopped, and "
                "writes it."
            )


def _too_large_alone(job: StageSpec, operation: Operation, rows: pa.Table) -> list[FunctionError]:
    """The rows of a join that the changelog does not take by themselves, whatever lies beside them."""
    if isinstance(operation, SessionAggregation) or job.changelog is None:
        return []
    limit = job.pair_limit(job.changelog)
    sizes = pc.add(pc.binary_length(rows.column(ROW)), pc.binary_length(rows.column("__key")))
    kept = [(at, size.as_py() + _BESIDE_ROW_BYTES) for at, size in enumerate(sizes)]
    changelog = job.changelog
    return [_error(rows, at, _excess("state", changelog, limit, size), alone=True) for at, size in kept if size > limit]


def _in_time(operation: Operation) -> bool:
    return isinstance(operation, StreamTableJoin) and operation.in_time


def _too_large(job: StageSpec, changes: Changes) -> dict[bytes, str]:
    """By key, why what became of it does not fit."""
    return _large_state(job, changes) | _excesses(job, "output", job.narrowest_output, changes.output)


def _large_state(job: StageSpec, changes: Changes) -> dict[bytes, str]:
    """The same of state alone."""
    return _excesses(job, "state", job.changelog, changes.state)


def _excesses(
    job: StageSpec, what: str, topic: str | None, pairs: Sequence[tuple[bytes, bytes | None]]
) -> dict[bytes, str]:
    if topic is None:
        return {}
    limit = job.pair_limit(topic)
    # Every row of every batch comes by here.
    large = [(key, value) for key, value in pairs if value is not None and len(key) + len(value) > limit]
    return {key: _excess(what, topic, limit, len(key) + len(value)) for key, value in large}


def _excess(what: str, topic: str, limit: int, size: int) -> str:
    return (
        f"its {what} is {size:,} bytes, and {topic!r} takes {limit:,} at the most: raise "
        "max.message.bytes of that topic and deploy again, or let the job keep less"
    )


def _by_group(operation: TimedOperation, large: Mapping[bytes, str]) -> dict[bytes, str]:
    return dict(zip(operation.groups(list(large)), large.values(), strict=True))


def _let_through(
    job: StageSpec, operation: DropDuplicates, rows: pa.Table, old: Mapping[bytes, bytes | None], changes: Changes
) -> Changes:
    """Without the rows that are too large themselves, in whose place others of their keys may come out."""
    failed = list[FunctionError]()
    while True:
        outputs = zip(changes.output_offsets, changes.output, strict=True)
        excesses = ((at, _excesses(job, "output", job.narrowest_output, [pair]).get(pair[0])) for at, pair in outputs)
        large = {at: reason for at, reason in excesses if reason is not None}
        if not large:
            break
        errors = [_error(rows, _place(rows, offset), reason) for offset, reason in large.items()]
        if not job.error_policy.tolerant:
            raise errors[0]
        failed += errors
        rows = rows.filter(pc.invert(pc.is_in(rows.column("__offset"), value_set=pa.array(list(large), pa.int64()))))
        if rows.num_rows == 0:
            return Changes([], [], failed)
        grouped = operation.group(job.input.key_name, rows)
        changes = grouped.apply([old.get(key) for key in grouped.keys])
    if state := _large_state(job, changes):
        raise _first_too_large(rows, _by_group(operation, state))
    return dataclasses.replace(changes, failed=sorted(failed, key=lambda error: error.offset))


def _place(rows: pa.Table, offset: int) -> int:
    at: int = pc.index(rows.column("__offset"), pa.scalar(offset, pa.int64())).as_py()
    return at


def _first_too_large(rows: pa.Table, large: Mapping[bytes, str]) -> TooLargeError:
    keys = rows.column("__key")
    at = pc.index(pc.is_in(keys, value_set=pa.array(list(large), pa.binary())), value=True).as_py()
    if at < 0:
        # It came earlier, and comes out by what time these rows make it.
        key, reason = next(iter(large.items()))
        return TooLargeError(rows.column("__offset")[0].as_py(), key.decode("utf-8", "replace"), reason)
    return _error(rows, at, large[keys[at].as_py()])


def _error(rows: pa.Table, at: int, reason: str, *, alone: bool = False) -> TooLargeError:
    key: bytes = rows.column("__key")[at].as_py()
    return TooLargeError(rows.column("__offset")[at].as_py(), key.decode("utf-8", "replace"), reason, alone=alone)


def _row_by_row(
    job: StageSpec,
    operation: Operation,
    rows: pa.Table,
    old: Mapping[bytes, bytes | None],
    changes: Changes,
    large: Mapping[bytes, str],
) -> Changes:
    """Leave out those rows of the keys whose result is too large. No function can rely on where batches end."""
    state = dict(changes.state)
    output = [pair for pair in changes.output if pair[0] not in large]
    failed = list(changes.failed)
    for key in large:
        state.pop(key, None)
        of_key = rows.filter(pc.equal(rows.column("__key"), pa.scalar(key, pa.binary())))
        offsets = set(of_key.column("__offset").to_pylist())
        text = key.decode("utf-8", "replace")
        failed = [error for error in failed if error.offset not in offsets or error.key != text]
        now = dict[bytes, bytes | None]()
        for at in range(of_key.num_rows):
            row = of_key.slice(at, 1)
            grouped = operation.group(job.input.key_name, row)
            # A table's row has a key of the list of deletions beside its own.
            one = grouped.apply([now.get(of, old.get(of)) for of in grouped.keys], tolerant=True)
            reason = _too_large(job, one).get(key)
            failed += one.failed if reason is None else [_error(row, 0, reason)]
            if reason is None and not one.failed:
                output += one.output
                now.update(one.state)
        state |= {of: value for of, value in now.items() if value != old.get(of)}
    ordered = [(key, state[key]) for key in old if key in state]
    return Changes(ordered, output, sorted(failed, key=lambda error: error.offset))
