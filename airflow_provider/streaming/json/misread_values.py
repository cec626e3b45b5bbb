"""Which values Spark's ``from_json`` would take for something that nobody wrote.

A comma in a ``DECIMAL`` is dropped, so that ``"1,5"`` is 15; a time without a date gets the date of the day on which it
is read, so that a replay comes to another state; milliseconds are seconds of the year 55000. Source: Spark 4's
``JacksonParser``, ``ExprUtils.getDecimalParser`` and ``SparkDateTimeUtils.stringToTimestamp``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa

from airflow_provider.streaming.terms.sql_type import parse_schema

_YEAR: Final = re.compile(r"\s*[+-]?\d{4}")
_INTEGER: Final = re.compile(rb"-?\d+")
_YEARS_1_TO_9999: Final = range(-62_135_596_800, 253_402_300_800)
_SHOWN: Final = 40


@dataclass(frozen=True)
class MisreadValues:
    """Finds them in the columns of one schema. Fields within a ``STRUCT``, ``ARRAY`` or ``MAP`` are not looked at."""

    decimals: tuple[str, ...] = ()
    timestamps: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: str | None) -> MisreadValues:
        """For a schema in Spark DDL. One that is not understood here has no such column."""
        types = parse_schema(schema) or {} if schema is not None else {}
        decimals, timestamps = (
            tuple(name for name, kind in types.items() if kind.name == wanted) for wanted in ("DECIMAL", "TIMESTAMP")
        )
        return cls(decimals, timestamps)

    def find(self, values: pa.ChunkedArray) -> dict[int, str]:
        """By index, the column and what is wrong with it; a value that is no JSON is left out."""
        if not self._checks:
            return {}
        found = ((at, self._reason(value)) for at, value in enumerate(values.to_pylist()) if value is not None)
        return {at: reason for at, reason in found if reason is not None}

    def _reason(self, value: bytes) -> str | None:
        try:
            fields = self._decoder.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        for at, (name, check) in enumerate(self._checks):
            if (wrong := check(bytes(getattr(fields, f"f{at}")))) is not None:
                return f"column {name!r} {wrong}"
        return None

    @cached_property
    def _checks(self) -> tuple[tuple[str, Callable[[bytes], str | None]], ...]:
        return (*((name, _of_decimal) for name in self.decimals), *((name, _of_timestamp) for name in self.timestamps))

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        # A column's name need not be a Python name.
        names = {f"f{at}": name for at, (name, _) in enumerate(self._checks)}
        fields = [(field, msgspec.Raw, msgspec.Raw(b"null")) for field in names]
        return msgspec.json.Decoder(msgspec.defstruct("Value", fields, rename=names))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is built on demand: classes made here cannot be pickled."""
        return {"decimals": self.decimals, "timestamps": self.timestamps}


def _of_decimal(token: bytes) -> str | None:
    text = _text(token)
    if text is None or "," not in text:
        return None
    return f"is {_shown(text)}: a comma is no part of a number in JSON. Write 1234.5, as a number or as a text"


def _of_timestamp(token: bytes) -> str | None:
    text = _text(token)
    if text is not None:
        return None if _YEAR.match(text) else f"is {_shown(text)}, which has no date"
    if _INTEGER.fullmatch(token) and (len(token) > len("-62135596800") or int(token) not in _YEARS_1_TO_9999):
        return (
            f"is {token[:_SHOWN].decode()}: a number is read as seconds since 1970, and these lie outside of the years "
            "1 to 9999. Are they milliseconds? Then write a text, or declare the column BIGINT"
        )
    return None


def _text(token: bytes) -> str | None:
    return str(msgspec.json.decode(token)) if token[:1] == b'"' else None


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
