"""Which type an expression of Spark SQL has, and what Spark casts by itself, in ANSI mode.

Source: Spark 4.2, ``AnsiTypeCoercion``, ``DecimalType``, ``DecimalPrecisionTypeCoercion`` and ``Cast``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from airflow_provider.streaming.expressions.expression import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Call,
    Expression,
    Literal,
    arrow_of,
)
from airflow_provider.streaming.json.spark_times import date_days, timestamp_us
from airflow_provider.streaming.json.types import MOST_DIGITS

NULL: Final = "VOID"
"""The type of a null of which nothing is known yet."""
_DIGITS_OF: Final = {INT: 10, BIGINT: 20}
"""Of the DECIMAL that Spark makes of an integer."""
_DIGITS_OF_DOUBLE: Final = 15
"""Behind more of them Spark casts a DECIMAL to an integer by way of a DOUBLE."""
INTEGERS: Final = (INT, BIGINT)
_NUMBERS: Final = (*INTEGERS, DOUBLE)
_LEAST_SCALE: Final = 6
"""Of a quotient of DECIMAL."""
_COMPARISONS: Final = {
    "EQ": "equal",
    "LT": "less",
    "LTE": "less_equal",
    "GT": "greater",
    "GTE": "greater_equal",
}


class LeftToSparkError(Exception):
    """The worker cannot compute it as Spark does; says what."""


class CastLiteral(Literal):
    """``CAST(5 AS BIGINT)`` or ``5L``, the same for sqlglot, which Spark types otherwise beside a DECIMAL."""


def typed(value: Expression) -> Expression:
    """Not what has a type beside another alone."""
    if value.kind == NULL:
        raise LeftToSparkError("a null of no type")
    return value


def of_kind(value: Expression, kind: str) -> Expression:
    """A value of exactly this type, or null."""
    if value.kind == NULL:
        return Literal(None, kind)
    if value.kind != kind:
        raise LeftToSparkError(f"a {value.kind} where a {kind} is needed")
    return value


# -- literals ---------------------------------------------------------------------------------------------------------


def integer(value: int) -> Literal:
    """A literal without a point."""
    if -(2**31) <= value < 2**31:
        return Literal(value, INT)
    if -(2**63) < value < 2**63:
        return Literal(value, BIGINT)
    raise LeftToSparkError(f"the number {value}")


def fraction(value: Decimal) -> Literal:
    """A literal with a point."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return Literal(value, decimal_kind(max(len(digits), -exponent), -exponent))


def _moment(text: str, kind: str) -> Literal:
    """A literal of that point in time, or of that day."""
    since = date_days(text) if kind == DATE else timestamp_us(text)
    try:
        if since is not None and kind == DATE:
            return Literal(date(1970, 1, 1) + timedelta(days=since), kind)
        if since is not None:
            return Literal(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since), kind)
    except OverflowError:
        pass  # Python's years end with 9999
    raise LeftToSparkError(f"{text!r} as a {kind}")


# -- what stands beside each other ------------------------------------------------------------------------------------


def alike(parts: Sequence[Expression]) -> list[Expression]:
    """The same values with the widest of their types."""
    kinds = {part.kind for part in parts} - {NULL}
    if DOUBLE in kinds:
        # Beside a DOUBLE a literal with a point is one.
        kinds -= {part.kind for part in parts if isinstance(part, Literal) and isinstance(part.value, Decimal)}
    if not kinds:
        raise LeftToSparkError("nulls of no type")
    if len(kinds) == 1:
        (kind,) = kinds
    elif kinds <= set(_NUMBERS):
        kind = max(kinds, key=_NUMBERS.index)
    elif (sizes := _sizes(kinds - {DOUBLE})) is not None:
        kind = DOUBLE if DOUBLE in kinds else _widest(sizes)
    elif (moments := kinds - {STRING}) <= {DATE, TIMESTAMP}:
        kind = max(moments)
    else:
        raise LeftToSparkError(f"{' beside '.join(sorted(kinds))}")
    return [cast(part, kind) for part in parts]


def comparable(values: Sequence[Expression]) -> list[Expression]:
    """Two values of one type, in which they are compared."""
    kinds = {value.kind for value in values}
    if DOUBLE in kinds or NULL in kinds or all(digits_of(kind) is None for kind in kinds):
        return alike(values)
    made = [_as_decimal(value) for value in values]
    kind = _widest([found for value in made if (found := digits_of(value.kind)) is not None])
    return [cast(value, kind) for value in made]


def compared(how: str, left: Expression, right: Expression) -> Expression:
    """Two values of one type, by sqlglot's name of a comparison."""
    if how == "NullSafeEQ":
        raise LeftToSparkError("<=>")
    if how == "NEQ":
        return Call("not", (compared("EQ", left, right),), BOOLEAN)
    return Call(_COMPARISONS[how], (left, right), BOOLEAN)


def arithmetic(function: str, *values: Expression) -> Expression:
    """What ``add``, ``subtract``, ``multiply``, ``negate`` or ``abs`` makes of numbers."""
    kinds = {value.kind for value in values}
    if DOUBLE not in kinds and any(digits_of(kind) is not None for kind in kinds):
        return of_decimals(function, values)
    made = alike(values)
    kind = made[0].kind
    if kind in INTEGERS:
        return Call(f"{function}_integers" if len(made) > 1 else f"{function}_integer", tuple(made), kind)
    return Call(function, tuple(of_kind(value, DOUBLE) for value in made), DOUBLE)


def cast(value: Expression, kind: str) -> Expression:
    """A value cast as ``CAST`` does it in ANSI mode."""
    if value.kind == kind:
        return value
    if isinstance(value, Literal):
        if value.kind == NULL:
            return Literal(None, kind)
        if value.kind == STRING and kind in (DATE, TIMESTAMP):
            return _moment(str(value.value), kind)
        if isinstance(value.value, (int, Decimal)) and kind == DOUBLE and value.kind != BOOLEAN:
            return Literal(float(value.value), kind)
        if isinstance(value.value, int) and kind == BIGINT and value.kind == INT:
            return Literal(value.value, kind)
        wanted = digits_of(kind)
        if isinstance(value.value, Decimal) and wanted is not None:
            too_large = value.value and value.value.adjusted() >= wanted[0] - wanted[1]
            if too_large or scale_of(value.kind) > wanted[1]:
                raise LeftToSparkError(f"{value.value} as a {kind}")
            return Literal(value.value, kind)
    to, of = digits_of(kind), digits_of(value.kind)
    if to is not None and (of is not None or value.kind in INTEGERS):
        digits, scale = of or (_DIGITS_OF[value.kind] - (value.kind == BIGINT), 0)
        # No value of it is rounded, and none does not fit.
        if scale <= to[1] and digits - scale <= to[0] - to[1]:
            return Call("to_decimal", (value,), kind, (arrow_of(kind),))
        return Call("round_to_decimal", (value,), kind, (arrow_of(kind),))
    if to is not None and value.kind == STRING:
        return Call("read_text", (value,), kind, (arrow_of(kind),))
    if of is not None and kind == DOUBLE:
        return Call("decimal_to_double", (value,), kind)
    if of is not None and kind in INTEGERS and of[0] <= _DIGITS_OF_DOUBLE:
        return Call("decimal_to_integer", (value,), kind, (arrow_of(kind),))
    if of is not None and kind == STRING:
        return Call("to_text", (value,), kind)
    match value.kind, kind:
        case (("INT" | "BIGINT" | "BOOLEAN" | "TIMESTAMP" | "DATE"), "STRING"):
            return Call("to_text", (value,), kind)
        case ("TIMESTAMP", "DATE"):
            return Call("to_date", (value,), kind)
        case ("DATE", "TIMESTAMP"):
            return Call("midnight", (value,), kind)
        case ("STRING", ("INT" | "BIGINT" | "DOUBLE" | "BOOLEAN" | "DATE")):
            return Call("read_text", (value,), kind, (arrow_of(kind),))
        case ("BOOLEAN", ("INT" | "DOUBLE")) | (("INT" | "BIGINT" | "DOUBLE"), "BOOLEAN"):
            return Call("cast", (value,), kind, (arrow_of(kind),))
        case ("TIMESTAMP", "BIGINT"):
            return Call("unix_seconds", (value,), kind)
        case ("BIGINT", "INT"):
            return Call("to_int", (value,), kind)
        case ("DOUBLE", ("INT" | "BIGINT")):
            return Call("to_whole", (value,), kind, (arrow_of(kind),))
        case (("INT" | "BOOLEAN"), "BIGINT"):
            return Call("to_bigint", (value,), kind)
        case (("INT" | "BIGINT"), "DOUBLE"):
            return Call("to_double", (value,), kind)
    raise LeftToSparkError(f"a cast of {value.kind} as {kind}")


# -- DECIMAL ----------------------------------------------------------------------------------------------------------


def decimal_kind(precision: int, scale: int) -> str:
    """A DECIMAL of so many digits, of which some are behind the point."""
    if not 0 <= scale <= precision or not 0 < precision <= MOST_DIGITS:
        raise LeftToSparkError("a DECIMAL of too many digits")
    return f"DECIMAL({precision},{scale})"


def digits_of(kind: str) -> tuple[int, int] | None:
    """Of a DECIMAL, how many digits it has, and how many behind the point."""
    if not kind.startswith("DECIMAL"):
        return None
    found = arrow_of(kind)
    return found.precision, found.scale


def _sizes(kinds: Collection[str]) -> list[tuple[int, int]] | None:
    """The digits that DECIMAL and integers have beside each other; None where one is another type."""
    found = [(_DIGITS_OF[kind], 0) if kind in INTEGERS else digits_of(kind) for kind in kinds]
    return [one for one in found if one is not None] if None not in found else None


def _widest(sizes: Sequence[tuple[int, int]]) -> str:
    """The DECIMAL that holds all of several."""
    scale = max(scale for _, scale in sizes)
    return decimal_kind(max(digits - behind for digits, behind in sizes) + scale, scale)


def scale_of(kind: str) -> int:
    """How many digits a DECIMAL has behind the point; 0 of another type."""
    return (digits_of(kind) or (0, 0))[1]


def _as_decimal(value: Expression) -> Expression:
    """A number beside a DECIMAL: of a literal as many digits as it has."""
    if isinstance(value, CastLiteral):
        raise LeftToSparkError("a cast number beside a DECIMAL")
    if isinstance(value, Literal) and isinstance(value.value, int) and value.kind in INTEGERS:
        return Literal(Decimal(value.value), decimal_kind(len(str(abs(value.value))), 0))
    if value.kind in INTEGERS:
        return cast(value, decimal_kind(_DIGITS_OF[value.kind], 0))
    if digits_of(value.kind) is None:
        raise LeftToSparkError(f"{value.kind} beside a DECIMAL")
    return value


def of_decimals(function: str, values: Sequence[Expression]) -> Expression:
    """What arithmetic makes of numbers of which one is a DECIMAL."""
    made = [_as_decimal(value) for value in values]
    sizes = [found for value in made if (found := digits_of(value.kind)) is not None]
    if len(made) == 1:
        return Call(function, tuple(made), made[0].kind)
    (left, left_scale), (right, right_scale) = sizes
    if function == "divide":
        scale = max(_LEAST_SCALE, left_scale + right + 1)
        kind = decimal_kind(left - left_scale + right_scale + scale, scale)
        return Call("divide_decimals", tuple(made), kind, (arrow_of(kind),))
    if function == "multiply":
        kind = decimal_kind(left + right + 1, left_scale + right_scale)
    else:
        scale = max(left_scale, right_scale)
        kind = decimal_kind(max(left - left_scale, right - right_scale) + scale + 1, scale)
    return Call(function, tuple(made), kind)
