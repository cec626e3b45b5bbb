"""Reads the part of Spark SQL that the worker computes; all else is Spark's.

sqlglot parses it. It takes more than Spark and sees some of it otherwise, so what is not known here to the last
argument is left to Spark: types that Spark would cast by itself, escapes in texts, and operators that the two bind
differently.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, Final

from airflow_provider.streaming.expressions.expression import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Call,
    Case,
    Column,
    Expression,
    Literal,
    arrow_of,
    fields_of,
)
from airflow_provider.streaming.expressions.spark_types import (
    INTEGERS,
    NULL,
    CastLiteral,
    LeftToSparkError,
    alike,
    arithmetic,
    cast,
    comparable,
    compared,
    decimal_kind,
    digits_of,
    fraction,
    integer,
    of_decimals,
    of_kind,
    scale_of,
    typed,
)
from airflow_provider.streaming.expressions.time_functions import TRUNCATED
from airflow_provider.streaming.terms.sql_text import calls_in

Kinds = Mapping[str, str]

_TYPES: Final = {
    "TEXT": STRING,
    "INT": INT,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "TIMESTAMPTZ": TIMESTAMP,
}
"""By sqlglot's names for Spark's."""
_TEXT: Final = re.compile(r"'[^']*'")
_NOT_READ: Final = re.compile(r"--|/\*|!(?!=)|[{}\[\];$@?:#\"\\]")
"""What has a meaning of its own in Spark, or one that depends on its settings."""
_ELEMENT: Final = re.compile(r"\)\s*\[\s*\d+\s*\]")
_SIDE_BY_SIDE: Final = re.compile(r"'\s*'")
"""Two texts, where each is a quote alone: what they come to depends on Spark's settings."""
_CAST_AS: Final = re.compile(r"\bas\s+([^(),]*)\)", re.IGNORECASE)
_WORDS: Final = frozenset({
    "abs", "and", "between", "case", "cast", "char_length", "character_length", "coalesce", "concat", "contains",
    "date_format", "date_trunc", "day", "dayofmonth", "decimal", "div", "else", "endswith", "hour", "if", "ifnull",
    "in", "is", "isnotnull", "isnull", "length", "like", "lower", "ltrim", "minute", "month", "not", "nullif", "nvl",
    "or", "regexp_extract", "replace", "rlike", "rtrim", "second", "split", "startswith", "struct", "substr",
    "substring", "then", "timestamp_millis", "timestamp_seconds", "to_date", "to_json", "trim", "try_cast",
    "unix_millis", "unix_seconds", "upper", "when", "year",
})  # fmt: skip
"""What may stand before a bracket."""
_TYPE_WORDS: Final = frozenset(["bigint", "boolean", "date", "double", "int", "integer", "long", "string"])
_FOREIGN: Final = re.compile(
    r"~|\b(?:isnull|notnull)\b(?!\s*\()|\b(?:asymmetric|symmetric|leading|trailing|both|for|from|escape)\b"
    r"|(?<!is)\s+not\s+null\b|(?:^|[(,=<>+*/%-]|\b(?:and|or|not|then|else|when|in|like|between|case))\s*\+",
    re.IGNORECASE,
)
"""What sqlglot takes and Spark does not, or not as that."""
_DIGITS: Final = re.compile(r"\d+")
_POINT: Final = re.compile(r"\d+\.\d+|\.\d+|\d+\.")
_CLASS: Final = re.compile(r"([a-z])-([a-z])|([A-Z])-([A-Z])|([0-9])-([0-9])")
_SIGN: Final = r"[A-Za-z0-9 ,;:_/=<>#%&~-]"
_ONE: Final = rf"(?:{_SIGN}|\[\^?(?:{_CLASS.pattern}|[A-Za-z0-9 ,;:_/=&])+\])"
_PATTERN: Final = re.compile(rf"(?:{_ONE}\+?)+")
"""Regular expressions that mean the same in Java and in RE2, and match nothing that is empty."""
_PIECE: Final = rf"(?:{_ONE}[+*?]?)"
_GROUP: Final = rf"\((?:\^|{_PIECE}+)(?:\|(?:\^|{_PIECE}+))*\)"
_FOUND: Final = re.compile(rf"\^?(?:{_PIECE}|{_GROUP})+")
"""The same of what is found somewhere in a text: with groups, each once."""
_TIME_PATTERN: Final = re.compile(r"([A-Za-z])\1*|[ :/.,_-]+")
_TIME_LETTERS: Final = frozenset({"yyyy", "MM", "dd", "HH", "mm", "ss"})
_TIME_PARTS: Final = {"year": "yyyy", "month": "MM", "day": "dd", "dayofmonth": "dd"}
_OF_TIME: Final = frozenset({"hour", "minute", "second"})
_UNITS: Final = {"timestamp_millis": 1_000, "timestamp_seconds": 1_000_000}
"""Of what a function takes, in microseconds."""
_SINCE: Final = {"unix_millis": "event_ms", "unix_seconds": "unix_seconds"}
_NOT_IN_JSON: Final = (BINARY, DOUBLE, TIMESTAMP, DATE)
_MOST_DEPTH: Final = 60
"""Of what stands in what: pickling and computing go down as deep."""
_MOST_SCALE: Final = 6
"""Behind more digits Java writes a DECIMAL with an exponent."""


def parse_expression(text: str, kinds: Kinds) -> Expression:
    """What an expression of Spark SQL comes to.

    Args:
        kinds: of the columns that there are.

    Raises:
        LeftToSparkError: it has something that only Spark can compute, or that Spark refuses.
    """
    if fields_of(kinds.get(text, "")):
        return Column(text, kinds[text])
    return _read(text, kinds, lambda reader, tree: typed(reader.read(tree)))


def parse_elements(text: str, kinds: Kinds) -> Expression:
    """What an expression of Spark SQL comes to of which each row is an array of texts, all that ``explode`` gets here.

    Returns:
        The kind is that of the elements.

    Raises:
        LeftToSparkError: as of `parse_expression`.
    """
    return _read(text, kinds, lambda reader, tree: reader.elements(tree))


def _read(text: str, kinds: Kinds, read: Callable[[_Reader, Any], Expression]) -> Expression:
    try:
        found = read(*_parsed(text, kinds))
        if _depth(found) > _MOST_DEPTH:
            raise LeftToSparkError("an expression of that many parts")
        _refuse_foldable(found)
    except RecursionError as error:
        raise LeftToSparkError("an expression of that many parts") from error
    return found


def _depth(value: Expression) -> int:
    return 1 + max(map(_depth, value.parts), default=0)


def _parsed(text: str, kinds: Kinds) -> tuple[_Reader, Any]:
    import sqlglot
    from sqlglot.errors import SqlglotError

    bare = _TEXT.sub("'", text)
    calls = calls_in(text)
    types = {name.strip().lower() for name in _CAST_AS.findall(bare)}
    if calls - _WORDS or _FOREIGN.search(bare):
        raise LeftToSparkError(_shortened(text))
    if "\\" in text or _NOT_READ.search(_ELEMENT.sub(")", bare)) or _SIDE_BY_SIDE.search(bare):
        raise LeftToSparkError("signs of which the meaning depends on more than the text")
    if len({name.lower() for name in kinds}) < len(kinds):
        raise LeftToSparkError("columns whose names differ by case alone")
    try:
        tree = sqlglot.parse_one(text, read=_dialect())
    except SqlglotError as error:
        raise LeftToSparkError("what sqlglot does not read") from error
    if types - _TYPE_WORDS - {member.name.lower() for member in tree.find_all(sqlglot.exp.PropertyEQ)}:
        raise LeftToSparkError(_shortened(text))
    return _Reader(kinds, of_two=bool(calls & {"nvl", "ifnull"})), tree


@functools.cache
def _dialect() -> Any:
    """Spark's, with the functions by their names that sqlglot turns into something else."""
    from sqlglot.dialects import Spark

    names = {"date_format", "date_trunc", "to_date", "regexp_extract", *_TIME_PARTS, *_OF_TIME, *_SINCE}
    others = {name: made for name, made in Spark.Parser.FUNCTIONS.items() if name.lower() not in names}

    class Plain(Spark):  # type: ignore[misc]  # sqlglot's are made when it is imported
        class Parser(Spark.Parser):  # type: ignore[misc]
            FUNCTIONS: ClassVar = others

    return Plain


def _refuse_foldable(value: Expression) -> None:
    """Leave to Spark what its optimizer computes before there is a row, and with it what stands beside that."""
    folded = not isinstance(value, (Column, Literal)) and not _names_column(value)
    call = value.function if isinstance(value, Call) else None
    literals = [part for part in value.parts if isinstance(part, Literal)]
    decided = call in ("and", "or") and bool(literals)
    unknown = call not in (None, "coalesce") and any(part.value is None for part in literals)
    alike = isinstance(value, Case) and len({*(one for _, one in value.branches), value.otherwise}) == 1
    if folded or decided or unknown or alike:
        raise LeftToSparkError("what comes to the same for every row")
    for part in value.parts:
        _refuse_foldable(part)


def _names_column(value: Expression) -> bool:
    return isinstance(value, Column) or any(map(_names_column, value.parts))


class _Reader:
    def __init__(self, kinds: Kinds, of_two: bool) -> None:
        self._kinds, self._of_two = kinds, of_two

    def read(self, node: Any) -> Expression:
        """One node and all below it."""
        name = type(node).__name__
        read = _READ.get(name)
        if read is None:
            raise LeftToSparkError(_named(node))
        known, make = read
        _refuse_strange(node, known)
        return make(self, node)

    def whole(self, node: Any) -> Expression:
        """An operand that is no comparison and no AND, which Spark may bind otherwise."""
        if type(_bare(node)).__name__ in _PREDICATES:
            raise LeftToSparkError("a comparison inside of another")
        return self.read(node)

    def elements(self, node: Any) -> Expression:
        """What a text is split into."""
        if type(node).__name__ != "RegexpSplit":
            raise LeftToSparkError(f"explode() of {_named(node)}")
        _refuse_strange(node, _SPLIT)
        pattern = _text(node.expression)
        if _PATTERN.fullmatch(pattern) is None or _strange_class(pattern):
            raise LeftToSparkError(f"split() by {pattern!r}")
        return Call("split", (self.text(node.this, as_java=True),), STRING, (pattern,))

    def text(self, node: Any, *, as_java: bool) -> Expression:
        """A STRING. It may be made of a record's bytes; what becomes of bytes that are no text depends on for what."""
        cast = _bare(node)
        if type(cast).__name__ in ("Cast", "TryCast") and not cast.args.get("safe") and _cast_to(cast) == STRING:
            value = self.read(cast.this)
            if value.kind == BINARY:
                return Call("decoded", (value,), STRING, (as_java,))
        return of_kind(self.read(node), STRING)

    def case_of(self, node: Any) -> Expression:
        return Call(type(node).__name__.lower(), (self.text(node.this, as_java=False),), STRING)

    def condition(self, node: Any) -> Expression:
        """A BOOLEAN."""
        found = self.read(node)
        if found.kind != BOOLEAN:
            raise LeftToSparkError("a condition that is no BOOLEAN")
        return found

    def alike(self, nodes: Sequence[Any]) -> list[Expression]:
        """Several of one type, cast as Spark does between numbers."""
        return alike([self.whole(node) for node in nodes])

    # -- nodes ----------------------------------------------------------------------------------------------------

    def paren(self, node: Any) -> Expression:
        return self.read(node.this)

    def column(self, node: Any) -> Expression:
        found = self._path(node)
        if fields_of(found.kind):
            raise LeftToSparkError(f"{node.sql('spark')!r}, which is no column of a plain type")
        return found

    def _path(self, node: Any) -> Expression:
        """A column, or a field of one."""
        if any(part.key != "identifier" for part in node.parts):
            raise LeftToSparkError(f"{node.sql('spark')!r}, a field of what is no column")
        name, *fields = [part.name for part in node.parts]
        found: Expression = Column(name, self._kinds.get(name, NULL))
        for field in fields:
            found = Call("field", (found,), fields_of(found.kind).get(field, NULL), (field,))
        if found.kind == NULL:
            raise LeftToSparkError(f"{node.sql('spark')!r}, which is no column of a plain type")
        return found

    def literal(self, node: Any) -> Expression:
        text = node.this
        if node.is_string:
            return Literal(text, STRING)
        if _DIGITS.fullmatch(text) and len(text) < 20:
            return integer(int(text))
        if _POINT.fullmatch(text) and len(text) < 16:
            return fraction(Decimal(text))
        raise LeftToSparkError(f"the number {text}")

    def truth(self, node: Any) -> Expression:
        return Literal(bool(node.this), BOOLEAN)

    def null(self, node: Any) -> Expression:
        return Literal(None, NULL)

    def negation(self, node: Any) -> Expression:
        value = self.whole(node.this)
        if isinstance(value, Literal) and isinstance(value.value, (int, Decimal)) and value.kind != BOOLEAN:
            # Only what has no brackets is one number for Spark.
            if type(node.this).__name__ != "Literal":
                raise LeftToSparkError("a number in brackets, negated")
            # A DECIMAL has no zero below zero.
            if isinstance(value.value, int):
                return integer(-value.value)
            return Literal(-value.value or Decimal(0), value.kind)
        return arithmetic("negate", value)

    def denial(self, node: Any) -> Expression:
        return Call("not", (self.condition(node.this),), BOOLEAN)

    def logic(self, node: Any) -> Expression:
        left, right = self.condition(node.this), self.condition(node.expression)
        return Call(type(node).__name__.lower(), (left, right), BOOLEAN)

    def comparison(self, node: Any) -> Expression:
        return self._compared(type(node).__name__, node.this, node.expression)

    def _compared(self, how: str, left: Any, right: Any) -> Expression:
        return compared(how, *comparable([self.whole(left), self.whole(right)]))

    def is_(self, node: Any) -> Expression:
        if type(node.expression).__name__ != "Null":
            raise LeftToSparkError("IS with another word than NULL")
        of = _bare(node.this)
        value = self._path(of) if type(of).__name__ == "Column" else typed(self.whole(node.this))
        return Call("is_null", (value,), BOOLEAN)

    def between(self, node: Any) -> Expression:
        value, low, high = node.this, node.args["low"], node.args["high"]
        return Call("and", (self._compared("GTE", value, low), self._compared("LTE", value, high)), BOOLEAN)

    def in_(self, node: Any) -> Expression:
        value, *among = self.alike([node.this, *node.expressions])
        if value.kind not in (STRING, INT, BIGINT, DATE, TIMESTAMP) or not among:
            raise LeftToSparkError(f"IN of {value.kind}")
        if not all(isinstance(one, Literal) for one in among):
            raise LeftToSparkError("IN of what is no literal")
        literals = [one.value for one in among if isinstance(one, Literal)]
        known = tuple(one for one in literals if isinstance(one, (str, int, date)))
        return Call("in", (value,), BOOLEAN, (known, len(known) < len(literals)))

    def like(self, node: Any) -> Expression:
        found = Call("like", (of_kind(self.whole(node.this), STRING),), BOOLEAN, (_text(node.expression),))
        return Call("not", (found,), BOOLEAN) if node.args.get("negate") else found

    def arithmetic(self, node: Any) -> Expression:
        return arithmetic(_ARITHMETIC[type(node).__name__], self.whole(node.this), self.whole(node.expression))

    def quotient(self, node: Any) -> Expression:
        left, right = self.whole(node.this), self.whole(node.expression)
        numbers = {left.kind, right.kind}
        if DOUBLE not in numbers and any(map(digits_of, numbers)):
            return of_decimals("divide", (left, right))
        return Call("divide", (cast(left, DOUBLE), cast(right, DOUBLE)), DOUBLE)

    def whole_quotient(self, node: Any) -> Expression:
        left, right = self.whole(node.this), self.whole(node.expression)
        if not {left.kind, right.kind} <= set(INTEGERS):
            raise LeftToSparkError("DIV of what is no integer")
        return Call("div", (cast(left, BIGINT), cast(right, BIGINT)), BIGINT)

    def remainder(self, node: Any) -> Expression:
        left, right = self.alike([node.this, node.expression])
        if left.kind not in INTEGERS:
            raise LeftToSparkError(f"a remainder of {left.kind}")
        return Call("remainder", (left, right), left.kind)

    def case(self, node: Any) -> Expression:
        branches = list[tuple[Expression, Any]]()
        for branch in node.args["ifs"]:
            if node.this is None:
                condition = self.condition(branch.this)
            else:
                condition = compared("EQ", *self.alike([node.this, branch.this]))
            branches.append((condition, branch.args["true"]))
        return self._chosen(branches, node.args.get("default"))

    def if_(self, node: Any) -> Expression:
        if node.args.get("false") is None:
            raise LeftToSparkError("if() without a third part")
        return self._chosen([(self.condition(node.this), node.args["true"])], node.args["false"])

    def _chosen(self, branches: Sequence[tuple[Expression, Any]], otherwise: Any) -> Expression:
        values = [self.read(value) for _, value in branches]
        last = Literal(None, NULL) if otherwise is None else self.read(otherwise)
        *made, rest = alike([*values, last])
        return Case(tuple(zip((condition for condition, _ in branches), made, strict=True)), rest, rest.kind)

    def coalesce(self, node: Any) -> Expression:
        if self._of_two and len(node.expressions) != 1:
            raise LeftToSparkError("nvl() of another number than two")
        parts = alike([self.read(part) for part in (node.this, *node.expressions)])
        return Call("coalesce", tuple(parts), parts[0].kind)

    def nullif(self, node: Any) -> Expression:
        value = typed(self.whole(node.this))
        condition = compared("EQ", *self.alike([node.this, node.expression]))
        return Case(((condition, Literal(None, value.kind)),), value, value.kind)

    def cast(self, node: Any) -> Expression:
        to, value = _cast_to(node), typed(self.read(node.this))
        if node.args.get("safe"):
            if value.kind != STRING or to in ("", STRING, TIMESTAMP):
                raise LeftToSparkError(f"try_cast of {value.kind} as {to}")
            return Call("read_text_or_null", (value,), to, (arrow_of(to),))
        made = cast(value, to)
        if isinstance(made, Literal) and made.kind in INTEGERS:
            return CastLiteral(made.value, made.kind)
        return made

    def pattern(self, node: Any) -> Expression:
        function = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}[type(node).__name__]
        return Call(function, (of_kind(self.read(node.this), STRING),), BOOLEAN, (_text(node.expression),))

    def length(self, node: Any) -> Expression:
        return Call("length", (of_kind(self.read(node.this), STRING),), INT)

    def trim(self, node: Any) -> Expression:
        function = {None: "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position"))
        if function is None:
            raise LeftToSparkError("trim() of that kind")
        return Call(function, (of_kind(self.read(node.this), STRING),), STRING)

    def substring(self, node: Any) -> Expression:
        start, length = (self._whole_number(node.args.get(name)) for name in ("start", "length"))
        if start is None or start == -(2**31) or (length is not None and length < 0):
            raise LeftToSparkError("substring() of that place")
        return Call("substring", (of_kind(self.read(node.this), STRING),), STRING, (start, length))

    def _whole_number(self, node: Any) -> int | None:
        if node is None:
            return None
        value = self.read(node)
        if not isinstance(value, Literal) or not isinstance(value.value, int) or value.kind != INT:
            raise LeftToSparkError("a place that is no literal")
        return value.value

    def concat(self, node: Any) -> Expression:
        parts = node.expressions or [node.this, node.expression]
        return Call("concat", tuple(of_kind(self.read(part), STRING) for part in parts), STRING)

    def replace(self, node: Any) -> Expression:
        search, by = (node.args.get(name) for name in ("expression", "replacement"))
        if by is None or not _text(search):
            raise LeftToSparkError("replace() without what is to be there, or of nothing")
        return Call("replace", (of_kind(self.read(node.this), STRING),), STRING, (_text(search), _text(by)))

    def rlike(self, node: Any) -> Expression:
        value = of_kind(self.whole(node.this), STRING)
        return Call("rlike", (value,), BOOLEAN, (_pattern_found(_text(node.expression)),))

    def element(self, node: Any) -> Expression:
        (number,) = node.expressions
        at = self._whole_number(number)
        assert at is not None
        return Call("element", (self.elements(node.this),), STRING, (at,))

    def json(self, node: Any) -> Expression:
        if type(node.this).__name__ != "Struct":
            raise LeftToSparkError("to_json() of what is no struct(...)")
        names, values = list[str](), list[Expression]()
        for member in node.this.expressions:
            if type(member).__name__ != "PropertyEQ":
                raise LeftToSparkError("a struct of what has no name")
            names.append(member.this.name)
            values.append(self.read(member.expression))
        for value in values:
            if isinstance(value, Literal) or value.kind in _NOT_IN_JSON or scale_of(value.kind) > _MOST_SCALE:
                raise LeftToSparkError(f"to_json() of a literal, or of {value.kind}")
        return Call("json_object", tuple(values), STRING, (tuple(names),))

    def absolute(self, node: Any) -> Expression:
        return arithmetic("abs", self.read(node.this))

    def by_name(self, node: Any) -> Expression:
        name, parts = node.this.lower(), node.expressions
        if name == "regexp_extract" and len(parts) == 3:
            return self._extract(*parts)
        if name == "date_format" and len(parts) == 2:
            return self._format(*parts)
        if name == "date_trunc" and len(parts) == 2:
            return self._truncated(*parts)
        if len(parts) != 1:
            raise LeftToSparkError(f"{name}()")
        value = typed(self.whole(parts[0]))
        if name in ("isnull", "isnotnull"):
            found = Call("is_null", (value,), BOOLEAN)
            return found if name == "isnull" else Call("not", (found,), BOOLEAN)
        if name in _UNITS and value.kind in INTEGERS:
            return Call("time_of", (cast(value, BIGINT),), TIMESTAMP, (_UNITS[name],))
        if value.kind == TIMESTAMP and name in _SINCE:
            return Call(_SINCE[name], (value,), BIGINT)
        if value.kind == TIMESTAMP and name in _OF_TIME:
            return Call(name, (value,), INT)
        if name == "to_date":
            return cast(value, DATE)
        if value.kind in (TIMESTAMP, DATE) and name in _TIME_PARTS:
            return Call("date_part", (value,), INT, (_TIME_PARTS[name],))
        raise LeftToSparkError(f"{name}()")

    def _format(self, time: Any, pattern: Any) -> Expression:
        parts = [found[0] for found in _TIME_PATTERN.finditer(_text(pattern))]
        letters = {part for part in parts if part[0].isalpha()}
        if not letters or letters - _TIME_LETTERS or "".join(parts) != _text(pattern):
            raise LeftToSparkError(f"date_format() by {_text(pattern)!r}")
        return Call("date_format", (_time(self.read(time)),), STRING, (tuple(parts),))

    def _truncated(self, unit: Any, time: Any) -> Expression:
        if (known := _text(unit).upper()) not in TRUNCATED:
            raise LeftToSparkError(f"date_trunc() to {_text(unit)!r}")
        return Call("date_trunc", (_time(self.read(time)),), TIMESTAMP, (known,))

    def _extract(self, text: Any, pattern: Any, group: Any) -> Expression:
        named, number = _pattern_found(_text(pattern)), self._whole_number(group)
        if number is None or not 0 <= number <= named.count("("):
            raise LeftToSparkError("regexp_extract() of a group that is none")
        # RE2 gives groups that have names.
        for at in range(1, named.count("(") + 1):
            named = re.sub(r"\((?!\?)", f"(?P<g{at}>", named, count=1)
        value = of_kind(self.read(text), STRING)
        return Call("extract", (value,), STRING, (f"(?P<g0>{named})", f"g{number}"))


_ARITHMETIC: Final = {"Add": "add", "Sub": "subtract", "Mul": "multiply"}
_SPLIT: Final = frozenset({"this", "expression"})
_PREDICATES: Final = frozenset({
    "EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "And", "Or", "Not", "Is", "Between", "In", "Like",
    "RegexpLike",
})  # fmt: skip
_READ: Final[Mapping[str, tuple[frozenset[str], Callable[[_Reader, Any], Expression]]]] = {
    name: (frozenset(known.split()), make)
    for names, known, make in (
        ("Paren", "this", _Reader.paren),
        ("Column", "this table db catalog", _Reader.column),
        ("Dot", "this expression", _Reader.column),  # a path of more than four names
        ("Literal", "this is_string", _Reader.literal),
        ("Boolean", "this", _Reader.truth),
        ("Null", "", _Reader.null),
        ("Neg", "this", _Reader.negation),
        ("Not", "this", _Reader.denial),
        ("And Or", "this expression", _Reader.logic),
        ("EQ NEQ LT LTE GT GTE NullSafeEQ", "this expression", _Reader.comparison),
        ("Is", "this expression", _Reader.is_),
        ("Between", "this low high", _Reader.between),
        ("In", "this expressions", _Reader.in_),
        ("Like", "this expression negate", _Reader.like),
        ("Add Sub Mul", "this expression", _Reader.arithmetic),
        ("Div", "this expression safe", _Reader.quotient),
        ("IntDiv", "this expression", _Reader.whole_quotient),
        ("Mod", "this expression", _Reader.remainder),
        ("Case", "this ifs default", _Reader.case),
        ("If", "this true false", _Reader.if_),
        ("Coalesce", "this expressions", _Reader.coalesce),
        ("Nullif", "this expression", _Reader.nullif),
        ("Cast TryCast", "this to safe _type", _Reader.cast),
        ("StartsWith EndsWith Contains", "this expression", _Reader.pattern),
        ("RegexpLike", "this expression", _Reader.rlike),
        ("Replace", "this expression replacement", _Reader.replace),
        ("Bracket", "this expressions", _Reader.element),
        ("JSONFormat", "this", _Reader.json),
        ("Length", "this", _Reader.length),
        ("Lower Upper", "this", _Reader.case_of),
        ("Trim", "this position", _Reader.trim),
        ("Substring", "this start length", _Reader.substring),
        ("Concat", "expressions safe", _Reader.concat),
        ("DPipe", "this expression safe", _Reader.concat),
        ("Abs", "this", _Reader.absolute),
        ("Anonymous", "this expressions", _Reader.by_name),
    )
    for name in names.split()
}
"""By class of sqlglot's nodes, the arguments that may be given, and what it comes to."""


def _bare(node: Any) -> Any:
    """Without the brackets around it."""
    while type(node).__name__ == "Paren":
        node = node.this
    return node


def _cast_to(node: Any) -> str:
    """The type of a cast; empty for one that is not known here."""
    given = node.args["to"]
    digits = [str(one.this) for one in given.expressions]
    if given.this.name == "DECIMAL" and len(digits) in (1, 2) and all(map(_DIGITS.fullmatch, digits)):
        return decimal_kind(int(digits[0]), int(digits[1]) if len(digits) == 2 else 0)
    return "" if digits else _TYPES.get(given.this.name, "")


def _refuse_strange(node: Any, known: Collection[str]) -> None:
    strange = [key for key, value in node.args.items() if key not in known and value]
    if strange:
        raise LeftToSparkError(f"{_named(node)} with {strange[0]}")


def _named(node: Any) -> str:
    return _shortened(node.sql("spark"))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _time(value: Expression) -> Expression:
    return cast(value, TIMESTAMP) if value.kind == DATE else of_kind(value, TIMESTAMP)


def _text(node: Any) -> str:
    if type(node).__name__ != "Literal" or not node.is_string:
        raise LeftToSparkError("a pattern that is no literal")
    return str(node.this)


def _pattern_found(pattern: str) -> str:
    if _FOUND.fullmatch(pattern) is None or _strange_class(pattern):
        raise LeftToSparkError(f"the pattern {pattern!r}")
    return pattern


def _strange_class(pattern: str) -> bool:
    """Whether a range in it ends before it begins, or has what Java takes for an intersection."""
    return "&&" in pattern or any(of[0] > of[1] for of in map("".join, _CLASS.findall(pattern)))
