"""Expressions over decoded columns, computed by pyarrow as Spark 4 computes them.

An expression has one of the types of `JsonDecoder`, or is the BINARY of a record without a schema. Nothing here raises
for a value: what may is Spark's. Which expressions there are, and of which types, `spark_sql` decides; a random test
holds both to Spark.
Source: Spark 4.2, ``sql/catalyst/expressions`` (``predicates``, ``arithmetic``, ``conditionalExpressions``, ``Cast``).
"""

from __future__ import annotations

import functools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions import letters
from airflow_provider.streaming.json.json_decoder import PLAIN, WINDOW, WINDOW_TYPE

STRING, INT, BIGINT, DOUBLE, BOOLEAN, TIMESTAMP = "STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"
BINARY: Final = "BINARY"
ARROW: Final[Mapping[str, pa.DataType]] = {**PLAIN, BINARY: pa.binary(), WINDOW: WINDOW_TYPE}

Values = Any
"""A `pa.Array`, or a `pa.Scalar` for the same value in every row."""


class Expression(ABC):
    """One value for each row.

    Attributes:
        kind: its type, a key of `ARROW`.
    """

    kind: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What it is made of."""
        return ()

    @abstractmethod
    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        """Its values."""


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column."""

    name: str
    kind: str

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        return columns[self.name]


@dataclass(frozen=True)
class Literal(Expression):
    """The same value in every row; None for null."""

    value: str | int | float | bool | None
    kind: str

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        return pa.scalar(self.value, ARROW[self.kind])


@dataclass(frozen=True)
class Case(Expression):
    """The value behind the first condition that is true; without one, the last value."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    kind: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        return *(one for branch in self.branches for one in branch), self.otherwise

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        result = self.otherwise.of(columns)
        for condition, value in reversed(self.branches):
            result = pc.if_else(pc.fill_null(condition.of(columns), False), value.of(columns), result)
        return result


@dataclass(frozen=True)
class Call(Expression):
    """A function of `_FUNCTIONS`.

    Args:
        options: of the function, such as a pattern.
    """

    function: str
    arguments: tuple[Expression, ...]
    kind: str
    options: tuple[Any, ...] = ()

    @property
    def parts(self) -> tuple[Expression, ...]:
        return self.arguments

    def of(self, columns: Mapping[str, pa.Array]) -> Values:
        return _FUNCTIONS[self.function](*(argument.of(columns) for argument in self.arguments), *self.options)


# -- the functions -----------------------------------------------------------------------------------------------------

_NULL: Final = pa.nulls(1, pa.bool_())[0]  # `pa.scalar` would load pandas at the import
_INTEGER: Final = re.compile(r"[\x00-\x20\x7f]*([+-]?[0-9]+)[\x00-\x20\x7f]*")
"""What Spark takes for an integer: its ``trimAll`` takes spaces and control characters away."""
_CONTROL: Final = re.compile(r"\\u00[0-9a-f]{2}")
_ESCAPED: Final = r'["\\\x00-\x1f]'
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_NO_TEXT: Final = "\ufffd".encode()


def event_ms(times: Values) -> Values:
    """Epoch ms of what may be an event time: of microseconds the earlier millisecond, of a window its last moment."""
    if pa.types.is_struct(times.type):
        return pc.subtract(event_ms(pc.struct_field(times, "end")), 1)
    if pa.types.is_integer(times.type):
        return times
    return pc.floor_temporal(times, unit="millisecond").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())


def _equal(left: Values, right: Values) -> Values:
    """NaN is equal to itself, as Spark has it."""
    found = pc.equal(left, right)
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right))) if left.type == ARROW[DOUBLE] else found


def _less(left: Values, right: Values) -> Values:
    """NaN is greater than every other number, as Spark has it."""
    found = pc.less(left, right)
    return pc.or_(found, pc.and_not(pc.is_nan(right), pc.is_nan(left))) if left.type == ARROW[DOUBLE] else found


def _less_equal(left: Values, right: Values) -> Values:
    found = pc.less_equal(left, right)
    return pc.or_(found, pc.is_nan(right)) if left.type == ARROW[DOUBLE] else found


def _is_in(value: Values, among: Sequence[str | int], null_among: bool) -> Values:
    """Whether it is one of some literals; where null is among them, the answer is true or null."""
    found = pc.is_in(value, value_set=pa.array(among, value.type))
    unknown = pc.or_(pc.is_null(value), pc.invert(found)) if null_among else pc.is_null(value)
    return pc.if_else(unknown, _NULL, found)


def _remainder(left: Values, divisor: int) -> Values:
    """Of the sign of the dividend. The divisor is neither 0 nor -1, so nothing overflows."""
    number = pa.scalar(divisor, left.type)
    return pc.subtract(left, pc.multiply(pc.divide(left, number), number))


def _integers(value: Values, kind: str) -> Values:
    """Of texts; null for one that is no integer of this type."""
    bound = 2 ** (ARROW[kind].bit_width - 1)
    coded = value.dictionary_encode()
    read = [None if text is None else _integer(text, bound) for text in coded.dictionary.to_pylist()]
    return pa.array(read, ARROW[kind]).take(coded.indices)


def _integer(text: str, bound: int) -> int | None:
    found = _INTEGER.fullmatch(text)
    number = int(found[1]) if found is not None and len(found[1]) < 4_000 else None
    return number if number is not None and -bound <= number < bound else None


def _case(value: Values, of_ascii: Callable[[Values], Values], of_text: Callable[[str], str]) -> Values:
    """Of texts, nearly all of which are ASCII."""
    plain = pc.string_is_ascii(value)
    if pc.all(plain).as_py() is not False:
        return of_ascii(value)
    texts = of_ascii(value).to_pylist()
    for at in pc.indices_nonzero(pc.invert(pc.fill_null(plain, True))).to_pylist():
        texts[at] = of_text(value[at].as_py())
    return pa.array(texts, pa.string())


def _decoded(value: Values, as_java: bool) -> Values:
    """Bytes as text. What is none becomes U+FFFD, of a half of a surrogate pair one where Java's decoder is asked."""
    try:
        return value.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if one is None else _text(one, as_java) for one in value.to_pylist()], pa.string())


def _text(value: bytes, as_java: bool) -> str:
    return (_SURROGATE.sub(_NO_TEXT, value) if as_java else value).decode("utf-8", "replace")


def _substring(value: Values, start: int, length: int | None) -> Values:
    """From the first character, 1; a negative start counts from the end. Of characters, not of UTF-16's units."""
    begin = start - 1 if start > 0 else start
    if length is None:
        return pc.utf8_slice_codeunits(value, begin)
    if start < 0:
        # What lies before the text is part of the length.
        texts = [None if text is None else _from_end(text, start, length) for text in value.to_pylist()]
        return pa.array(texts, pa.string())
    return pc.utf8_slice_codeunits(value, begin, begin + length)


def _from_end(text: str, start: int, length: int) -> str:
    begin = len(text) + start
    return text[max(0, begin) : max(0, begin + length)]


def _key_text(*parts: Values) -> Values:
    """As Spark's ``to_json(array(...))`` writes texts; null where one is null."""
    if any(pc.any(pc.match_substring_regex(part, _ESCAPED)).as_py() for part in parts):
        rows = zip(*(part.to_pylist() for part in parts), strict=True)
        return pa.array([None if None in row else _json_array(row) for row in rows], pa.string())
    inner = pc.binary_join_element_wise(*parts, pa.scalar('","'), null_handling="emit_null")
    return pc.binary_join_element_wise(pa.scalar('["'), inner, pa.scalar('"]'), pa.scalar(""))


def key_of_texts(texts: Sequence[str]) -> str:
    """The key of a group whose columns have these texts, as it was made of rows."""
    return texts[0] if len(texts) == 1 else _json_array(texts)


def _json_array(texts: Sequence[str]) -> str:
    written = json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    # Jackson writes the digits of a control character in upper case.
    return _CONTROL.sub(lambda found: "\\u" + found[0][2:].upper(), written)


_FUNCTIONS: Final[Mapping[str, Callable[..., Values]]] = {
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "equal": _equal,
    "less": _less,
    "less_equal": _less_equal,
    "greater": lambda left, right: _less(right, left),
    "greater_equal": lambda left, right: _less_equal(right, left),
    "in": _is_in,
    "is_null": pc.is_null,
    "coalesce": pc.coalesce,
    "add": pc.add,
    "subtract": pc.subtract,
    "multiply": pc.multiply,
    "negate": pc.negate,
    "abs": pc.abs,
    "remainder": _remainder,
    "like": pc.match_like,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "contains": pc.match_substring,
    "length": pc.utf8_length,
    "lower": functools.partial(_case, of_ascii=pc.ascii_lower, of_text=letters.lower),
    "upper": functools.partial(_case, of_ascii=pc.ascii_upper, of_text=letters.upper),
    "decoded": _decoded,
    "split": pc.split_pattern_regex,
    "trim": functools.partial(pc.utf8_trim, characters=" "),
    "ltrim": functools.partial(pc.utf8_ltrim, characters=" "),
    "rtrim": functools.partial(pc.utf8_rtrim, characters=" "),
    "substring": _substring,
    "concat": lambda *parts: pc.binary_join_element_wise(*parts, pa.scalar(""), null_handling="emit_null"),
    "to_text": functools.partial(pc.cast, target_type=pa.string()),
    "to_bigint": functools.partial(pc.cast, target_type=pa.int64()),
    "to_double": functools.partial(pc.cast, target_type=pa.float64(), safe=False),
    "to_integer_or_null": _integers,
    "key_text": _key_text,
    "event_ms": event_ms,
    "latest": pc.max_element_wise,
    "start": lambda window: pc.struct_field(window, "start"),
    "end": lambda window: pc.struct_field(window, "end"),
}
