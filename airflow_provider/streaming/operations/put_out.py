"""What a function of ``process()`` puts out: rows, and rows for outputs with a name."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from airflow_provider.error_text import bounded
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.json.user_values import output_row, with_key
from airflow_provider.streaming.operations.batch import Pair, add_named
from airflow_provider.streaming.terms.argument_check import check_kind
from airflow_provider.streaming.terms.sql_type import check_schema, parse_schema

_EXAMPLE: Final = 'outputs={"refunds": "amount DOUBLE"}'
_SHOWN_CHARS: Final = 100
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TAKEN: Final[Mapping[str, tuple[type, ...]]] = {
    "STRING": (str,),
    **dict.fromkeys(_BITS, (int,)),
    **dict.fromkeys(("FLOAT", "DOUBLE"), (float, int)),
    "DECIMAL": (Decimal, int),
    "BOOLEAN": (bool,),
    "BINARY": (bytes,),
    "DATE": (dt.date,),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), (dt.datetime,)),
    "ARRAY": (list, tuple),
    **dict.fromkeys(("MAP", "STRUCT"), (dict,)),
}
"""By type, what Python has for it; what is in it is judged where it is read."""


class PutOut(NamedTuple):
    """Pairs of key and JSON object.

    Args:
        rows: those without a name.
    """

    rows: list[Pair]
    named: dict[str, list[Pair]]

    @classmethod
    def nothing(cls) -> PutOut:
        """To which more is added."""
        return cls([], {})

    @classmethod
    def of(cls, returned: Sequence[Any], key: bytes, names: Mapping[str, Any], outputs: Mapping[str, str]) -> PutOut:
        """What a call came to.

        Args:
            names: the key's columns, which every row begins with.
            outputs: by name the schema of their rows.

        Raises:
            TypeError: something returned is neither a row nor a pair of an output's name and a row.
            ValueError: there is no such output, or a row does not fit its schema.
        """
        found = cls.nothing()
        for row in returned:
            if not isinstance(row, tuple):
                found.rows.append((key, output_row(with_key(names, row))))
                continue
            name, of_output = _of_output(row, outputs)
            made = with_key(names, of_output)
            _check(name, made, names, outputs[name])
            found.named.setdefault(name, []).append((key, output_row(made)))
        return found

    def add(self, more: PutOut) -> None:
        """What a later call came to."""
        self.rows.extend(more.rows)
        if more.named:
            add_named(self.named, more.named)


def _of_output(row: tuple[Any, ...], outputs: Mapping[str, str]) -> tuple[str, Any]:
    if len(row) != 2 or not isinstance(row[0], str):
        raise TypeError(
            "it returned a row that is a tuple: return dicts, or for an output with a name a pair, such as "
            '("refunds", {"amount": 1.0})'
        )
    if row[0] not in outputs:
        there = f"those of process() are {', '.join(map(repr, outputs))}" if outputs else "process() was given none"
        raise ValueError(f"it put a row out to {row[0]!r}, and {there}: name it there, as in {_EXAMPLE}")
    return row[0], row[1]


def _check(name: str, row: Mapping[str, Any], keys: Mapping[str, Any], schema: str) -> None:
    if not (kinds := kinds_of(schema)):
        return
    for column, value in row.items():
        if column in keys:
            continue
        if column not in kinds:
            raise ValueError(
                f"a row of the output {name!r} has the column {column!r}, and its schema is {schema!r}: name it there"
            )
        if value is not None and not _fits(value, kinds[column]):
            shown = bounded(repr(value), _SHOWN_CHARS)
            raise ValueError(
                f"the column {column!r} of a row of the output {name!r} is {shown} ({type(value).__name__}), and "
                f"{kinds[column]} by its schema {schema!r}"
            )


def _fits(value: Any, kind: str) -> bool:
    """Whether a value is of a type; of one that only Spark knows, any is."""
    if isinstance(value, bool):
        return kind == "BOOLEAN" or kind not in _TAKEN
    bits = _BITS.get(kind, 0)
    return isinstance(value, _TAKEN.get(kind, object)) and (not bits or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1))


@functools.cache
def kinds_of(schema: str) -> Mapping[str, str]:
    """By column, the name of its type; empty where only Spark understands the schema."""
    return {column: kind.name for column, kind in (parse_schema(schema) or {}).items()}


def check_outputs(outputs: object) -> Mapping[str, str]:
    """The outputs that `process()` was given.

    Raises:
        ConfigurationError: they are none, or a schema is none.
    """
    expected = f"schemas by the outputs' names, such as {_EXAMPLE}"
    check_kind("process() got outputs=", outputs, Mapping, expected)
    assert isinstance(outputs, Mapping)
    for name, schema in outputs.items():
        if not isinstance(name, str) or not name or not isinstance(schema, str):
            raise ConfigurationError(f"process() got outputs={{{name!r}: {schema!r}}}: give {expected}.")
        check_schema(schema, f"process(), for the output {name!r},")
    return dict(outputs)
