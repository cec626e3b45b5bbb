"""Decodes JSON values in the worker, where that gives the same as Spark would and costs a sixth.

Spark's ``from_json`` builds a reader for every record; it is most of what a simple job costs. So a job whose schema
has only plain types, and whose steps need no Spark SQL, sends the raw values to the worker and decodes them there. The
rules are those of Spark 4's ``JacksonParser`` in PERMISSIVE mode, and a test compares the two. What is JSON at all is
decided for both by `json.json_text`.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.error_text import bounded
from airflow_provider.streaming.json.json_text import repeated_fields, unsafe_text, with_several
from airflow_provider.streaming.json.spark_decimals import decimal_of, decimals, misread_decimal
from airflow_provider.streaming.json.spark_times import (
    TIMESTAMP,
    dates,
    misread_date,
    misread_time,
    timestamp_us,
    timestamps,
)
from airflow_provider.streaming.json.types import decimal_type, json_type
from airflow_provider.streaming.terms.sql_type import parts_of

PLAIN: Final[Mapping[str, pa.DataType]] = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": TIMESTAMP,
    "DATE": pa.date32(),
}
"""By a type that is decoded here, Arrow's."""
WINDOW: Final = "WINDOW"
"""Of a column with a window, as an earlier stage writes it: a struct of `start` and `end`."""
WINDOW_TYPE: Final = pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)])


class _Bounds(msgspec.Struct, gc=False):
    start: str | None = None
    end: str | None = None


_PYTHON: Final[dict[str, Any]] = {
    "STRING": str,
    "BIGINT": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "INT": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    "DOUBLE": float,
    "BOOLEAN": bool,
    "TIMESTAMP": str | int,
    "DATE": str,
    WINDOW: _Bounds,
}
_ALIASES: Final = {"LONG": "BIGINT", "INTEGER": "INT", "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}
# Two underscores begin what rows have for themselves.
_NAME: Final = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")
_WRITTEN_NAME: Final = re.compile(r"(?!__)[ !#-\[\]-~]+")
"""Of a column that an earlier stage wrote: what JSON writes as it is."""
_FIELD: Final = re.compile(
    rf"\s*({_NAME.pattern})(?:\s*:\s*|\s+)(\w+(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?|STRUCT\s*<.*>)\s*",
    re.IGNORECASE | re.DOTALL,
)
_STRUCT: Final = re.compile(r"STRUCT\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_RANGE: Final = {"BIGINT": 2**63, "INT": 2**31}
_INTEGER: Final = re.compile(rb"-?[0-9]+")
_LONGEST_INTEGER: Final = 20
_SHOWN_BYTES: Final = 40
_SHOWN_CHARS: Final = 200
NOT_FINITE: Final = {
    "NaN": math.nan, "+INF": math.inf, "+Infinity": math.inf, "Infinity": math.inf, "-INF": -math.inf,
    "-Infinity": -math.inf,
}  # fmt: skip


def misfit(name: str, kind: str, why: str) -> str:
    """Why a value does not decode, of bounded length, for a column that its type does not fit."""
    return f"column {bounded(repr(name), _SHOWN_CHARS)} is {bounded(kind, _SHOWN_CHARS)}, and {why}"


@dataclass(frozen=True)
class JsonField:
    """A field of the value.

    Args:
        kind: Spark's type (`decoded_kind`), or `WINDOW`.
        within: the path to it, with a dot behind each; empty for one of the value itself.
    """

    name: str
    kind: str
    within: str = ""

    @property
    def path(self) -> str:
        """Its name, for people."""
        return self.within + self.name

    @cached_property
    def inner(self) -> JsonDecoder | None:
        """The decoder of its values, of a STRUCT."""
        found = _STRUCT.fullmatch(self.kind)
        return None if found is None else JsonDecoder.of(found[1], f"{self.path}.")

    @cached_property
    def decimal(self) -> pa.Decimal128Type | None:
        """Its type, of a DECIMAL."""
        return decimal_type(self.kind)

    @cached_property
    def is_token(self) -> bool:
        """Whether its JSON is read later."""
        return self.decimal is not None or self.inner is not None


def decoded_kind(text: str) -> str | None:
    """A type of Spark's that is decoded here; None for another.

    One of `PLAIN`, a DECIMAL with its digits, or a STRUCT of such.
    """
    if (struct := _STRUCT.fullmatch(text)) is not None:
        inner = JsonDecoder.of(struct[1])
        fields = None if inner is None else ", ".join(f"{field.name}: {field.kind}" for field in inner.fields)
        return f"STRUCT<{fields}>" if fields else None
    name, bracket, digits = text.upper().partition("(")
    kind = _ALIASES.get(name.strip(), name.strip())
    if kind != "DECIMAL":
        return kind if kind in PLAIN and not bracket else None
    found = decimal_type(kind + bracket + digits)
    return None if found is None else json_type(found)


@dataclass(frozen=True)
class Decoded:
    """Values as columns.

    Args:
        columns: one per field, null where the value had none.
        bad: by index, why a value does not decode; its columns are null.
        filtered: by row, the number of the step that drops it (`steps.drop_names`), else null; None for none.
        rows: by row, the index of the value that it is of; None where each is of its own.
    """

    columns: dict[str, pa.Array]
    bad: dict[int, str]
    filtered: pa.Array | None = None
    rows: pa.Array | None = None


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes JSON objects of plain fields.

    Args:
        needed: those that become columns; None for all.
    """

    fields: tuple[JsonField, ...]
    needed: frozenset[str] | None = None

    @classmethod
    def of(cls, schema: str, within: str = "") -> JsonDecoder | None:
        """The decoder for a schema in Spark DDL, or None when it has other types, or a name twice.

        Args:
            within: the path to its columns (`JsonField`).
        """
        # Of records that are only counted nothing but the key goes on: their schema has no field.
        parts = [_FIELD.fullmatch(part) for part in parts_of(schema)] if schema else []
        kinds = [(f[1], decoded_kind(f[2])) for f in parts if f is not None]
        fields = [JsonField(name, kind, within) for name, kind in kinds if kind is not None]
        return cls.of_fields(fields) if len(fields) == len(parts) else None

    @classmethod
    def of_fields(cls, fields: Sequence[JsonField]) -> JsonDecoder | None:
        """The decoder of some fields, or None where JSON may write a name in two ways, or one is there twice."""
        names = {field.name.lower() for field in fields}  # which Spark does not tell apart by case
        if len(names) < len(fields) or any(_WRITTEN_NAME.fullmatch(field.name) is None for field in fields):
            return None
        return cls(tuple(fields))

    def only(self, names: Collection[str]) -> JsonDecoder:
        """The decoder of which these become columns. Of the others those that a value may misfit are looked at."""
        fields = [field for field in self.fields if field.name in names or field.kind != "STRING"]
        return JsonDecoder(tuple(fields), frozenset(names))

    def decode(self, values: pa.ChunkedArray) -> Decoded:
        """Decode many values. A null value gives nulls, as in Spark."""
        decode, bad = self._decoder.decode, unsafe_text(values)
        texts, rows = values.to_pylist(), list[Any]()
        for at in bad:
            texts[at] = None
        try:
            rows = [decode(text) for text in texts]
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
            rows = [self._one(text, at, bad) for at, text in enumerate(texts)]
        read = dict[str, pa.Array]()
        for field in self.fields:
            if field.kind == "TIMESTAMP":
                read[field.name] = self._times(field, rows, bad, values)
            elif field.kind == "DATE":
                read[field.name] = self._dates(field, rows, bad, values)
            elif field.kind == WINDOW:
                read[field.name] = self._windows(field, rows, bad)
            elif field.inner is not None:
                read[field.name] = self._structs(field, field.inner, rows, bad, values)
            elif field.decimal is not None:
                read[field.name] = self._decimals(field, field.decimal, rows, bad, values)
        if read and bad:
            # What has a time that is none decodes as a whole to nothing.
            rows = [self._row() if at in bad else row for at, row in enumerate(rows)]
            left = _at(bad, len(rows))
            read = {name: pc.if_else(left, pa.scalar(None, column.type), column) for name, column in read.items()}
        columns = {
            field.name: read[field.name]
            if field.name in read
            else pa.array(self._given(field, rows), PLAIN[field.kind])
            for field in self.fields
            if self.needed is None or field.name in self.needed
        }
        return Decoded(columns, bad)

    def _given(self, field: JsonField, rows: Sequence[Any]) -> list[Any]:
        """What the values have of a field."""
        return list(map(operator.attrgetter(self._attributes[field.name]), rows))

    def _windows(self, field: JsonField, rows: Sequence[Any], bad: dict[int, str]) -> pa.Array:
        """The windows that an earlier stage wrote; `bad` gets the rows of those that are none."""
        given = self._given(field, rows)
        bounds = []
        for bound in ("start", "end"):
            texts = [None if one is None else getattr(one, bound) for one in given]
            found, none = timestamps(pa.array(texts, pa.string()))
            bounds.append(found)
            bad |= {at: misfit(field.path, field.kind, "is none") for at in none if at not in bad}
        missing = pa.array([one is None for one in given], pa.bool_())
        return pa.StructArray.from_arrays(bounds, fields=list(WINDOW_TYPE), mask=missing)

    def _structs(
        self,
        field: JsonField,
        inner: JsonDecoder,
        rows: Sequence[Any],
        bad: dict[int, str],
        values: pa.ChunkedArray,
    ) -> pa.Array:
        """Objects; `bad` gets the rows of those that are none."""
        tokens = [bytes(token) for token in self._given(field, rows)]
        given = pa.array([None if token == b"null" else token for token in tokens], pa.binary())
        found = inner.decode(pa.chunked_array([given]))
        self._look_at(field, {at: tokens[at] for at in found.bad}, values, bad, _no_struct)
        columns = {one.name: found.columns[one.name] for one in inner.fields}
        return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=given.is_null())

    def _decimals(
        self,
        field: JsonField,
        kind: pa.Decimal128Type,
        rows: Sequence[Any],
        bad: dict[int, str],
        values: pa.ChunkedArray,
    ) -> pa.Array:
        """Numbers with a point; `bad` gets the rows of those that are none."""
        tokens = [bytes(token) for token in self._given(field, rows)]
        found, none = decimals(tokens, kind)
        self._look_at(field, {at: tokens[at] for at in none}, values, bad, _no_decimal)
        return found

    def _look_at(
        self,
        field: JsonField,
        tokens: Mapping[int, bytes],
        values: pa.ChunkedArray,
        bad: dict[int, str],
        misfit_of: Callable[[JsonField, bytes], str | None],
    ) -> None:
        """`bad` gets the rows of which a token does not fit.

        Of fields of one name the last counts, but Spark takes none of them if one does not fit.
        """
        for at, token in tokens.items():
            if (why := misfit_of(field, token)) is not None:
                bad.setdefault(at, why)
        for at in with_several(values, field.name):
            if at in bad:
                continue
            several = repeated_fields(values[at].as_py(), [field.name])
            reasons = (misfit_of(field, token) for _, token in several if token != b"null")
            if (why := next(filter(None, reasons), None)) is not None:
                bad[at] = why

    def _times(self, field: JsonField, rows: Sequence[Any], bad: dict[int, str], values: pa.ChunkedArray) -> pa.Array:
        """Points in time; `bad` gets the rows of those that are none."""
        given = self._given(field, rows)
        numbers = {at: value for at, value in enumerate(given) if isinstance(value, int)}
        found, none = timestamps(
            pa.array([None if at in numbers else value for at, value in enumerate(given)], pa.string())
        )
        self._look_at(field, {at: _token(given[at]) for at in (*none, *numbers)}, values, bad, _no_time)
        if numbers:
            micros = pa.array(
                [0 if at in bad else numbers.get(at, 0) * 1_000_000 for at in range(len(rows))], pa.int64()
            )
            found = pc.if_else(_at(numbers, len(rows)), micros.cast(TIMESTAMP), found)
        return found

    def _dates(self, field: JsonField, rows: Sequence[Any], bad: dict[int, str], values: pa.ChunkedArray) -> pa.Array:
        """Days; `bad` gets the rows of those that are none."""
        given = self._given(field, rows)
        found, none = dates(pa.array(given, pa.string()))
        self._look_at(field, {at: _token(given[at]) for at in none}, values, bad, _no_date)
        return found

    def _one(self, value: bytes | None, at: int, bad: dict[int, str]) -> Any:
        if value is None:
            return self._row()
        try:
            return self._decoder.decode(value)
        except msgspec.ValidationError:
            return self._lenient(value, at, bad)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            bad[at] = str(error)
            return self._row()

    def _lenient(self, value: bytes, at: int, bad: dict[int, str]) -> Any:
        """A token of another type than the field's: a text takes any, a double some texts, as in Spark."""
        try:
            tokens = self._raw_decoder.decode(value)
            present = {field: bytes(self._given(field, [tokens])[0]) for field in self.fields}
            # Of fields with one name the last counts, but Spark takes none of them if one does not fit.
            by_name = {field.name: field for field in self.fields}
            for name, token in repeated_fields(value, by_name):
                _converted(by_name[name], token)
            made = {self._attributes[field.name]: _converted(field, token) for field, token in present.items() if token}
            return self._row(**made)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            bad[at] = str(error)
            return self._row()

    @cached_property
    def _row(self) -> Callable[..., Any]:
        of = self._attributes
        fields = [(of[f.name], _PYTHON[f.kind] | None, None) for f in self.fields if not f.is_token]
        tokens = [(of[f.name], msgspec.Raw, msgspec.Raw(b"null")) for f in self.fields if f.is_token]
        return msgspec.defstruct("Row", [*fields, *tokens], gc=False, kw_only=True, rename=self._names)

    @cached_property
    def _attributes(self) -> dict[str, str]:
        """What a field is called in a row: its name need not be a Python name."""
        return {field.name: f"f{at}" for at, field in enumerate(self.fields)}

    @cached_property
    def _names(self) -> dict[str, str]:
        return {attribute: name for name, attribute in self._attributes.items()}

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self._row)

    @cached_property
    def _raw_decoder(self) -> msgspec.json.Decoder[Any]:
        fields = [(attribute, msgspec.Raw, msgspec.Raw(b"")) for attribute in self._names]
        return msgspec.json.Decoder(msgspec.defstruct("Tokens", fields, kw_only=True, rename=self._names))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is built on demand: classes made here cannot be pickled."""
        return {"fields": self.fields, "needed": self.needed}


def _token(value: str | int) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _no_time(field: JsonField, token: bytes) -> str | None:
    if (wrong := misread_time(token)) is not None:
        return f"column {field.path!r} {wrong}"
    if token[:1] == b'"' and timestamp_us(json.loads(token)) is None:
        return misfit(field.path, field.kind, f"{token[:_SHOWN_BYTES].decode('utf-8', 'replace')} is none")
    return None


def _no_date(field: JsonField, token: bytes) -> str | None:
    if (wrong := misread_date(token)) is not None:
        return f"column {field.path!r} {wrong}"
    return None if token[:1] == b'"' else misfit(field.path, field.kind, f"{token[:_SHOWN_BYTES].decode()} is none")


def _no_struct(field: JsonField, token: bytes) -> str | None:
    assert field.inner is not None
    if token[:1] != b"{":
        return misfit(field.path, field.kind, f"{token[:_SHOWN_BYTES].decode('utf-8', 'replace')} is none")
    return field.inner.decode(pa.chunked_array([[token]], pa.binary())).bad.get(0)


def _no_decimal(field: JsonField, token: bytes) -> str | None:
    if (wrong := misread_decimal(token)) is not None:
        return f"column {field.path!r} {wrong}"
    assert field.decimal is not None
    found = decimal_of(token, field.decimal)
    return misfit(field.path, field.kind, found) if isinstance(found, str) else None


def _at(indices: Collection[int], count: int) -> pa.Array:
    """By row, whether it is one of these."""
    return pa.array([at in indices for at in range(count)])


def _converted(field: JsonField, token: bytes) -> Any:
    if field.is_token:
        return msgspec.Raw(token)
    if token == b"null":
        return None
    first = token[:1]
    if field.kind == "DATE" and first == b'"':
        return json.loads(token)
    if field.kind == "TIMESTAMP" and (first == b'"' or (_INTEGER.fullmatch(token) and len(token) <= _LONGEST_INTEGER)):
        return json.loads(token)
    if field.kind == WINDOW:
        return msgspec.json.decode(token, type=_Bounds)
    if field.kind == "STRING":
        return jackson_text(token)
    if field.kind == "BOOLEAN" and first in b"tf":
        return first == b"t"
    if field.kind == "DOUBLE" and first == b'"' and token[1:-1].decode() in NOT_FINITE:
        return NOT_FINITE[token[1:-1].decode()]
    is_number = first not in b'"[{tf'
    if field.kind == "DOUBLE" and is_number:
        return float(token)
    # No integer of these kinds is longer; Python would refuse to read some that are.
    if field.kind in _RANGE and is_number and _INTEGER.fullmatch(token) and len(token) <= _LONGEST_INTEGER:
        number = int(token)
        if -_RANGE[field.kind] <= number < _RANGE[field.kind]:
            return number
        raise ValueError(misfit(field.path, field.kind, f"{number} is out of its range"))
    raise ValueError(misfit(field.path, field.kind, f"{token[:_SHOWN_BYTES].decode('utf-8', 'replace')} is none"))


_BEYOND_BMP: Final = re.compile("[\U00010000-\U0010ffff]")


class _Number(str):
    """A number's text."""

    __slots__ = ()


def jackson_text(token: bytes) -> str | None:
    """What a STRING field holds of a token; None for null.

    A text is itself, without its escapes. Of everything else the text is kept: integers with their digits, other
    numbers as Java writes the double, arrays and objects without spaces.

    Raises:
        ValueError: it is no JSON.
    """
    value = json.loads(token, parse_int=_integer, parse_float=_double, object_pairs_hook=_Pairs)
    return None if value is None else str(value) if type(value) is str else _written(value)


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object, those of one name too."""


def _integer(digits: str) -> _Number:
    return _Number("0" if digits == "-0" else digits)


def _double(text: str) -> _Number:
    value = float(text)
    if math.isinf(value):
        return _Number('"Infinity"' if value > 0 else '"-Infinity"')
    return _Number(_java_double(value))


def _java_double(value: float) -> str:
    """A finite number as ``Double.toString`` of Java 19 has it: the shortest digits, one on each side of the point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = repr(value).partition("e")
    sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
    whole, _, fraction = digits.partition(".")
    fraction = "" if fraction == "0" else fraction
    power = int(exponent or 0) + len(whole) - 1
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    digits, power = digits[leading:].rstrip("0"), power - leading
    if value in (5e-324, -5e-324):
        digits = "49"  # two digits are the least
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{_quoted(name)}:{_written(item)}" for name, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return _BEYOND_BMP.sub(_escaped_pair, json.dumps(text, ensure_ascii=False))


def _escaped_pair(found: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04X}" for unit in _units(found[0]))


def _units(character: str) -> tuple[int, int]:
    data = character.encode("utf-16-be")
    return int.from_bytes(data[:2], "big"), int.from_bytes(data[2:], "big")
