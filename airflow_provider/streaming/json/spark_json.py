"""What Spark's ``from_json`` does not say of a value: that it misreads it, and which column it does not fit.

It would take some values for something that nobody wrote. A comma in a ``DECIMAL`` is dropped, so that ``"1,5"`` is 15;
so are some times (`misread_time`). Source: Spark 4's ``JacksonParser`` and ``ExprUtils.getDecimalParser``. And where it
refuses a value it does so as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa

from airflow_provider.streaming.json.json_decoder import NOT_FINITE, misfit
from airflow_provider.streaming.json.json_text import raw_fields, repeated_fields
from airflow_provider.streaming.json.spark_decimals import decimal_of, misread_decimal
from airflow_provider.streaming.json.spark_times import misread_date, misread_time
from airflow_provider.streaming.json.types import decimal_type
from airflow_provider.streaming.terms.sql_type import SqlType, parse_schema

_SHOWN: Final = 40
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER: Final = re.compile(rb"-?\d{1,20}")
_OPENED_BY: Final = {"ARRAY": b"[", "MAP": b"{", "STRUCT": b"{"}
_HOURS: Final = 24
_DAY_CHARS: Final = len("2026-01-31")


@dataclass(frozen=True)
class SparkJson:
    """What is to be known of values that Spark decodes by one schema.

    Args:
        schema: in Spark DDL; None, or one that is not understood here, has no columns.
        within: the path to its columns, with a dot behind each; empty for those of the value itself.
    """

    schema: str | None = None
    within: str = ""

    def misread(self, values: pa.ChunkedArray) -> dict[int, str]:
        """By index, the column that would be read as nobody wrote it; a value that is no JSON is left out.

        What an ``ARRAY`` or a ``MAP`` holds is not looked at.
        """
        if not self._checks:
            return {}
        found = ((at, self._misread(value)) for at, value in enumerate(values.to_pylist()) if value is not None)
        return {at: reason for at, reason in found if reason is not None}

    def misfit(self, value: bytes) -> str | None:
        """The column that a value does not fit, its type, and what was found; None where none is seen.

        With the place in it where it is a ``STRUCT``, ``ARRAY`` or ``MAP``. For the message: nothing is decided here.
        """
        try:
            return next(_misfits(_within(self._types, value)), None)
        except (msgspec.MsgspecError, ValueError, IndexError, StopIteration, RecursionError):
            return None

    def _misread(self, value: bytes) -> str | None:
        try:
            fields = self._decoder.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        # The last one counts, and all of one name have to be right.
        several = repeated_fields(value, [name for name, _ in self._checks])
        for at, (name, check) in enumerate(self._checks):
            tokens = [token for other, token in several if other == name] or [bytes(getattr(fields, f"f{at}"))]
            if (wrong := next(filter(None, map(check, tokens)), None)) is not None:
                return wrong
        return None

    @cached_property
    def _types(self) -> dict[str, SqlType]:
        return parse_schema(self.schema) or {} if self.schema is not None else {}

    @cached_property
    def _checks(self) -> list[tuple[str, Callable[[bytes], str | None]]]:
        found = ((name, _check(self.within + name, kind)) for name, kind in self._types.items())
        return [(name, check) for name, check in found if check is not None]

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        # A column's name need not be a Python name.
        names = {f"f{at}": name for at, (name, _) in enumerate(self._checks)}
        fields = [(field, msgspec.Raw, msgspec.Raw(b"null")) for field in names]
        return msgspec.json.Decoder(msgspec.defstruct("Value", fields, rename=names))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is built on demand: classes made here cannot be pickled."""
        return {"schema": self.schema, "within": self.within}


def _check(path: str, kind: SqlType) -> Callable[[bytes], str | None] | None:
    """Says how a column's token would be misread; None where it never is."""
    if (of := _MISREAD.get(kind.name)) is not None:
        return lambda token: None if (wrong := of(token)) is None else f"column {path!r} {wrong}"
    inner = SparkJson(kind.text.partition("<")[2][:-1], f"{path}.") if kind.fields else None
    return inner._misread if inner is not None and inner._checks else None  # noqa: SLF001


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
    is_none = f"{token[:_SHOWN].decode('utf-8', 'replace')} is none"
    if kind.name in _BITS:
        if not _INTEGER.fullmatch(token):
            return is_none
        half = 2 ** (_BITS[kind.name] - 1)
        return None if -half <= int(token) < half else f"{int(token)} is out of its range"
    if (decimal := decimal_type(kind.text)) is not None:
        found = decimal_of(token, decimal)
        return found if isinstance(found, str) else None
    check = _CHECKS.get(kind.name)
    return is_none if check is not None and not check(kind, token) else None


def _is_float(token: bytes) -> bool:
    """A number, or one of the texts that Spark takes for what is none."""
    return token[:1] not in b"tf[{" and (token[:1] != b'"' or _text(token) in NOT_FINITE)


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
    text = _string(token)
    return token.decode() if text is None else text


def _string(token: bytes) -> str | None:
    return str(msgspec.json.decode(token)) if token[:1] == b'"' else None


_CHECKS: Final[dict[str, Callable[[SqlType, bytes], bool]]] = {
    "BOOLEAN": lambda _, token: token in (b"true", b"false"),
    "DOUBLE": lambda _, token: _is_float(token),
    "FLOAT": lambda _, token: _is_float(token),
    "DATE": _is_time,
    "TIMESTAMP": _is_time,
    "TIMESTAMP_NTZ": _is_time,
    **{name: lambda kind, token: token[:1] == _OPENED_BY[kind.name] for name in _OPENED_BY},
}


_MISREAD: Final = {"DECIMAL": misread_decimal, "TIMESTAMP": misread_time, "DATE": misread_date}
