"""Which column a value does not fit: Spark, which refused the value as a whole, does not say.

For the message alone: nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Final

import msgspec

from airflow_provider.streaming.json.json_decoder import misfit
from airflow_provider.streaming.json.json_text import raw_fields
from airflow_provider.streaming.terms.sql_type import SqlType, parse_schema

_SHOWN_BYTES: Final = 40
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER: Final = re.compile(rb"-?\d{1,20}")
_OPENED_BY: Final = {"ARRAY": b"[", "MAP": b"{", "STRUCT": b"{"}
_DECIMAL: Final = re.compile(r"DECIMAL\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\)")
_HOURS: Final = 24
_NOT_FINITE: Final = ("NaN", "+INF", "-INF", "Infinity", "+Infinity", "-Infinity")
_DAY_CHARS: Final = len("2026-01-31")


@dataclass(frozen=True)
class SchemaMisfit:
    """Finds the column in values of one schema, and the place in it where it is a ``STRUCT``, ``ARRAY`` or ``MAP``.

    Args:
        schema: in Spark DDL; None, or one that is not understood here, has no columns.
    """

    schema: str | None = None

    def reason(self, value: bytes) -> str | None:
        """The column that a value does not fit, its type, and what was found; None where none is seen."""
        try:
            return next(_misfits(_within(self._types, value)), None)
        except (msgspec.MsgspecError, ValueError, IndexError, StopIteration, RecursionError):
            return None

    @cached_property
    def _types(self) -> dict[str, SqlType]:
        return parse_schema(self.schema) or {} if self.schema is not None else {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what is built on demand."""
        return {"schema": self.schema}


def _within(types: Mapping[str, SqlType], value: bytes, path: str = "") -> list[tuple[str, SqlType, bytes]]:
    """The known fields of a JSON object, each with its path, type and token."""
    return [(f"{path}{name}", types[name], token) for name, token in raw_fields(value) if name in types]


def _misfits(fields: Iterable[tuple[str, SqlType, bytes]]) -> Iterator[str]:
    for path, kind, token in fields:
        if token == b"null":
            continue
        if (why := _why(kind, token)) is not None:
            yield misfit(path, kind.text, why)
        elif kind.name == "STRUCT":
            yield from _misfits(_within(kind.fields, token, f"{path}."))
        elif kind.name == "ARRAY" and kind.elements:
            elements = msgspec.json.decode(token, type=list[msgspec.Raw])
            yield from _misfits((f"{path}[{at}]", kind.elements[0], bytes(one)) for at, one in enumerate(elements))
        elif kind.name == "MAP" and kind.elements:
            entries = raw_fields(token)
            yield from _misfits((f"{path}[{name!r}]", kind.elements[-1], one) for name, one in entries)


def _why(kind: SqlType, token: bytes) -> str | None:
    is_none = f"{token[:_SHOWN_BYTES].decode('utf-8', 'replace')} is none"
    if kind.name in _BITS:
        if not _INTEGER.fullmatch(token):
            return is_none
        half = 2 ** (_BITS[kind.name] - 1)
        return None if -half <= int(token) < half else f"{int(token)} is out of its range"
    check = _CHECKS.get(kind.name)
    return is_none if check is not None and not check(kind, token) else _too_many_digits(kind, token)


def _too_many_digits(kind: SqlType, token: bytes) -> str | None:
    found = _DECIMAL.fullmatch(kind.text)
    if found is None:
        return None
    digits = int(found[1]) - int(found[2] or 0)
    number = Decimal(_text(token))
    if number == 0 or number.adjusted() < digits:
        return None
    return f"{_text(token)[:_SHOWN_BYTES]} has more than {digits} digits before the point"


def _is_decimal(_: SqlType, token: bytes) -> bool:
    try:
        return token[:1] not in b"tf[{" and Decimal(_text(token)).is_finite()
    except InvalidOperation:
        return False


def _is_float(token: bytes) -> bool:
    """A number, or one of the texts that Spark takes for what is none."""
    return token[:1] not in b"tf[{" and (token[:1] != b'"' or _text(token) in _NOT_FINITE)


def _is_time(_: SqlType, token: bytes) -> bool:
    if token[:1] != b'"':
        return token[:1] not in b"tf[{"
    try:
        text = _text(token).strip()
        date.fromisoformat(text[:_DAY_CHARS])
    except ValueError:
        return False
    # A time of day that nobody could mean; one that is written otherwise may be right.
    hour = text[_DAY_CHARS + 1 : _DAY_CHARS + 3]
    return not hour.isdigit() or int(hour) < _HOURS


def _text(token: bytes) -> str:
    return str(msgspec.json.decode(token)) if token[:1] == b'"' else token.decode()


_CHECKS: Final[dict[str, Callable[[SqlType, bytes], bool]]] = {
    "BOOLEAN": lambda _, token: token in (b"true", b"false"),
    "DOUBLE": lambda _, token: _is_float(token),
    "FLOAT": lambda _, token: _is_float(token),
    "DECIMAL": _is_decimal,
    "DATE": _is_time,
    "TIMESTAMP": _is_time,
    "TIMESTAMP_NTZ": _is_time,
    **{name: lambda kind, token: token[:1] == _OPENED_BY[kind.name] for name in _OPENED_BY},
}
