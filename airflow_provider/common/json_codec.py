"""JSON of this package's values: dataclasses of plain values, enums and task ids."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import msgspec

from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError

T = TypeVar("T")


def to_json(value: object) -> bytes:
    """JSON of a value; a task id is written ``<stage>_<partition>``, as a key of an object too."""
    return msgspec.json.encode(value, enc_hook=_encode)


def from_json(data: bytes | str, kind: type[T]) -> T:
    """The inverse of `to_json`. Fields that `kind` lacks are ignored.

    Raises:
        msgspec.DecodeError: it is no JSON, or not of this type.
    """
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=_decode)
    except (UnicodeDecodeError, RecursionError) as error:  # of a text that is not UTF-8, of what lies too deep
        raise msgspec.DecodeError(str(error)) from error


def to_numbered_json(value: Any, number: int) -> bytes:
    """JSON of a dataclass, with the number of its format."""
    return to_json({"format": number, **{field.name: getattr(value, field.name) for field in fields(value)}})


def from_numbered_json(data: bytes, kind: type[T], newest: int) -> T:
    """A value that may have the number of its format; one without is of the first.

    Raises:
        msgspec.DecodeError: it is not of this type, or of a newer format.
    """
    found = from_json(data, _Numbered).format
    if found > newest:
        raise msgspec.ValidationError(
            f"found format {found}, this version reads up to {newest}: a newer version wrote it, so upgrade this one"
        )
    return from_json(data, kind)


@dataclass(frozen=True)
class _Numbered:
    format: int = 1


def to_plain(value: object) -> Any:
    """Dicts with texts as keys, lists, texts and numbers of a value."""
    # By JSON: `msgspec.to_builtins` leaves tuples and numbers as keys as they are.
    return msgspec.json.decode(to_json(value))


def from_plain(plain: object, kind: type[T]) -> T:
    """The inverse of `to_plain`.

    Raises:
        msgspec.ValidationError: it is not of this type.
    """
    # By JSON: `msgspec.convert` leaves a dict's keys as they are.
    return from_json(msgspec.json.encode(plain), kind)


def _encode(value: object) -> str:
    if isinstance(value, TaskId):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON")


def _decode(kind: type[Any], value: object) -> object:
    if kind is not TaskId:
        raise NotImplementedError(f"{kind.__name__} has no JSON")
    try:
        return TaskId.parse(str(value))
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
