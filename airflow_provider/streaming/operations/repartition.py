"""Rows on their way to another stage, under another key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider.common.store_signature import StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.operations.json_rows import json_rows
from airflow_provider.streaming.operations.json_type import without_json_type
from airflow_provider.streaming.operations.operation import Changes
from airflow_provider.streaming.operations.type_name import type_name

__all__ = ["Repartition"]


@dataclass(frozen=True)
class Repartition:
    """An operation without state: every row becomes a record whose key is the group, and its value a JSON object.

    Args:
        columns: that the later stage needs, besides the key.
    """

    columns: tuple[str, ...]

    def signature(self, key_name: str, key_type: pa.DataType | None, schema: pa.Schema | None) -> StoreSignature:
        """See `Operation.signature`; there is no state, but records under another key would mix with those on the way.

        Raises:
            ConfigurationError: a column has a type that does not come back from JSON as it was.
        """
        for name, kind in without_json_type(schema, self.columns):
            raise ConfigurationError(
                f"The column {name!r} of type {kind} cannot be repartitioned by "
                f"{key_name!r}: make plain columns of its parts, or a text with to_json(...), before group_by()."
            )
        return StoreSignature(key=key_name, key_type=type_name(key_type), operation="repartition")

    def going_on(self, signature: StoreSignature) -> Repartition:
        """See `Operation.going_on`: there is nothing to go on with."""
        return self

    def group(self, key_name: str, rows: pa.Table) -> RepartitionedRows:
        """See `Operation.group`."""
        return RepartitionedRows(rows.select(["__key", *self.columns]))

    def decode_states(self, states: Sequence[bytes], schema: pa.Schema) -> list[Any]:
        """See `Operation.decode_states`: there are none."""
        return []


class RepartitionedRows:
    """See `GroupedRows`: no state is read, so it has no keys."""

    keys: Sequence[bytes] = ()

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows.combine_chunks()

    def apply(self, old: Sequence[bytes | None], tolerant: bool = False) -> Changes:
        """See `GroupedRows.apply`: the rows in their order."""
        columns = [(name, self._rows.column(name).combine_chunks()) for name in self._rows.schema.names[1:]]
        values = json_rows(columns) if columns else [b"{}"] * self._rows.num_rows
        return Changes([], list(zip(self._rows.column("__key").to_pylist(), values, strict=True)))
