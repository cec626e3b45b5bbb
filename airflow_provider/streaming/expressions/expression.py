"""Expressions over decoded columns, computed by pyarrow as Spark 4 computes them in ANSI mode.

An expression has one of six types, those of `JsonDecoder`. What raises in Spark raises here, and only for rows for
which Spark would compute it: not behind an AND that is decided, nor in a branch that is not taken. Which expressions
there are, and of which types, `spark_sql` decides; a random test holds both to Spark.
Source: Spark 4.2, ``sql/catalyst/expressions`` (``predicates``, ``arithmetic``, ``conditionalExpressions``, ``Cast``).
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider.streaming.json import spark_times

STRING, INT, BIGINT, DOUBLE, BOOLEAN, TIMESTAMP = "STRING", "INT", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"
ARROW: Final[Mapping[str, pa.DataType]] = {
    STRING: pa.string(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    TIMESTAMP: spark_times.TIMESTAMP,
}

Values = Any
"""A `pa.Array`, or a `pa.Scalar` for the same value in every row."""

_NO: Final = pa.scalar(False)
_EMPTY: Final = pa.scalar("")


class CannotComputeError(Exception):
    """Spark would raise for one of the rows; the message is the beginning of Spark's."""


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

    @property
    def raises(self) -> bool:
        """Whether it may raise for some values."""
        return any(part.raises for part in self.parts)

    @abstractmethod
    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """Its values.

        Args:
            needed: by row, whether Spark computes it; in others nothing may raise. None for all.

        Raises:
            CannotComputeError: Spark would raise.
        """


@dataclass(frozen=True)
class Column(Expression):
    """The value of a column."""

    name: str
    kind: str

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        return columns[self.name]


@dataclass(frozen=True)
class Literal(Expression):
    """The same value in every row; None for null."""

    value: str | int | float | bool | None
    kind: str

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        return pa.scalar(self.value, ARROW[self.kind])


@dataclass(frozen=True)
class Compare(Expression):
    """Two values of one type compared; the second is computed where the first is not null.

    NaN is equal to itself and greater than every other number, as Spark has it.

    Args:
        how: a key of `_COMPARED`.
    """

    how: str
    left: Expression
    right: Expression
    kind: str = BOOLEAN

    @property
    def parts(self) -> tuple[Expression, ...]:
        """See `Expression.parts`."""
        return self.left, self.right

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        left, right = _one_after_the_other((self.left, self.right), columns, needed)
        if self.how.startswith("greater"):
            left, right = right, left
        found = _COMPARED[self.how](left, right)
        if self.left.kind != DOUBLE:
            return found
        nan_left, nan_right = pc.is_nan(left), pc.is_nan(right)
        if self.how == "equal":
            return pc.or_(found, pc.and_(nan_left, nan_right))
        if self.how in ("less", "greater"):
            return pc.or_(found, pc.and_not(nan_right, nan_left))
        return pc.or_(found, nan_right)


@dataclass(frozen=True)
class Logic(Expression):
    """AND, or OR. What stands right is computed where the left one does not decide."""

    is_and: bool
    left: Expression
    right: Expression
    kind: str = BOOLEAN

    @property
    def parts(self) -> tuple[Expression, ...]:
        """See `Expression.parts`."""
        return self.left, self.right

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        left = self.left.of(columns, needed)
        if self.right.raises:
            decided = pc.fill_null(pc.invert(left) if self.is_and else left, False)
            needed = _both(needed, pc.invert(decided))
        right = self.right.of(columns, needed)
        return pc.and_kleene(left, right) if self.is_and else pc.or_kleene(left, right)


@dataclass(frozen=True)
class Case(Expression):
    """The value behind the first condition that is true; without one, the last value."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    kind: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        """See `Expression.parts`."""
        return *(one for branch in self.branches for one in branch), self.otherwise

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        found = list[tuple[Values, Values]]()
        for condition, value in self.branches:
            is_true = pc.fill_null(condition.of(columns, needed), False)
            found.append((is_true, value.of(columns, _both(needed, is_true) if self.raises else None)))
            if self.raises:
                needed = _both(needed, pc.invert(is_true))
        result = self.otherwise.of(columns, needed)
        for is_true, value in reversed(found):
            result = pc.if_else(is_true, value, result)
        return result


@dataclass(frozen=True)
class Coalesce(Expression):
    """The first value that is not null."""

    values: tuple[Expression, ...]
    kind: str

    @property
    def parts(self) -> tuple[Expression, ...]:
        """See `Expression.parts`."""
        return self.values

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        found = list[Values]()
        for part in self.values:
            found.append(part.of(columns, needed))
            if self.raises:
                needed = _both(needed, pc.is_null(found[-1]))
        return pc.coalesce(*found)


@dataclass(frozen=True)
class In(Expression):
    """Whether a text or an integer is one of some literals.

    Args:
        null_among: whether null is one of them: then the answer is true or null.
    """

    value: Expression
    among: tuple[str | int, ...]
    null_among: bool
    kind: str = BOOLEAN

    @property
    def parts(self) -> tuple[Expression, ...]:
        """See `Expression.parts`."""
        return (self.value,)

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        value, kind = self.value.of(columns, needed), ARROW[self.value.kind]
        found = pc.is_in(value, value_set=pa.array(self.among, kind))
        unknown = pc.or_(pc.is_null(value), pc.invert(found)) if self.null_among else pc.is_null(value)
        return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


@dataclass(frozen=True)
class Call(Expression):
    """A function of `_FUNCTIONS`.

    Of two numbers the second is computed where the first is not null, in a division the first where the second is not;
    all parts of a text are.

    Args:
        options: of the function, such as a pattern.
    """

    function: str
    arguments: tuple[Expression, ...]
    kind: str
    options: tuple[Any, ...] = ()

    @property
    def parts(self) -> tuple[Expression, ...]:
        """See `Expression.parts`."""
        return self.arguments

    @property
    def raises(self) -> bool:
        """See `Expression.raises`."""
        return (
            self.function in _RAISING and not (self.kind == DOUBLE and self.function in _OVERFLOWING)
        ) or super().raises

    def of(self, columns: Mapping[str, pa.Array], needed: Values = None) -> Values:
        """See `Expression.of`."""
        if self.function == "divide":
            right, left = _one_after_the_other(self.arguments[::-1], columns, needed)
            found = [left, right]
        elif self.function == "concat":
            found = [part.of(columns, needed) for part in self.arguments]
        else:
            found = _one_after_the_other(self.arguments, columns, needed)
        if self.function not in _RAISING:
            return _FUNCTIONS[self.function](*found, *self.options)
        if needed is not None:
            # A null is computed to null, whatever the others are.
            found[0] = pc.if_else(needed, found[0], pa.scalar(None, ARROW[self.arguments[0].kind]))
        try:
            return _FUNCTIONS[self.function](*found, *self.options)
        except pa.ArrowInvalid as error:
            raise CannotComputeError(_RAISING[self.function]) from error


def _one_after_the_other(
    parts: tuple[Expression, ...], columns: Mapping[str, pa.Array], needed: Values
) -> list[Values]:
    """Each where those before it are not null: of a null Spark computes nothing further."""
    found = list[Values]()
    for at, part in enumerate(parts):
        found.append(part.of(columns, needed))
        if any(later.raises for later in parts[at + 1 :]):
            needed = _both(needed, pc.is_valid(found[-1]))
    return found


def _both(needed: Values, further: Values) -> Values:
    return further if needed is None else pc.and_(needed, further)


# -- the functions -----------------------------------------------------------------------------------------------------

_COMPARED: Final[Mapping[str, Callable[..., Values]]] = {
    "equal": pc.equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.less,
    "greater_equal": pc.less_equal,
}
"""By comparison, what is asked of the two; of the greater ones the other way round."""
_INTEGER: Final = re.compile(r"[\x00-\x20\x7f]*([+-]?[0-9]+)[\x00-\x20\x7f]*")
"""What Spark takes for an integer: its ``trimAll`` takes spaces and control characters away."""


def _divided(left: Values, right: Values) -> Values:
    zero = pc.and_(pc.is_valid(left), pc.equal(right, 0.0))
    if pc.any(zero).as_py():
        raise pa.ArrowInvalid("divide by zero")
    return pc.divide(left, right)


def _remainder(left: Values, divisor: int) -> Values:
    """Of the sign of the dividend. The divisor is neither 0 nor -1, so nothing overflows."""
    number = pa.scalar(divisor, left.type)
    return pc.subtract(left, pc.multiply(pc.divide(left, number), number))


def _narrowed(value: Values) -> Values:
    return pc.cast(value, pa.int32(), safe=True)


def _integers(value: Values, kind: str, nulls: bool) -> Values:
    """Of texts.

    Args:
        nulls: whether one that is no integer of this type gives null.
    """
    return _by_value(functools.partial(_integer, bound=2**63 if kind == BIGINT else 2**31, nulls=nulls), value, kind)


def _integer(text: str, bound: int, nulls: bool) -> int | None:
    found = _INTEGER.fullmatch(text)
    number = int(found[1]) if found is not None and len(found[1]) < 4_000 else None
    if number is not None and -bound <= number < bound:
        return number
    if nulls:
        return None
    raise pa.ArrowInvalid(text)


def _by_value(function: Callable[[Any], Any], value: Values, kind: str) -> Values:
    """One by one, each distinct value once."""
    if isinstance(value, pa.Scalar):
        one = value.as_py()
        return pa.scalar(None if one is None else function(one), ARROW[kind])
    coded = value.dictionary_encode()
    made = [None if one is None else function(one) for one in coded.dictionary.to_pylist()]
    return pa.array(made, ARROW[kind]).take(coded.indices)


def _substring(value: Values, start: int, length: int | None) -> Values:
    """From the first character, 1; a negative start counts from the end. Of characters, not of UTF-16's units."""
    if start < 0 and length is not None:
        # What lies before the text is part of the length.
        return _by_value(functools.partial(_from_end, start=start, length=length), value, STRING)
    begin = start - 1 if start > 0 else start
    if length is None:
        return pc.utf8_slice_codeunits(value, begin)
    return pc.utf8_slice_codeunits(value, begin, max(begin, begin + length))


def _from_end(text: str, start: int, length: int) -> str:
    begin = len(text) + start
    return text[max(0, begin) : max(0, begin + length)]


_FUNCTIONS: Final[Mapping[str, Callable[..., Values]]] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "negate": pc.negate_checked,
    "abs": pc.abs_checked,
    "divide": _divided,
    "remainder": _remainder,
    "not": pc.invert,
    "is_null": pc.is_null,
    "like": pc.match_like,
    "starts_with": pc.starts_with,
    "ends_with": pc.ends_with,
    "contains": pc.match_substring,
    "length": pc.utf8_length,
    "trim": functools.partial(pc.utf8_trim, characters=" "),
    "ltrim": functools.partial(pc.utf8_ltrim, characters=" "),
    "rtrim": functools.partial(pc.utf8_rtrim, characters=" "),
    "substring": _substring,
    "concat": lambda *parts: pc.binary_join_element_wise(*parts, _EMPTY, null_handling="emit_null"),
    "to_text": functools.partial(pc.cast, target_type=pa.string()),
    "to_bigint": functools.partial(pc.cast, target_type=pa.int64()),
    "to_double": functools.partial(pc.cast, target_type=pa.float64(), safe=False),
    "to_int": _narrowed,
    "text_to_integer": _integers,
    "text_to_integer_or_null": _integers,
}
_OVERFLOWING: Final = frozenset({"add", "subtract", "multiply", "negate", "abs"})
"""Which a DOUBLE does not."""
_RAISING: Final[Mapping[str, str]] = {
    "add": "[ARITHMETIC_OVERFLOW] a sum does not fit its type. SQLSTATE: 22003",
    "subtract": "[ARITHMETIC_OVERFLOW] a difference does not fit its type. SQLSTATE: 22003",
    "multiply": "[ARITHMETIC_OVERFLOW] a product does not fit its type. SQLSTATE: 22003",
    "negate": "[ARITHMETIC_OVERFLOW] a negated number does not fit its type. SQLSTATE: 22003",
    "abs": "[ARITHMETIC_OVERFLOW] an absolute number does not fit its type. SQLSTATE: 22003",
    "divide": "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
    "to_int": "[CAST_OVERFLOW] a BIGINT does not fit an INT. SQLSTATE: 22003",
    "text_to_integer": "[CAST_INVALID_INPUT] a text is no integer of the type that it is cast to. SQLSTATE: 22018",
}
"""By function that may raise, what Spark says."""
