"""Decodes JSON values in the worker, where that gives the same as Spark would and costs a sixth.

Spark's ``from_json`` builds a reader for every record; it is most of what a simple job costs. So a job whose schema
has only plain types, and whose steps need no Spark SQL, sends the raw values to the worker and decodes them there. The
rules are those of Spark 4's ``JacksonParser`` in PERMISSIVE mode, and a test compares the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa

__all__ = ["Decoded", "JsonDecoder", "JsonField"]

_ARROW: Final[dict[str, pa.DataType]] = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
}
_PYTHON: Final[dict[str, Any]] = {"STRING": str, "BIGINT": int, "INT": int, "DOUBLE": float, "BOOLEAN": bool}
_ALIASES: Final = {"LONG": "BIGINT", "INTEGER": "INT"}
# A Python name is what the rows' classes can have.
_FIELD: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s+(\w+)\s*")
_RANGE: Final = {"BIGINT": 2**63, "INT": 2**31}
_NOT_FINITE: Final = {
    "NaN": math.nan, "+INF": math.inf, "+Infinity": math.inf, "Infinity": math.inf, "-INF": -math.inf,
    "-Infinity": -math.inf,
}  # fmt: skip


@dataclass(frozen=True)
class JsonField:
    """A field of the value.

    Args:
        name: as in the JSON object.
        kind: Spark's type: ``STRING``, ``BIGINT``, ``INT``, ``DOUBLE`` or ``BOOLEAN``.
    """

    name: str
    kind: str


@dataclass(frozen=True)
class Decoded:
    """Values as columns.

    Args:
        columns: one a field, null where the value had none.
        bad: by index, why a value does not decode; its columns are null.
    """

    columns: dict[str, pa.Array]
    bad: dict[int, str]


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes JSON objects of plain fields.

    Args:
        fields: what to decode; other fields of an object are passed over.
    """

    fields: tuple[JsonField, ...]

    @classmethod
    def of(cls, schema: str) -> JsonDecoder | None:
        """The decoder for a schema in Spark DDL, or None when it has more than plain types."""
        fields = [_FIELD.fullmatch(part) for part in schema.split(",")]
        found = [JsonField(f[1], _ALIASES.get(f[2].upper(), f[2].upper())) for f in fields if f is not None]
        if len(found) < len(fields) or any(field.kind not in _ARROW for field in found):
            return None
        return cls(tuple(found))

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode many values. A null value gives nulls, as in Spark."""
        decode, bad = self._decoder.decode, dict[int, str]()
        rows: list[Any]
        try:
            rows = [decode(value) for value in values]  # type: ignore[arg-type]
        except (msgspec.DecodeError, ValueError, TypeError):
            rows = [self._one(value, at, bad) for at, value in enumerate(values)]
        columns: dict[str, pa.Array] = {}
        for field in self.fields:
            column = [getattr(row, field.name) for row in rows]
            try:
                columns[field.name] = pa.array(column, _ARROW[field.kind])
            except (pa.ArrowInvalid, OverflowError):
                # An integer out of range: find whose.
                columns[field.name] = pa.array(self._in_range(field, column, bad), _ARROW[field.kind])
        if bad:
            columns = {name: _without(column, bad) for name, column in columns.items()}
        return Decoded(columns, bad)

    def _one(self, value: bytes | None, at: int, bad: dict[int, str]) -> Any:
        if value is None:
            return self._row()
        try:
            return self._decoder.decode(value)
        except msgspec.ValidationError:
            return self._lenient(value, at, bad)
        except (msgspec.DecodeError, ValueError) as error:
            bad[at] = str(error)
            return self._row()

    def _lenient(self, value: bytes, at: int, bad: dict[int, str]) -> Any:
        """A token of another type than the field's: a text takes any, a double some texts, as in Spark."""
        try:
            tokens = self._raw_decoder.decode(value)
            present = {field: bytes(getattr(tokens, field.name)) for field in self.fields}
            return self._row(**{field.name: _converted(field, token) for field, token in present.items() if token})
        except (msgspec.DecodeError, ValueError) as error:
            bad[at] = str(error)
            return self._row()

    @staticmethod
    def _in_range(field: JsonField, column: list[Any], bad: dict[int, str]) -> list[Any]:
        bound = _RANGE[field.kind]
        for at, number in enumerate(column):
            if number is not None and not -bound <= number < bound:
                bad.setdefault(at, f"{number} is out of the range of {field.kind} - at `$.{field.name}`")
        return [None if at in bad else number for at, number in enumerate(column)]

    @cached_property
    def _row(self) -> Callable[..., Any]:
        return msgspec.defstruct(
            "Row", [(f.name, _PYTHON[f.kind] | None, None) for f in self.fields], gc=False, kw_only=True
        )

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self._row)

    @cached_property
    def _raw_decoder(self) -> msgspec.json.Decoder[Any]:
        fields = [(field.name, msgspec.Raw, msgspec.Raw(b"")) for field in self.fields]
        return msgspec.json.Decoder(msgspec.defstruct("Tokens", fields, kw_only=True))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is built on demand: classes made here cannot be pickled."""
        return {"fields": self.fields}


def _converted(field: JsonField, token: bytes) -> Any:
    value = json.loads(token)
    if value is None:
        return None
    if field.kind == "STRING":
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if field.kind == "DOUBLE" and isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if field.kind == "DOUBLE" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if field.kind == "BOOLEAN" and isinstance(value, bool):
        return value
    if field.kind in _RANGE and isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"expected {field.kind}, got {token[:40].decode('utf-8', 'replace')} - at `$.{field.name}`")


def _without(column: pa.Array, bad: dict[int, str]) -> pa.Array:
    values = column.to_pylist()
    for at in bad:
        values[at] = None
    return pa.array(values, column.type)
