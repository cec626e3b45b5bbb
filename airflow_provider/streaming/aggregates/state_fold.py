"""Rows that go into the states of an `Aggregator`, key by key in their order; and what of them has no place there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.aggregates.accumulator import Accumulator
from airflow_provider.streaming.aggregates.aggregator import Aggregator, NoRoomError
from airflow_provider.streaming.json.row_codec import Column

Failed = list[tuple[int, str]]
"""What went wrong with which row, or with which key."""


def places_by_key(keys: pa.Array, of_rows: pa.ChunkedArray) -> list[list[int]]:
    """By key, the places of its rows, in their order."""
    at = pc.index_in(of_rows, value_set=keys).combine_chunks().to_numpy()
    order = np.argsort(at, kind="stable")
    ends = np.cumsum(np.bincount(at, minlength=len(keys))).tolist()
    return [order[begin:end].tolist() for begin, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True)
class StateFold:
    """The rows of a batch, for one aggregate.

    Args:
        rows: by place what its `add` is given, or the state of a part; None for what adds nothing.
        parts: whether they are the latter.
        places: of the rows of each key.
    """

    aggregator: Aggregator
    rows: Sequence[Any]
    parts: bool
    places: Sequence[Sequence[int]]

    @classmethod
    def of(cls, accumulator: Accumulator, rows: pa.Table, places: Sequence[Sequence[int]]) -> StateFold:
        """Of a batch."""
        aggregator = accumulator.aggregator
        assert aggregator is not None
        if accumulator.column is not None:
            return cls(aggregator, rows.column(accumulator.column).to_pylist(), True, places)
        read = aggregator.read([rows.column(name) for name in accumulator.columns])
        if accumulator.where is not None:
            counts = rows.column(accumulator.where).to_pylist()
            read = [row if row_counts else None for row, row_counts in zip(read, counts, strict=True)]
        return cls(aggregator, read, False, places)

    def onto(self, old: Column) -> tuple[Column, Failed]:
        """What is kept of the keys once the rows are added that can be, and the others, by their places."""
        texts, failed = list(old.texts or ()), Failed()
        for key, of_key in enumerate(self.places):
            rows = [(place, self.rows[place]) for place in of_key if self.rows[place] is not None]
            if not rows:
                continue
            state, wrong = self._added(texts[key], rows)
            failed += wrong
            try:
                texts[key] = self.aggregator.encode(state)
            except ValueError as error:
                failed.append((rows[-1][0], f"the state that {self.aggregator.name} left cannot be kept: {error}"))
        return _column(texts), failed

    def first_without_result(self, key: int, old: Column, types: Sequence[pa.DataType]) -> int:
        """The place of the first row of a key after which its state has no result; of the last where all have one."""
        state = _begun(self.aggregator, (old.texts or ())[key])
        for place in self.places[key]:
            if self.rows[place] is not None:
                state = self._step(state, self.rows[place])
            try:
                self.aggregator.results([state], types)
            except Exception:
                return place
        return self.places[key][-1]

    def _added(self, before: bytes | None, rows: Sequence[tuple[int, Any]]) -> tuple[Any, Failed]:
        aggregator, failed, taken = self.aggregator, Failed(), list[Any]()
        state = _begun(aggregator, before)
        for place, row in rows:
            try:
                state = self._step(state, row)
            except MemoryError:
                raise  # the host's: no record is to blame
            except Exception as error:
                failed.append((place, _reason(aggregator, error)))
                if not isinstance(error, NoRoomError):  # it may have changed half of it
                    state = reduce(self._step, taken, _begun(aggregator, before))
            else:
                taken.append(row)
        return state, failed

    def _step(self, state: Any, row: Any) -> Any:
        if self.parts:
            return self.aggregator.merge(state, _begun(self.aggregator, row))
        return self.aggregator.add(state, *row)


def merged_states(aggregator: Aggregator, first: Column, second: Column) -> tuple[Column, Failed]:
    """The states of two columns as one, and the keys of which they cannot become one: there it is the first."""
    texts, failed = list(first.texts or ()), Failed()
    for key, (one, other) in enumerate(zip(texts, second.texts or (), strict=True)):
        if one is None or other is None:
            texts[key] = other if one is None else one
            continue
        states = _begun(aggregator, one), _begun(aggregator, other)
        try:
            texts[key] = aggregator.encode(aggregator.merge(*states))
        except MemoryError:
            raise
        except Exception as error:
            failed.append((key, _reason(aggregator, error)))
    return _column(texts), failed


class NoResultError(Exception):
    """An aggregator has no result of its states.

    Args:
        failed: the keys.
        kept: the states.
        types: of the aggregator's columns.
    """

    def __init__(self, failed: Failed, kept: Column, types: Sequence[pa.DataType]) -> None:
        self.failed, self.kept, self.types = failed, kept, types
        super().__init__(failed[0][1])


def results_of(aggregator: Aggregator, types: Sequence[pa.DataType], kept: Column) -> pa.Array:
    """The results of what is kept.

    Raises:
        NoResultError: there is none of some.
    """
    states = [_begun(aggregator, text) for text in kept.texts or ()]
    try:
        return aggregator.results(states, types)
    except MemoryError:
        raise
    except Exception:
        failed = Failed()
        for key, state in enumerate(states):
            try:
                aggregator.results([state], types)
            except pa.ArrowException as error:
                kind = getattr(aggregator, "result_type", aggregator.type_of_result(types))
                failed.append((key, f"{_reason(aggregator, error)} (its result_type is {kind})"))
            except Exception as error:
                failed.append((key, _reason(aggregator, error)))
        if not failed:
            raise
        raise NoResultError(failed, kept, types) from None


def _begun(aggregator: Aggregator, kept: bytes | None) -> Any:
    if kept is None:
        return aggregator.zero()
    try:
        return aggregator.decode(kept)
    except Exception as error:
        raise ConfigurationError(
            f"A state is not one of {aggregator.name} ({error}): another program wrote it, or it was damaged. Begin "
            "again with a new application id or store name."
        ) from error


def _reason(aggregator: Aggregator, error: Exception) -> str:
    if isinstance(error, NoRoomError):
        return str(error)
    return f"{type(error).__name__} in the aggregate {aggregator.name}: {error}"


def _column(texts: list[bytes | None]) -> Column:
    ok = np.fromiter((text is not None for text in texts), bool, len(texts))
    return Column(ok, np.fromiter((len(text) if text else 0 for text in texts), np.int64, len(texts)), texts)
