"""Rows on their way to another stage, under another key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json.json_rows import json_rows
from airflow_provider.streaming.json.types import type_name, without_json_type
from airflow_provider.streaming.operations.batch import Changes, Pair, StateReader
from airflow_provider.streaming.operations.operation import Batch, Operation
from airflow_provider.streaming.operations.stream_time import MARK_MS, Ints
from airflow_provider.streaming.terms.event_time import EVENT_MS
from airflow_provider.streaming.terms.steps import PASSED

_PASSED_NAME: Final = b'"%b":' % PASSED.encode()
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def passed_column(marks: pa.Array, event_ms: pa.Array, *, always: bool = False) -> list[tuple[str, pa.Array]]:
    """The column `PASSED` of some rows; none where no row has been passed: nothing stands for a null.

    Args:
        marks: the watermark at each row.
        always: whether it goes along with each row, passed or not.
    """
    if always:
        return [(PASSED, marks)]
    # What ends just at a row has ended by a watermark that is just there, too.
    passed = pc.if_else(pc.greater_equal(marks, event_ms), marks, None)
    return [(PASSED, passed)] if passed.null_count < len(passed) else []


def without_passed(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs of key and JSON object without the column `PASSED`."""
    return [pair if pair[1] is None or _PASSED_NAME not in pair[1] else (pair[0], _without(pair[1])) for pair in pairs]


def _without(value: bytes) -> bytes:
    members = _MEMBERS.decode(value)
    # A field of that name in one of the user's own columns is the user's.
    return value if members.pop(PASSED, None) is None else msgspec.json.encode(members)


@dataclass(frozen=True)
class Repartition(Operation):
    """An operation without state: every row becomes a record whose key is the group, and its value a JSON object.

    Args:
        columns: that the later stage needs, besides the key.
        behind: the operation there, which says what is late: that is judged here, by the time of the rows' own
            partition, so that it does not depend on how far others have got.
    """

    columns: tuple[str, ...]
    behind: Operation | None = None

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`: without state, but records under another key would mix with those on the way."""
        for name, kind in without_json_type(schema, self.columns):
            raise ConfigurationError(
                f"The column {name!r} of type {kind} cannot be repartitioned by "
                f"{key_name!r}: make plain columns of its parts, or a text with to_json(...), before group_by()."
            )
        return StoreSignature(key=key_name, key_type=type_name(key_type), operation="repartition")

    def comes_in_time(self, event_ms: Ints, marks: Ints, side: int | Ints = 0) -> npt.NDArray[np.bool_]:
        if self.behind is None:
            return super().comes_in_time(event_ms, marks)
        return self.behind.comes_in_time(event_ms, marks)

    @property
    def passes(self) -> bool:
        return self.behind is not None and self.behind.wants_passed

    def merge(self, batch: Batch, state: StateReader, tolerant: bool) -> Changes:
        """See `Operation.merge`: the rows in their order."""
        rows = batch.rows.select(["__key", *self.columns]).combine_chunks()
        columns = [(name, rows.column(name).combine_chunks()) for name in self.columns]
        if self.passes:
            columns += passed_column(*(batch.rows.column(name).combine_chunks() for name in (MARK_MS, EVENT_MS)))
        values = json_rows(columns) if columns else [b"{}"] * rows.num_rows
        return Changes([], list(zip(rows.column("__key").to_pylist(), values, strict=True)))

    @property
    def text(self) -> str:
        return f"write {', '.join(self.columns) or 'the key'}"
