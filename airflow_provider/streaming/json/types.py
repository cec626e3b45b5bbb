"""Names of types: in a signature, which outlives Arrow's and Spark's own words, and in a schema of JSON texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from airflow_provider.streaming.terms.sql_type import SqlType, parse_schema

_NAMES: Final = {
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}
MOST_DIGITS: Final = 38
"""Of Spark's decimals; a mean is kept with more."""
_ARROW: Final = {name: kind for kind, name in _NAMES.items() if kind != pa.large_string()} | {
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+)(?:,(\d+))?\)")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def json_type(kind: pa.DataType) -> str | None:
    """A type's name in Spark DDL; None for one whose values cannot be read again as `json_rows` writes them."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP_NTZ" if kind.tz is None else "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({min(kind.precision, MOST_DIGITS)},{kind.scale})"
    if pa.types.is_list(kind):
        element = json_type(kind.value_type)
        return None if element is None else f"ARRAY<{element}>"
    if pa.types.is_struct(kind):
        fields = [(quoted(field.name), json_type(field.type)) for field in kind]
        whole = ", ".join(f"{name}: {named}" for name, named in fields)
        return None if None in (named for _, named in fields) else f"STRUCT<{whole}>"
    return _NAMES.get(kind)


def arrow_type(ddl: str) -> pa.DataType | None:
    """The type of a name in Spark DDL: of a plain value, an ARRAY or a STRUCT; None for another."""
    columns = parse_schema(f"value {ddl}")
    return _arrow_type(columns["value"]) if columns is not None and list(columns) == ["value"] else None


def decimal_type(ddl: str) -> pa.Decimal128Type | None:
    """The type of a DECIMAL in Spark DDL, in upper case, with its digits or without; None for another."""
    if not ddl.startswith("DECIMAL"):
        return None
    return arrow_type("DECIMAL(10,0)" if ddl == "DECIMAL" else ddl)


def _arrow_type(kind: SqlType) -> pa.DataType | None:
    if kind.name in ("ARRAY", "STRUCT"):
        inner = [_arrow_type(one) for one in kind.elements or kind.fields.values()]
        if not inner or None in inner:
            return None
        return pa.list_(inner[0]) if kind.elements else pa.struct(list(zip(kind.fields, inner, strict=True)))
    if (digits := _DECIMAL.fullmatch("".join(kind.text.split()))) is not None:
        precision, scale = int(digits[1]), int(digits[2] or 0)
        return pa.decimal128(precision, scale) if scale <= precision <= MOST_DIGITS and precision else None
    return _ARROW.get(kind.name)


def without_json_type(schema: pa.Schema | None, columns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Those of some columns that `json_type` has no name for, each with the name of its type.

    Args:
        schema: of the rows; None while the types are not known, which are not judged then.
    """
    if schema is None:
        return
    for name in columns:
        kind = schema.field(name).type
        if json_type(kind) is None:
            yield name, type_name(kind)


def json_schema(columns: pa.Schema) -> str:
    """The schema of JSON objects with these columns, in Spark DDL."""
    return ", ".join(f"{quoted(field.name)} {json_type(field.type)}" for field in columns)


def quoted(name: str) -> str:
    """A column as Spark DDL and SQL name it."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def type_name(kind: pa.DataType | None) -> str:
    """In Spark's words; integers of any size are one, because they are kept and written alike."""
    if kind is None:
        return ""
    if pa.types.is_integer(kind):
        return "bigint"
    if pa.types.is_timestamp(kind):
        # The zone is the session's, and says nothing about the point in time.
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return "string"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    names = {
        pa.bool_(): "boolean",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.date32(): "date",
        pa.binary(): "binary",
    }
    return names.get(kind, str(kind))


def type_names(schema: pa.Schema | None, columns: Iterable[str]) -> dict[str, str]:
    """The types of some columns by name; none while the types are not known."""
    return {} if schema is None else {name: type_name(schema.field(name).type) for name in columns}
