"""What a function of ``process()`` keeps, in the store and the changelog, and what it returns, as JSON.

Of the state: the byte ``c1``, which MessagePack never uses and no JSON begins with, then one MessagePack value, with
the extensions that ``docs/formats.md`` lists. A state that does not begin with ``c1`` is read as JSON.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec.msgpack import Ext

_FORMAT: Final = b"\xc1"
_MAX_DEPTH: Final = 100
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_AS_THEY_ARE: Final = frozenset({str, bool, float, bytes, type(None)})
_FLAT: Final = _AS_THEY_ARE | {int}
_TEXT: Final = frozenset({str})
_KEPT: Final = (
    "None, bool, int, float, str, bytes, list, dict, tuple, set, frozenset, Decimal, date, datetime, time, timedelta "
    "and UUID"
)
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_state(value: Any) -> bytes:
    """The bytes of a state; the same value always gives the same.

    Raises:
        ValueError: it holds a value that would not come back as it was; the message names its type and place.
    """
    try:
        if _is_flat(value):
            try:
                return _FORMAT + _encode(value)
            except OverflowError:  # an integer beyond 64 bits
                pass
        return _FORMAT + _encode(_packed(value, (), 0))
    except UnicodeEncodeError as error:
        raise ValueError(f"a text in the state is not Unicode ({error}): keep bytes, or replace what is not") from error


def decode_state(data: bytes) -> Any:
    """The inverse of `encode_state`; JSON is read, too.

    Raises:
        ValueError: it is neither.
    """
    try:
        return _decode(data[1:]) if data[:1] == _FORMAT else msgspec.json.decode(data)
    except (ArithmeticError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _is_flat(value: Any) -> bool:
    """Whether it is, or directly holds, nothing but what MessagePack has: as most states do. It saves the walk."""
    kind = type(value)
    if kind is dict:
        return _TEXT.issuperset(map(type, value)) and _FLAT.issuperset(map(type, value.values()))
    return kind in _FLAT or (kind is list and _FLAT.issuperset(map(type, value)))


_Place = tuple[Any, ...]
"""Where a value stands: () for the state, else the place of what holds it, and its index or key there."""


def _packed(value: Any, place: _Place, depth: int) -> Any:
    """The value as MessagePack can hold it, by exact type: a Counter would come back as a dict."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**64 else Ext(1, str(value).encode())
    if depth >= _MAX_DEPTH:
        raise ValueError(f"{_named(place)} is nested more than {_MAX_DEPTH} deep, or holds itself: keep it flatter")
    if kind is list:
        return _packed_items(value, place, depth + 1)
    if kind is dict:
        return _packed_dict(value, place, depth + 1)
    if kind is tuple:
        return Ext(8, _encode(_packed_items(value, place, depth + 1)))
    if kind is set or kind is frozenset:
        items = sorted(_encode(_packed(item, (place, "an item"), depth + 1)) for item in value)
        return Ext(9 if kind is set else 10, _encode([msgspec.Raw(item) for item in items]))
    pack = _PACK.get(kind)
    packed = None if pack is None else pack(value)
    if packed is None:
        zone = f" with the zone {value.tzinfo!r}" if isinstance(value, (dt.datetime, dt.time)) and value.tzinfo else ""
        raise ValueError(
            f"{_named(place)} is a {kind.__module__}.{kind.__qualname__}{zone}, which would not come back as it was: "
            f"a state holds {_KEPT}, no subclasses of them, and zones of datetime.timezone or zoneinfo. Convert it "
            "first"
        )
    return packed


def _packed_items(value: Iterable[Any], place: _Place, depth: int) -> list[Any]:
    return [_packed(item, (place, i), depth) for i, item in enumerate(value)]


def _packed_dict(value: dict[Any, Any], place: _Place, depth: int) -> Any:
    items = [
        (key if type(key) is str else _packed(key, (place, "a key"), depth), _packed(item, (place, key), depth))
        for key, item in value.items()
    ]
    if all(type(key) is str or type(key) is int for key, _ in items):
        return dict(items)
    return Ext(11, _encode(items))


def _named(place: _Place) -> str:
    steps = []
    while place:
        place, step = place
        steps.append(f"[{step!r}]"[:60])
    return "state" + "".join(reversed(steps))[-200:]


def _zone(value: dt.datetime | dt.time) -> int | str | None:
    zone = value.tzinfo
    if type(zone) is dt.timezone:
        return zone.utcoffset(None) // _MICROSECOND
    return zone.key if isinstance(zone, ZoneInfo) else None


def _packed_clock(code: int, value: dt.datetime | dt.time) -> Ext | None:
    zone = _zone(value)
    if value.tzinfo is not None and zone is None:
        return None
    return Ext(code, _encode([value.replace(tzinfo=None).isoformat(), value.fold, zone]))


_PACK: Final[dict[type, Callable[[Any], Ext | None]]] = {
    Decimal: lambda value: Ext(2, str(value).encode()),
    dt.date: lambda value: Ext(3, value.isoformat().encode()),
    dt.datetime: lambda value: _packed_clock(4, value),
    dt.time: lambda value: _packed_clock(5, value),
    dt.timedelta: lambda value: Ext(6, _encode([value.days, value.seconds, value.microseconds])),
    uuid.UUID: lambda value: Ext(7, value.bytes),
}


def _unpacked_clock(kind: type[dt.datetime] | type[dt.time], data: bytes) -> dt.datetime | dt.time:
    text, fold, zone = _decode(data)
    known: dt.tzinfo | None = None
    if isinstance(zone, int):
        known = dt.timezone(dt.timedelta(microseconds=zone)) if zone else dt.UTC
    elif zone is not None:
        known = ZoneInfo(zone)
    return kind.fromisoformat(text).replace(fold=fold, tzinfo=known)


def _items(data: bytes) -> Iterable[Any]:
    items: list[Any] = _decode(data)
    return items


_UNPACK: Final[dict[int, Callable[[bytes], Any]]] = {
    1: int,
    2: lambda data: Decimal(data.decode()),
    3: lambda data: dt.date.fromisoformat(data.decode()),
    4: lambda data: _unpacked_clock(dt.datetime, data),
    5: lambda data: _unpacked_clock(dt.time, data),
    6: lambda data: dt.timedelta(*_items(data)),
    7: lambda data: uuid.UUID(bytes=data),
    8: lambda data: tuple(_items(data)),
    9: lambda data: set(_items(data)),
    10: lambda data: frozenset(_items(data)),
    11: lambda data: dict(_items(data)),
}


def _unpacked(code: int, data: memoryview) -> Any:
    unpack = _UNPACK.get(code)
    if unpack is None:
        raise ValueError(f"extension {code} is not known to this version")
    return unpack(bytes(data))


_decode: Final = msgspec.msgpack.Decoder(ext_hook=_unpacked).decode


_encode_row: Final = msgspec.json.Encoder(decimal_format="number").encode


_EXAMPLE: Final = 'return a list of dicts, such as [{"spent": 1.0}], or None for no output'


def rows_of(returned: Iterable[Any] | None) -> list[Any]:
    """What a job's function returned, one by one.

    Raises:
        TypeError: it is a dict, which would be taken for its names.
    """
    if isinstance(returned, dict):
        raise TypeError(f"it returned a dict: {_EXAMPLE}")
    return list(returned or ())


def with_key(key: Mapping[str, Any], row: object) -> dict[str, Any]:
    """A row with the key's columns in front.

    Raises:
        TypeError: the row is no dict.
        ValueError: it has a column of the key with something else in it: the record's key and its value would differ.
    """
    if not isinstance(row, dict):
        raise TypeError(f"it returned a row that is a {type(row).__name__}: {_EXAMPLE}")
    for name, text in key.items():
        if name in row and str(row[name]) != text:
            raise ValueError(
                f"the column {name!r} of an output row is {row[name]!r}, and the key is {text!r}: the output has "
                "the key in that column by itself, so give yours another name"
            )
    return {**key, **row}


def output_row(row: Any) -> bytes:
    """One UTF-8 JSON object.

    Numbers are as `json.json_rows` writes them: a Decimal is a number with its digits, a NaN or an infinity
    a text.

    Raises:
        TypeError: it holds what JSON cannot.
    """
    encoded = _encode_row(row)
    # The encoder writes a float that is not finite as null.
    if b"null" in encoded or b"NaN" in encoded or b"Infinity" in encoded:
        return _encode_row(_finite(row))
    return encoded


def json_text(value: Any) -> str:
    """JSON of any value that a state may hold, for people: as of `output_row`, a key that JSON lacks as its text."""
    try:
        return output_row(value).decode()
    except TypeError:
        return output_row(_with_text_keys(value)).decode()


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key if isinstance(key, (str, int)) else str(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, (list, tuple, set, frozenset)) else value


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal) and not value.is_finite():
        return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_finite(item) for item in value]
    return value
