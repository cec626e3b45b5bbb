"""What the functions of expressions come to for many rows, as Spark 4 has them.

Those of `LACKING` have no value for some values: they raise ``pyarrow.ArrowInvalid`` where there is one among the rows.
Source: Spark 4.2, ``sql/catalyst/expressions`` (``predicates``, ``arithmetic``, ``datetimeExpressions``, ``Cast``).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.expressions import letters, time_functions
from airflow_provider.streaming.expressions.casts_of_text import read_all_texts, read_text
from airflow_provider.streaming.expressions.time_functions import Values
from airflow_provider.streaming.json.json_rows import iso_times, plain_decimals
from airflow_provider.streaming.json.types import MOST_DIGITS

_NULL: Final = pa.nulls(1, pa.bool_())[0]  # `pa.scalar` would load pandas at the import
_CONTROL: Final = re.compile(r"\\u00[0-9a-f]{2}")
_ESCAPED: Final = r'["\\\x00-\x1f]'
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_NO_TEXT: Final = "\ufffd".encode()
_ABOVE_BIGINT: Final = 2.0**63
_LONG: Final = Context(prec=120, rounding=ROUND_DOWN)
_FIRST_ROUNDED: Final = Decimal(1).scaleb(-39)


# -- comparisons -------------------------------------------------------------------------------------------------------


def _equal(left: Values, right: Values) -> Values:
    """NaN is equal to itself, as Spark has it."""
    found = pc.equal(left, right)
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right))) if left.type == pa.float64() else found


def _less(left: Values, right: Values) -> Values:
    """NaN is greater than every other number, as Spark has it."""
    found = pc.less(left, right)
    return pc.or_(found, pc.and_not(pc.is_nan(right), pc.is_nan(left))) if left.type == pa.float64() else found


def _less_equal(left: Values, right: Values) -> Values:
    found = pc.less_equal(left, right)
    return pc.or_(found, pc.is_nan(right)) if left.type == pa.float64() else found


def _is_in(value: Values, among: Sequence[str | int], null_among: bool) -> Values:
    """Whether it is one of some literals; where null is among them, the answer is true or null."""
    found = pc.is_in(value, value_set=pa.array(among, value.type))
    unknown = pc.or_(pc.is_null(value), pc.invert(found)) if null_among else pc.is_null(value)
    return pc.if_else(unknown, _NULL, found)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _refuse(lacks: Callable[..., Values], value: Values, *others: Any) -> None:
    """Where there is a value of which a function has none (`LACKING`)."""
    if pc.any(pc.and_(lacks(value, *others), pc.is_valid(value))).as_py():
        raise pa.ArrowInvalid("a value is lacking")


def _quotient(left: Values, right: Values) -> Values:
    """Of DOUBLE."""
    _refuse(_by_zero, left, right)
    return pc.divide(left, right)


def _quotient_of_decimals(left: Values, right: Values, kind: pa.DataType) -> Values:
    """Rounded half up twice, as Spark does it: behind 39 digits, and to its type."""
    _refuse(_by_zero, left, right)
    unit, found = Decimal(1).scaleb(-kind.scale), list[Decimal | None]()
    for number, by in _pairs(left, right):
        if number is None or by is None:
            found.append(None)
            continue
        exact = _LONG.divide(number, by).quantize(_FIRST_ROUNDED, ROUND_HALF_UP, _LONG)
        found.append(exact.quantize(unit, ROUND_HALF_UP, _LONG))
    return pa.array(found, kind)


def _pairs(left: Values, right: Values) -> Iterator[tuple[Any, Any]]:
    """Of which one may be the same in every row."""
    count = len(right) if isinstance(left, pa.Scalar) else len(left)
    both = (pa.repeat(one, count) if isinstance(one, pa.Scalar) else one for one in (left, right))
    return zip(*(one.to_pylist() for one in both), strict=True)


def _whole_quotient(left: Values, right: Values) -> Values:
    """Of BIGINT, towards zero."""
    _refuse(_by_zero, left, right)
    return pc.divide_checked(left, pc.if_else(pc.equal(right, 0), pa.scalar(1, pa.int64()), right))


def _remainder(left: Values, right: Values) -> Values:
    """Of integers; it has the sign of the dividend."""
    _refuse(_by_zero, left, right)
    one = pa.scalar(1, right.type)
    # By -1 the least number would overflow; what is left is that of 1.
    divisor = pc.if_else(pc.or_(pc.equal(right, 0), pc.equal(right, -1)), one, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


def _whole(value: Values, kind: pa.DataType) -> Values:
    """Of DOUBLE, without what is behind the point."""
    _refuse(_whole_is_out, value, kind)
    cut = pc.trunc(value)
    if kind != pa.int64():
        return pc.cast(cut, kind)
    # The greatest BIGINT is none of DOUBLE: what is one more is taken for it.
    top = pc.equal(cut, _ABOVE_BIGINT)
    return pc.if_else(top, pa.scalar(2**63 - 1, kind), pc.cast(pc.if_else(top, 0.0, cut), kind))


def _decimal(value: Values, kind: pa.DataType) -> Values:
    """Of integers and decimals, where each of them fits."""
    if pa.types.is_integer(value.type):
        value = pc.cast(value, pa.decimal128(20 if value.type == pa.int64() else 10, 0))
    return pc.cast(value, kind)


def _rounded(value: Values, kind: pa.DataType) -> Values:
    """Of integers and decimals, half up, as wide as it takes."""
    if pa.types.is_integer(value.type):
        value = pc.cast(value, pa.decimal128(20 if value.type == pa.int64() else 10, 0))
    wide = pc.cast(value, pa.decimal256(76, value.type.scale))
    return pc.round(wide, kind.scale, "half_towards_infinity") if value.type.scale > kind.scale else wide


def _rounded_is_out(value: Values, kind: pa.DataType) -> Values:
    rounded = pc.abs(_rounded(value, kind))
    return pc.greater_equal(rounded, pa.scalar(Decimal(10) ** (kind.precision - kind.scale), rounded.type))


def _round_to_decimal(value: Values, kind: pa.DataType) -> Values:
    return pc.cast(_rounded(value, kind), kind)


def _decimal_to_double(value: Values) -> Values:
    """The nearest, which Arrow does not always find."""
    return pa.array([None if one is None else float(one) for one in value.to_pylist()], pa.float64())


def _decimal_to_integer(value: Values, kind: pa.DataType) -> Values:
    """Without what is behind the point."""
    return pc.cast(_cut(value), kind)


def _decimal_is_out(value: Values, kind: pa.DataType) -> Values:
    above = 2 ** (kind.bit_width - 1)
    return _beyond(_cut(value), Decimal(-above), Decimal(above - 1))


def _cut(value: Values) -> Values:
    whole = pc.trunc(pc.cast(value, pa.decimal128(MOST_DIGITS, value.type.scale)))
    return pc.cast(whole, pa.decimal128(MOST_DIGITS - value.type.scale, 0))


# -- texts -------------------------------------------------------------------------------------------------------------


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


def _extracted(value: Values, pattern: str, group: str) -> Values:
    """What a group of a pattern is where it is found first; empty where it is not."""
    found = pc.extract_regex(value, pattern)
    return pc.if_else(pc.is_valid(value), pc.fill_null(pc.struct_field(found, group), ""), None)


def text_of(value: Values) -> Values:
    """Plain values as Spark casts them to STRING in a session of UTC. Not DOUBLE, which each Java writes otherwise."""
    kind = value.type
    if pa.types.is_date32(kind):
        return iso_times(value)
    if pa.types.is_timestamp(kind):
        # Without the zone, and without zeros at the end of the fraction.
        return pc.replace_substring_regex(pc.replace_substring(iso_times(value), "T", " "), r"\.?0*Z$", "")
    if pa.types.is_decimal(kind):
        return plain_decimals(value)
    return pc.cast(value, pa.string())


def _composite_key(*parts: Values) -> Values:
    """As Spark's ``to_json(array(...))`` writes texts; null where one is null."""
    if any(pc.any(pc.match_substring_regex(part, _ESCAPED)).as_py() for part in parts):
        rows = zip(*(part.to_pylist() for part in parts), strict=True)
        return pa.array([None if None in row else _jackson(row) for row in rows], pa.string())
    inner = pc.binary_join_element_wise(*parts, pa.scalar('","'), null_handling="emit_null")
    return pc.binary_join_element_wise(pa.scalar('["'), inner, pa.scalar('"]'), pa.scalar(""))


def key_of_texts(texts: Sequence[str]) -> str:
    """The key of a group whose columns have these texts, as it was made of rows."""
    return texts[0] if len(texts) == 1 else _jackson(texts)


def _jackson(value: str | Sequence[str]) -> str:
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Jackson writes the digits of a control character in upper case.
    return _CONTROL.sub(lambda found: "\\u" + found[0][2:].upper(), written)


def _json_object(*values: Values, names: Sequence[str]) -> Values:
    """As Spark's ``to_json(struct(...))`` writes it: without what is null."""
    members = [
        pc.binary_join_element_wise(pa.scalar(f"{_jackson(name)}:"), _json_value(one), pa.scalar(","), pa.scalar(""))
        for name, one in zip(names, values, strict=True)
    ]
    # No value ends with a comma.
    inner = pc.ascii_rtrim(pc.binary_join_element_wise(*(pc.fill_null(one, "") for one in members), ""), ",")
    return pc.binary_join_element_wise(pa.scalar("{"), inner, pa.scalar("}"), pa.scalar(""))


def _json_value(value: Values) -> Values:
    if not pa.types.is_string(value.type):
        return text_of(value)
    if pc.any(pc.match_substring_regex(value, _ESCAPED)).as_py():
        return pa.array([None if one is None else _jackson(one) for one in value.to_pylist()], pa.string())
    return pc.binary_join_element_wise(pa.scalar('"'), value, pa.scalar('"'), pa.scalar(""))


FUNCTIONS: Final[Mapping[str, Callable[..., Values]]] = {
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
    "add_integers": pc.add_checked,
    "subtract_integers": pc.subtract_checked,
    "multiply_integers": pc.multiply_checked,
    "negate_integer": pc.negate_checked,
    "abs_integer": pc.abs_checked,
    "divide": _quotient,
    "divide_decimals": _quotient_of_decimals,
    "div": _whole_quotient,
    "remainder": _remainder,
    "like": pc.match_like,
    "rlike": pc.match_substring_regex,
    "extract": _extracted,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "contains": pc.match_substring,
    "replace": pc.replace_substring,
    "length": pc.utf8_length,
    "lower": functools.partial(_case, of_ascii=pc.ascii_lower, of_text=letters.lower),
    "upper": functools.partial(_case, of_ascii=pc.ascii_upper, of_text=letters.upper),
    "decoded": _decoded,
    "split": pc.split_pattern_regex,
    "element": pc.list_element,
    "trim": functools.partial(pc.utf8_trim, characters=" "),
    "ltrim": functools.partial(pc.utf8_ltrim, characters=" "),
    "rtrim": functools.partial(pc.utf8_rtrim, characters=" "),
    "substring": _substring,
    "concat": lambda *parts: pc.binary_join_element_wise(*parts, pa.scalar(""), null_handling="emit_null"),
    "to_text": text_of,
    "to_bigint": functools.partial(pc.cast, target_type=pa.int64()),
    "to_double": functools.partial(pc.cast, target_type=pa.float64(), safe=False),
    "to_int": functools.partial(pc.cast, target_type=pa.int32()),
    "to_decimal": _decimal,
    "round_to_decimal": _round_to_decimal,
    "decimal_to_double": _decimal_to_double,
    "decimal_to_integer": _decimal_to_integer,
    "midnight": time_functions.midnight,
    "read_text": read_all_texts,
    "read_text_or_null": read_text,
    "to_time_or_null": time_functions.times_of,
    "to_date": time_functions.date_of,
    "to_whole": _whole,
    "cast": pc.cast,
    "composite_key": _composite_key,
    "json_object": lambda *values: _json_object(*values[:-1], names=values[-1]),
    "event_ms": time_functions.event_ms,
    "latest": pc.max_element_wise,
    "field": pc.struct_field,
    "time_of": time_functions.time_of,
    "unix_seconds": functools.partial(time_functions.units, us=1_000_000),
    "date_format": time_functions.formatted,
    "date_trunc": time_functions.truncated,
    "date_part": time_functions.date_part,
    "hour": time_functions.time_part(pc.hour),
    "minute": time_functions.time_part(pc.minute),
    "second": time_functions.time_part(pc.second),
}

# -- values that there are not ----------------------------------------------------------------------------------------

_OUT_OF_RANGE: Final = "a number is out of its type's range"
_ZERO: Final = "it divides by zero"
_NO_VALUE: Final = "a text is no value of its type, or out of its range"
_FEWER: Final = "there are fewer parts"
_NO_TIME: Final = "a time is out of range"

Lacks = Callable[..., pa.Array]


def _least(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(-(2 ** (kind.bit_width - 1)), kind)


def _sum_is_out(left: Values, right: Values) -> Values:
    """Where both have one sign, and their sum, which wraps around, has the other."""
    found = pc.less(pc.add(left, right), 0)
    signs = pc.less(left, 0), pc.less(right, 0)
    return pc.and_(pc.equal(*signs), pc.not_equal(signs[0], found))


def _difference_is_out(left: Values, right: Values) -> Values:
    found = pc.less(pc.subtract(left, right), 0)
    signs = pc.less(left, 0), pc.less(right, 0)
    return pc.and_(pc.not_equal(*signs), pc.not_equal(signs[0], found))


def _product_is_out(left: Values, right: Values) -> Values:
    """Where the product, which wraps around, divided by one of them is not the other."""
    product, one = pc.multiply(left, right), pa.scalar(1, left.type)
    by = pc.if_else(pc.or_(pc.equal(left, 0), pc.equal(left, -1)), one, left)
    wrong = pc.and_(pc.not_equal(pc.divide(product, by), right), pc.not_equal(by, one))
    return pc.or_(wrong, pc.and_(pc.equal(left, -1), pc.equal(right, _least(right.type))))


def _quotient_is_out(left: Values, right: Values) -> Values:
    return pc.and_(pc.equal(left, _least(left.type)), pc.equal(right, -1))


def _by_zero(_: Values, right: Values) -> Values:
    return pc.equal(right, 0)


def _is_least(value: Values) -> Values:
    return pc.equal(value, _least(value.type))


def _beyond(value: Values, least: float | Decimal, greatest: float | Decimal) -> Values:
    return pc.invert(pc.and_(pc.greater_equal(value, least), pc.less_equal(value, greatest)))


def _whole_is_out(value: Values, kind: pa.DataType) -> Values:
    above = 2.0 ** (kind.bit_width - 1)
    return _beyond(pc.trunc(value), -above, above if kind == pa.int64() else above - 1)


LACKING: Final[Mapping[str, Sequence[tuple[Lacks, str]]]] = {
    "add_integers": [(_sum_is_out, _OUT_OF_RANGE)],
    "subtract_integers": [(_difference_is_out, _OUT_OF_RANGE)],
    "multiply_integers": [(_product_is_out, _OUT_OF_RANGE)],
    "negate_integer": [(_is_least, _OUT_OF_RANGE)],
    "abs_integer": [(_is_least, _OUT_OF_RANGE)],
    "to_int": [(lambda value: _beyond(value, -(2**31), 2**31 - 1), _OUT_OF_RANGE)],
    "to_whole": [(_whole_is_out, _OUT_OF_RANGE)],
    "divide": [(_by_zero, _ZERO)],
    "remainder": [(_by_zero, _ZERO)],
    "divide_decimals": [(lambda left, right, _: _by_zero(left, right), _ZERO)],
    "div": [(_by_zero, _ZERO), (_quotient_is_out, _OUT_OF_RANGE)],
    "read_text": [(lambda text, kind: pc.is_null(read_text(text, kind)), _NO_VALUE)],
    "round_to_decimal": [(_rounded_is_out, _OUT_OF_RANGE)],
    "decimal_to_integer": [(_decimal_is_out, _OUT_OF_RANGE)],
    "midnight": [(time_functions.is_beyond_times, _NO_TIME)],
    "date_trunc": [(time_functions.begins_before_all, _NO_TIME)],
    "element": [(lambda parts, at: pc.less_equal(pc.list_value_length(parts), at), _FEWER)],
    "time_of": [(lambda units, us: _beyond(units, -(2**63 // us), (2**63 - 1) // us), _NO_TIME)],
}
"""By function that has no value for some values, for which, and why. Nobody looks where an argument is null."""
