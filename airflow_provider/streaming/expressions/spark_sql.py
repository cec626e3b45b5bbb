"""Reads the part of Spark SQL that the worker computes; all else is Spark's.

sqlglot parses it. It takes more than Spark and sees some of it otherwise, so what is not known here to the last
argument is left to Spark: types that Spark would cast by itself, escapes in texts, and operators that the two bind
differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from airflow_provider.streaming.expressions.expression import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Call,
    Case,
    Column,
    Expression,
    Literal,
)
from airflow_provider.streaming.json.json_decoder import WINDOW
from airflow_provider.streaming.terms.sql_text import calls_in

Kinds = Mapping[str, str]

_NULL: Final = "VOID"
"""The type of a null of which nothing is known yet."""
_FRACTION: Final = "DECIMAL"
"""The type of a number with a point, which becomes a DOUBLE beside one."""
_MAY_FAIL: Final = "what may fail for a value: Spark decides where it is computed"
_TYPES: Final = {"TEXT": STRING, "INT": INT, "BIGINT": BIGINT, "DOUBLE": DOUBLE, "BOOLEAN": BOOLEAN}
"""By sqlglot's names for Spark's."""
_NUMBERS: Final = (INT, BIGINT, DOUBLE)
_TEXT: Final = re.compile(r"'[^']*'")
_NOT_READ: Final = re.compile(r"--|/\*|!(?!=)|[{}\[\];$@?:#\"\\]")
"""What has a meaning of its own in Spark, or one that depends on its settings."""
_SIDE_BY_SIDE: Final = re.compile(r"'\s*'")
"""Two texts, where each is a quote alone: what they come to depends on Spark's settings."""
_CAST_AS: Final = re.compile(r"\bas\s+([^(),]*)\)", re.IGNORECASE)
_WORDS: Final = frozenset({
    "abs", "and", "between", "case", "cast", "char_length", "character_length", "coalesce", "concat", "contains",
    "else", "endswith", "if", "ifnull", "in", "is", "isnotnull", "isnull", "length", "like", "lower", "ltrim", "not",
    "nullif", "nvl", "or", "rtrim", "split", "startswith", "substr", "substring", "then", "trim", "try_cast", "upper",
    "when",
})  # fmt: skip
"""What may stand before a bracket."""
_TYPE_WORDS: Final = frozenset(["bigint", "boolean", "double", "int", "integer", "long", "string"])
_FOREIGN: Final = re.compile(
    r"~|\b(?:isnull|notnull)\b(?!\s*\()|\b(?:asymmetric|symmetric|leading|trailing|both|for|from|escape)\b"
    r"|(?<!is)\s+not\s+null\b|(?:^|[(,=<>+*/%-]|\b(?:and|or|not|then|else|when|in|like|between|case))\s*\+",
    re.IGNORECASE,
)
"""What sqlglot takes and Spark does not, or not as that."""
_DIGITS: Final = re.compile(r"\d+")
_POINT: Final = re.compile(r"\d+\.\d+|\.\d+|\d+\.")
_CLASS: Final = re.compile(r"([a-z])-([a-z])|([A-Z])-([A-Z])|([0-9])-([0-9])")
_PATTERN: Final = re.compile(rf"(?:(?:[A-Za-z0-9 ,;:_/=<>#%&~-]|\[\^?(?:{_CLASS.pattern}|[A-Za-z0-9 ,;:_/])+\])\+?)+")
"""Regular expressions that mean the same in Java and in RE2, and match nothing that is empty."""


class LeftToSparkError(Exception):
    """The worker cannot compute it as Spark does; says what."""


def parse_expression(text: str, kinds: Kinds) -> Expression:
    """What an expression of Spark SQL comes to.

    Args:
        kinds: of the columns that there are.

    Raises:
        LeftToSparkError: it has something that only Spark can compute, or that Spark refuses.
    """
    if kinds.get(text) == WINDOW:
        return Column(text, WINDOW)
    reader, tree = _parsed(text, kinds)
    found = _typed(reader.read(tree))
    _refuse_foldable(found)
    return found


def parse_elements(text: str, kinds: Kinds) -> Expression:
    """What an expression of Spark SQL comes to of which each row is an array of texts, all that ``explode`` gets here.

    Returns:
        The kind is that of the elements.

    Raises:
        LeftToSparkError: as of `parse_expression`.
    """
    reader, tree = _parsed(text, kinds)
    found = reader.elements(tree)
    _refuse_foldable(found)
    return found


def _parsed(text: str, kinds: Kinds) -> tuple[_Reader, Any]:
    import sqlglot
    from sqlglot.errors import SqlglotError

    bare = _TEXT.sub("'", text)
    calls = calls_in(text)
    types = {name.strip().lower() for name in _CAST_AS.findall(bare)}
    if calls - _WORDS or types - _TYPE_WORDS or _FOREIGN.search(bare):
        raise LeftToSparkError(_shortened(text))
    if "\\" in text or _NOT_READ.search(bare) or _SIDE_BY_SIDE.search(bare):
        raise LeftToSparkError("signs of which the meaning depends on more than the text")
    if len({name.lower() for name in kinds}) < len(kinds):
        raise LeftToSparkError("columns whose names differ by case alone")
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError as error:
        raise LeftToSparkError("what sqlglot does not read") from error
    return _Reader(kinds, of_two=bool(calls & {"nvl", "ifnull"})), tree


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


def _typed(value: Expression) -> Expression:
    """Not what has a type beside another alone."""
    if value.kind in (_NULL, _FRACTION):
        raise LeftToSparkError("a literal of a type of its own")
    return value


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
        ranges = ["".join(found) for found in _CLASS.findall(pattern)]
        if _PATTERN.fullmatch(pattern) is None or any(of[0] > of[1] for of in ranges):
            raise LeftToSparkError(f"split() by {pattern!r}")
        return Call("split", (self.text(node.this, as_java=True),), STRING, (pattern,))

    def text(self, node: Any, *, as_java: bool) -> Expression:
        """A STRING. It may be made of a record's bytes; what becomes of bytes that are no text depends on for what."""
        cast = _bare(node)
        if type(cast).__name__ in ("Cast", "TryCast") and not cast.args.get("safe") and _cast_to(cast) == STRING:
            value = self.read(cast.this)
            if value.kind == BINARY:
                return Call("decoded", (value,), STRING, (as_java,))
        return _of(self.read(node), STRING)

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
        return _alike([self.whole(node) for node in nodes])

    # -- nodes ----------------------------------------------------------------------------------------------------

    def paren(self, node: Any) -> Expression:
        return self.read(node.this)

    def column(self, node: Any) -> Expression:
        name, of = node.this.name, node.table
        if of and self._kinds.get(of) == WINDOW and name in ("start", "end"):
            return Call(name, (Column(of, WINDOW),), TIMESTAMP)
        if of or self._kinds.get(name, WINDOW) == WINDOW:
            raise LeftToSparkError(f"{node.sql('spark')!r}, which is no column of a plain type")
        return Column(name, self._kinds[name])

    def literal(self, node: Any) -> Expression:
        text = node.this
        if node.is_string:
            return Literal(text, STRING)
        if _DIGITS.fullmatch(text) and len(text) < 20:
            return _integer(int(text))
        if _POINT.fullmatch(text) and len(text) < 16:
            return Literal(float(text), _FRACTION)
        raise LeftToSparkError(f"the number {text}")

    def truth(self, node: Any) -> Expression:
        return Literal(bool(node.this), BOOLEAN)

    def null(self, node: Any) -> Expression:
        return Literal(None, _NULL)

    def negation(self, node: Any) -> Expression:
        value = self.whole(node.this)
        if isinstance(value, Literal) and isinstance(value.value, (int, float)) and value.kind != BOOLEAN:
            # Only what has no brackets is one number for Spark.
            bare = type(node.this).__name__ == "Literal" and isinstance(value.value, int)
            if value.value in (-(2**31), -(2**63)):
                raise LeftToSparkError("the least number, negated")
            if bare:
                return _integer(int(-value.value))
            # A DECIMAL has no zero below zero.
            return Literal(-value.value if value.value or value.kind != _FRACTION else value.value, value.kind)
        return _of_doubles("negate", value)

    def denial(self, node: Any) -> Expression:
        return Call("not", (self.condition(node.this),), BOOLEAN)

    def logic(self, node: Any) -> Expression:
        left, right = self.condition(node.this), self.condition(node.expression)
        return Call(type(node).__name__.lower(), (left, right), BOOLEAN)

    def comparison(self, node: Any) -> Expression:
        return _compared(type(node).__name__, *self.alike([node.this, node.expression]))

    def is_(self, node: Any) -> Expression:
        if type(node.expression).__name__ != "Null":
            raise LeftToSparkError("IS with another word than NULL")
        return Call("is_null", (_typed(self.whole(node.this)),), BOOLEAN)

    def between(self, node: Any) -> Expression:
        low_left, low = self.alike([node.this, node.args["low"]])
        high_left, high = self.alike([node.this, node.args["high"]])
        if low_left != high_left:
            raise LeftToSparkError("BETWEEN of several types")
        bounds = _compared("GTE", low_left, low), _compared("LTE", high_left, high)
        return Call("and", bounds, BOOLEAN)

    def in_(self, node: Any) -> Expression:
        value, *among = self.alike([node.this, *node.expressions])
        if value.kind not in (STRING, INT, BIGINT) or not among:
            raise LeftToSparkError(f"IN of {value.kind}")
        if not all(isinstance(one, Literal) for one in among):
            raise LeftToSparkError("IN of what is no literal")
        literals = [one.value for one in among if isinstance(one, Literal)]
        known = tuple(one for one in literals if isinstance(one, (str, int)))
        return Call("in", (value,), BOOLEAN, (known, len(known) < len(literals)))

    def like(self, node: Any) -> Expression:
        found = Call("like", (_of(self.whole(node.this), STRING),), BOOLEAN, (_text(node.expression),))
        return Call("not", (found,), BOOLEAN) if node.args.get("negate") else found

    def arithmetic(self, node: Any) -> Expression:
        return _of_doubles(_ARITHMETIC[type(node).__name__], *self.alike([node.this, node.expression]))

    def remainder(self, node: Any) -> Expression:
        left, right = self.alike([node.this, node.expression])
        if left.kind not in (INT, BIGINT) or not isinstance(right, Literal) or right.value in (0, -1, None):
            raise LeftToSparkError("a remainder by what is no plain literal")
        return Call("remainder", (left,), left.kind, (right.value,))

    def case(self, node: Any) -> Expression:
        branches = list[tuple[Expression, Any]]()
        for branch in node.args["ifs"]:
            if node.this is None:
                condition = self.condition(branch.this)
            else:
                condition = _compared("EQ", *self.alike([node.this, branch.this]))
            branches.append((condition, branch.args["true"]))
        return self._chosen(branches, node.args.get("default"))

    def if_(self, node: Any) -> Expression:
        if node.args.get("false") is None:
            raise LeftToSparkError("if() without a third part")
        return self._chosen([(self.condition(node.this), node.args["true"])], node.args["false"])

    def _chosen(self, branches: Sequence[tuple[Expression, Any]], otherwise: Any) -> Expression:
        values = [self.read(value) for _, value in branches]
        last = Literal(None, _NULL) if otherwise is None else self.read(otherwise)
        *made, rest = _alike([*values, last])
        return Case(tuple(zip((condition for condition, _ in branches), made, strict=True)), rest, rest.kind)

    def coalesce(self, node: Any) -> Expression:
        if self._of_two and len(node.expressions) != 1:
            raise LeftToSparkError("nvl() of another number than two")
        parts = _alike([self.read(part) for part in (node.this, *node.expressions)])
        return Call("coalesce", tuple(parts), parts[0].kind)

    def nullif(self, node: Any) -> Expression:
        value = _typed(self.whole(node.this))
        condition = _compared("EQ", *self.alike([node.this, node.expression]))
        return Case(((condition, Literal(None, value.kind)),), value, value.kind)

    def cast(self, node: Any) -> Expression:
        to, value = _cast_to(node), _typed(self.read(node.this))
        if node.args.get("safe"):
            if value.kind != STRING or to not in (INT, BIGINT):
                raise LeftToSparkError(f"try_cast of {value.kind} as {to}")
            return Call("to_integer_or_null", (value,), to, (to,))
        return _as(value, to)

    def pattern(self, node: Any) -> Expression:
        function = {"StartsWith": "starts_with", "EndsWith": "ends_with", "Contains": "contains"}[type(node).__name__]
        return Call(function, (_of(self.read(node.this), STRING),), BOOLEAN, (_text(node.expression),))

    def length(self, node: Any) -> Expression:
        return Call("length", (_of(self.read(node.this), STRING),), INT)

    def trim(self, node: Any) -> Expression:
        function = {None: "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position"))
        if function is None:
            raise LeftToSparkError("trim() of that kind")
        return Call(function, (_of(self.read(node.this), STRING),), STRING)

    def substring(self, node: Any) -> Expression:
        start, length = (self._whole_number(node.args.get(name)) for name in ("start", "length"))
        if start is None or start == -(2**31) or (length is not None and length < 0):
            raise LeftToSparkError("substring() of that place")
        return Call("substring", (_of(self.read(node.this), STRING),), STRING, (start, length))

    def _whole_number(self, node: Any) -> int | None:
        if node is None:
            return None
        value = self.read(node)
        if not isinstance(value, Literal) or not isinstance(value.value, int) or value.kind != INT:
            raise LeftToSparkError("a place that is no literal")
        return value.value

    def concat(self, node: Any) -> Expression:
        parts = node.expressions or [node.this, node.expression]
        return Call("concat", tuple(_of(self.read(part), STRING) for part in parts), STRING)

    def absolute(self, node: Any) -> Expression:
        return _of_doubles("abs", self.read(node.this))

    def by_name(self, node: Any) -> Expression:
        name, parts = node.this.lower(), node.expressions
        if name in ("isnull", "isnotnull") and len(parts) == 1:
            found = Call("is_null", (_typed(self.whole(parts[0])),), BOOLEAN)
            return found if name == "isnull" else Call("not", (found,), BOOLEAN)
        raise LeftToSparkError(f"{name}()")


_COMPARISONS: Final = {
    "EQ": "equal",
    "LT": "less",
    "LTE": "less_equal",
    "GT": "greater",
    "GTE": "greater_equal",
}
_ARITHMETIC: Final = {"Add": "add", "Sub": "subtract", "Mul": "multiply"}
_SPLIT: Final = frozenset({"this", "expression"})
_PREDICATES: Final = frozenset(
    {"EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "And", "Or", "Not", "Is", "Between", "In", "Like"}
)
_READ: Final[Mapping[str, tuple[frozenset[str], Callable[[_Reader, Any], Expression]]]] = {
    name: (frozenset(known.split()), make)
    for names, known, make in (
        ("Paren", "this", _Reader.paren),
        ("Column", "this table", _Reader.column),
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
        ("Mod", "this expression", _Reader.remainder),
        ("Case", "this ifs default", _Reader.case),
        ("If", "this true false", _Reader.if_),
        ("Coalesce", "this expressions", _Reader.coalesce),
        ("Nullif", "this expression", _Reader.nullif),
        ("Cast TryCast", "this to safe _type", _Reader.cast),
        ("StartsWith EndsWith Contains", "this expression", _Reader.pattern),
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
    return "" if given.expressions else _TYPES.get(given.this.name, "")


def _refuse_strange(node: Any, known: Collection[str]) -> None:
    strange = [key for key, value in node.args.items() if key not in known and value]
    if strange:
        raise LeftToSparkError(f"{_named(node)} with {strange[0]}")


def _named(node: Any) -> str:
    return _shortened(node.sql("spark"))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _integer(value: int) -> Literal:
    if -(2**31) <= value < 2**31:
        return Literal(value, INT)
    if -(2**63) < value < 2**63:
        return Literal(value, BIGINT)
    raise LeftToSparkError(f"the number {value}")


def _text(node: Any) -> str:
    if type(node).__name__ != "Literal" or not node.is_string:
        raise LeftToSparkError("a pattern that is no literal")
    return str(node.this)


def _of(value: Expression, kind: str) -> Expression:
    if value.kind == _NULL:
        return Literal(None, kind)
    if value.kind != kind:
        raise LeftToSparkError(f"a {value.kind} where a {kind} is needed")
    return value


def _of_doubles(function: str, *values: Expression) -> Expression:
    if values[0].kind in (INT, BIGINT):
        raise LeftToSparkError(_MAY_FAIL)
    return Call(function, tuple(_of(value, DOUBLE) for value in values), DOUBLE)


def _compared(how: str, left: Expression, right: Expression) -> Expression:
    if how == "NullSafeEQ":
        raise LeftToSparkError("<=>")
    if how == "NEQ":
        return Call("not", (_compared("EQ", left, right),), BOOLEAN)
    return Call(_COMPARISONS[how], (left, right), BOOLEAN)


def _alike(parts: Sequence[Expression]) -> list[Expression]:
    """The same values with the widest of their types."""
    kinds = {part.kind for part in parts} - {_NULL}
    if _FRACTION in kinds and DOUBLE in kinds:
        kinds.discard(_FRACTION)
    if not kinds or _FRACTION in kinds:
        raise LeftToSparkError("literals of a type of their own")
    if len(kinds) == 1:
        (kind,) = kinds
    elif kinds <= set(_NUMBERS):
        kind = max(kinds, key=_NUMBERS.index)
    else:
        raise LeftToSparkError(f"{' beside '.join(sorted(kinds))}")
    return [_as(part, kind) for part in parts]


def _as(value: Expression, kind: str) -> Expression:
    """A value cast as ``CAST`` does it in ANSI mode."""
    if value.kind == kind:
        return value
    if isinstance(value, Literal):
        if value.kind == _NULL:
            return Literal(None, kind)
        if isinstance(value.value, (int, float)) and kind in (BIGINT, DOUBLE) and value.kind != BOOLEAN:
            return Literal(float(value.value) if kind == DOUBLE else value.value, kind)
    match value.kind, kind:
        case (("INT" | "BIGINT" | "BOOLEAN"), "STRING"):
            return Call("to_text", (value,), kind)
        case (("INT" | "BOOLEAN"), "BIGINT"):
            return Call("to_bigint", (value,), kind)
        case (("INT" | "BIGINT"), "DOUBLE"):
            return Call("to_double", (value,), kind)
        case ("BIGINT", "INT") | ("STRING", "INT" | "BIGINT"):
            raise LeftToSparkError(_MAY_FAIL)
    raise LeftToSparkError(f"a cast of {value.kind} as {kind}")
