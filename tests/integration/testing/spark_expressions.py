"""Random expressions of Spark SQL of the plain types and DECIMAL, and values that are awkward for them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pyarrow as pa

from airflow_provider.streaming.expressions.expression import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    arrow_of,
    fields_of,
)

DECIMAL: Final = "DECIMAL(9,2)"
KINDS: Final = {
    "s": STRING, "t": STRING, "i": INT, "j": INT, "b": BIGINT, "c": BIGINT, "d": DOUBLE, "e": DOUBLE, "p": BOOLEAN,
    "q": BOOLEAN, "w": TIMESTAMP, "m": DECIMAL, "f": DATE,
    "r": "STRUCT<s: STRING, i: INT, w: TIMESTAMP, r: STRUCT<f: DATE>>",
}  # fmt: skip
_VALUES: Final[dict[str, list[object]]] = {
    STRING: [
        None, "", "a", "A", "abc", "Abc", " x ", "\tx\n", "12", " 12 ", "+7", "-3", "12.5", "2147483648",
        "9223372036854775808", "ß", "é", "日本語", "😀a", "a%b", "a_b", "a\nb", "x'y", 'q"r', "\u00a0z\u00a0", "true",
        "aXb", "ΑΣ", "ΑΣ.Σ", "İI", "ǅ", "ŉ", "\ua7cb\u0264", "\U00010d50\U00010d70", "\U00016ea0", "a\u0301Ά", "a/b//c",
        "k=v&id=7", "&id=", "2026-01-31", " 2024-2-29T", "1969", "+12345-1",
        "NaN", "-inf", "1e3", ".5", "5.", "1.5d", "0x1p3", "9999999.995", "99999999999999999999", "Yes", "0", "+NaN",
        "\x7f1", "1_0", "\u0665", "1e400", "-1e-400", "1e", "f", " TRUE ",
    ],
    INT: [None, 0, 1, -1, 2, 3, 7, 100, 2**31 - 1, -(2**31)],
    BIGINT: [None, 0, 1, -1, 2, 5, 1000, 2**31, 2**63 - 1, -(2**63), -(2**62), 12345678901],
    DOUBLE: [None, 0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, 2**53 + 1.0],
    BOOLEAN: [None, True, False],
    TIMESTAMP: [
        None, 0, -1, 1, 999_999, 86_399_999_999, 1_700_000_000_120_000, 951_782_400_000_000, -62_135_596_800_000_001,
        253_402_300_800_000_000, 2**63 - 1, -(2**63), -62_167_219_200_000_000, 8_000_000_000_000_000_000,
    ],
    DATE: [None, 0, -1, 1, 19_782, 11_016, -719_528, -719_529, 2_932_896, 2_932_897, -25_567, 2_000_000_000, -800_000],
    DECIMAL: [None, *map(Decimal, ("0.00", "0.01", "-0.05", "1.50", "9999999.99", "-9999999.99", "1000000.00"))],
}  # fmt: skip
_TAME: Final[dict[str, list[object]]] = {
    INT: [None, 0, 1, -1, 2, 3, 7, 100], BIGINT: [None, 0, 1, -1, 2, 5, 1000]
}  # fmt: skip
"""Of which a few steps of arithmetic do not overflow."""
_COMPARISONS: Final = ["=", "==", "<>", "!=", "<", "<=", ">", ">="]
_FOUND: Final = ["(&|^)id=([^&]*)", "a(b|X)", "[^a-z]+", "(a*)b?", "^(a|A)b", "=(v|7)", "(b|a+)c*"]
_FORMATS: Final = ["yyyy-MM-dd", "HH:mm", "yyyy", "dd.MM.yyyy HH:mm:ss", "yyyyMMdd"]
_SINCE: Final = ["unix_millis", "unix_seconds"]
_PARTS: Final = ["year", "month", "day", "dayofmonth", "hour", "minute", "second"]
_UNITS: Final = [
    "MILLISECOND", "second", "MINUTE", "hour", "DAY", "dd", "week", "MON", "Month", "mm", "QUARTER", "YEAR", "yyyy",
    "yy",
]  # fmt: skip
_PATTERNS: Final = ["a%", "%b", "_", "%", "a_b", "%日%", "", "__", "%a%b%", "a%b"]


def rows(chance: random.Random, number: int) -> pa.Table:
    """Rows of all columns of `KINDS`."""
    tame = _TAME if chance.random() < 0.6 else {}

    def drawn(kind: str) -> pa.Array:
        if fields := fields_of(kind):
            inner = [drawn(one) for one in fields.values()]
            none = pa.array([chance.random() < 0.2 for _ in range(number)])
            return pa.StructArray.from_arrays(inner, names=list(fields), mask=none)
        return pa.array([chance.choice(tame.get(kind, _VALUES[kind])) for _ in range(number)], arrow_of(kind))

    return pa.table({name: drawn(kind) for name, kind in KINDS.items()})


class Expressions:
    """Draws expressions.

    Args:
        chance: decides everything.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def draw(self) -> str:
        """One of any type."""
        return self.of(self._chance.choice(list(_VALUES)), self._chance.choice([1, 2, 2, 3, 4]))

    def of(self, kind: str, depth: int) -> str:
        """One of a type, so deep at the most."""
        if depth <= 0 or self._chance.random() < 0.15:
            return self._leaf(kind)

        def one(kind: str) -> str:
            return self.of(kind, depth - 1)

        def number() -> str:
            return one(self._chance.choice([INT, BIGINT, DOUBLE]))

        made: list[Callable[[], str]]
        match kind:
            case "BOOLEAN":
                made = self._conditions(one, number)
            case "STRING":
                made = self._common(one, kind) + 2 * self._texts(one)
            case "DOUBLE":
                made = self._common(one, kind) + 2 * self._fractions(one, number)
            case "TIMESTAMP":
                made = self._common(one, kind)[:5] + 3 * self._times(one)
            case "DATE":
                made = self._common(one, kind) + 3 * self._days(one)
            case "DECIMAL(9,2)":
                made = 3 * self._decimals(one)
            case _:
                made = self._common(one, kind) + 2 * self._integers(one, kind)
        return self._chance.choice(made)()

    def _leaf(self, kind: str) -> str:
        pick = self._chance.choice
        if self._chance.random() < 0.7:
            fields = {STRING: "r.s", INT: "r.i", TIMESTAMP: "r.w", DATE: "r.r.f"}
            names = [name for name, its in KINDS.items() if its == kind]
            return pick([*names, fields[kind]] if kind in fields else names)
        literals = {
            STRING: ["''", "'a'", "'abc'", "'12'", "'%'", "'a%'", "'日本'", "' x'"],
            INT: ["0", "1", "2", "-1", "7", "100", "2147483647"],
            BIGINT: ["2147483648", "-2147483649", "9223372036854775807", "5000000000"],
            DOUBLE: ["cast(0 as double)", "cast(1 as double)", "cast(3 as double)"],
            BOOLEAN: ["true", "false"],
            TIMESTAMP: ["TIMESTAMP '2026-01-31 12:00:00.5'", "TIMESTAMP '1969-12-31T23:00:00+01:00'"],
            DATE: ["DATE '2026-01-31'", "DATE '0001-01-01'", "DATE '1969-12-31'"],
            DECIMAL: ["0.5", "1.25", "-0.05", ".5", "100.00", "1", "20", "0"],
        }
        return pick(literals[kind])

    def _conditions(self, one: Callable[[str], str], number: Callable[[], str]) -> list[Callable[[], str]]:
        pick = self._chance.choice
        return [
            lambda: f"({number()}) {pick(_COMPARISONS)} ({number()})",
            lambda: f"{one(STRING)} {pick(_COMPARISONS)} {one(STRING)}",
            lambda: f"{one(DOUBLE)} {pick(['<', '>', '='])} {pick(['0.5', '1.0', '-1.5'])}",
            lambda: f"{one(BOOLEAN)} AND {one(BOOLEAN)}",
            lambda: f"{one(BOOLEAN)} OR {one(BOOLEAN)}",
            lambda: f"({one(BOOLEAN)} OR {one(BOOLEAN)}) AND {one(BOOLEAN)}",
            lambda: f"NOT ({one(BOOLEAN)})",
            lambda: f"NOT {one(BOOLEAN)}",
            lambda: f"({one(pick(list(_VALUES)))}) IS {pick(['', 'NOT'])} NULL",
            lambda: f"({one(INT)}) {pick(['', 'NOT'])} IN (1, 2, {pick(['3', 'NULL', '100'])})",
            lambda: f"({one(BIGINT)}) IN (1, 2, {pick(['3', 'NULL', '5000000000'])})",
            lambda: f"({one(STRING)}) IN ('a', '12', {pick(['NULL', 'abc'.join(chr(39) * 2)])})",
            lambda: f"({number()}) {pick(['', 'NOT'])} BETWEEN ({one(INT)}) AND ({number()})",
            lambda: f"({one(STRING)}) {pick(['', 'NOT'])} LIKE '{pick(_PATTERNS)}'",
            lambda: f"{pick(['startswith', 'endswith', 'contains'])}({one(STRING)}, '{pick(['a', '', 'b', '日'])}')",
            lambda: f"({one(STRING)}) RLIKE '{pick(_FOUND)}'",
            lambda: f"({one(DECIMAL)}) {pick(_COMPARISONS)} ({one(pick([DECIMAL, INT, BIGINT]))})",
            lambda: f"({one(DECIMAL)}) {pick(_COMPARISONS)} {pick(['0', '-5', '0.5', '100000', '1.555'])}",
            lambda: f"({one(DECIMAL)}) BETWEEN {pick(['0', '-1.5'])} AND ({one(INT)})",
            lambda: f"({one(TIMESTAMP)}) {pick(_COMPARISONS)} ({one(TIMESTAMP)})",
            lambda: f"({one(DATE)}) {pick(_COMPARISONS)} ({one(pick([DATE, TIMESTAMP]))})",
            lambda: f"({one(pick([DATE, TIMESTAMP]))}) {pick(_COMPARISONS)} '2026-01-31'",
            lambda: f"({one(DATE)}) IN (DATE '1970-01-01', {pick(['NULL', chr(39) + '2024-02-29' + chr(39)])})",
            lambda: f"{pick(['r', 'r.r', 'r.w'])} IS {pick(['', 'NOT'])} NULL",
            lambda: f"({one(DECIMAL)}) {pick(_COMPARISONS)} ({one(DOUBLE)})",
            lambda: f"{pick(['cast', 'try_cast'])}({one(STRING)} as boolean)",
            lambda: f"cast({number()} as boolean)",
            lambda: f"isnull({one(STRING)})",
            lambda: f"isnotnull({one(INT)})",
            lambda: f"coalesce({one(BOOLEAN)}, {one(BOOLEAN)})",
            lambda: f"if({one(BOOLEAN)}, {one(BOOLEAN)}, {one(BOOLEAN)})",
        ]

    def _common(self, one: Callable[[str], str], kind: str) -> list[Callable[[], str]]:
        # What stands twice, as this does in Spark's plan, is dear to look at where it raises.
        nullable = one if self._chance.random() < 0.2 else self._leaf
        return [
            lambda: f"coalesce({one(kind)}, {one(kind)})",
            lambda: f"CASE WHEN {one(BOOLEAN)} THEN {one(kind)} ELSE {one(kind)} END",
            lambda: f"CASE WHEN {one(BOOLEAN)} THEN {one(kind)} WHEN {one(BOOLEAN)} THEN {one(kind)} END",
            lambda: f"CASE {one(INT)} WHEN 1 THEN {one(kind)} WHEN {one(INT)} THEN NULL ELSE {one(kind)} END",
            lambda: f"if({one(BOOLEAN)}, {one(kind)}, {one(kind)})",
            lambda: f"nullif({nullable(kind)}, {one(kind)})",
            lambda: f"nvl({one(kind)}, {one(kind)})",
        ]

    def _texts(self, one: Callable[[str], str]) -> list[Callable[[], str]]:
        pick = self._chance.choice
        return [
            lambda: f"concat({one(STRING)}, {one(STRING)})",
            lambda: f"({one(STRING)}) || ({one(STRING)})",
            lambda: f"{pick(['trim', 'ltrim', 'rtrim', 'lower', 'upper'])}({one(STRING)})",
            lambda: f"substring({one(STRING)}, {pick([0, 1, 2, -1, -2, -10, 5])}, {pick([0, 1, 2, 10])})",
            lambda: f"substr({one(STRING)}, {pick([0, 1, 2, -1, -3])})",
            lambda: f"cast({one(pick([INT, BIGINT, BOOLEAN, TIMESTAMP, DECIMAL, DATE]))} as string)",
            lambda: f"replace({one(STRING)}, '{pick(['a', '//', '日', 'b%'])}', '{pick(['', 'x', 'aa'])}')",
            lambda: f"split({one(STRING)}, '{pick(['/', 'a', '[^a-z]', 'b+'])}')[{pick([0, 0, 1, 2])}]",
            lambda: f"regexp_extract({one(STRING)}, '{pick(_FOUND)}', {pick([0, 1, 2])})",
            lambda: f"date_format({one(pick([TIMESTAMP, DATE]))}, '{pick(_FORMATS)}')",
            lambda: f"to_json(struct({', '.join(self._members(one))}))",
        ]

    def _members(self, one: Callable[[str], str]) -> list[str]:
        kinds = [name for name, kind in KINDS.items() if kind not in (TIMESTAMP, DOUBLE, DATE) and not fields_of(kind)]
        return [
            self._chance.choice([self._chance.choice(kinds), f"({one(STRING)}) AS x{at}", f"({one(DECIMAL)}) AS y{at}"])
            for at in range(self._chance.choice([1, 2, 3]))
        ]

    def _times(self, one: Callable[[str], str]) -> list[Callable[[], str]]:
        return [
            lambda: f"timestamp_millis({one(BIGINT)})",
            lambda: f"timestamp_seconds({one(self._chance.choice([INT, BIGINT]))})",
            lambda: f"date_trunc('{self._chance.choice(_UNITS)}', {one(self._chance.choice([TIMESTAMP, DATE]))})",
        ]

    def _days(self, one: Callable[[str], str]) -> list[Callable[[], str]]:
        pick = self._chance.choice
        return [
            lambda: f"to_date({one(TIMESTAMP)})",
            lambda: f"to_date({one(STRING)})",
            lambda: f"cast({one(TIMESTAMP)} as date)",
            lambda: f"{pick(['cast', 'try_cast'])}({one(STRING)} as date)",
        ]

    def _decimals(self, one: Callable[[str], str]) -> list[Callable[[], str]]:
        pick = self._chance.choice
        return [
            lambda: f"({one(DECIMAL)}) {pick('+-*')} ({one(pick([DECIMAL, INT, BIGINT]))})",
            lambda: f"({one(DECIMAL)}) / ({one(pick([DECIMAL, INT]))})",
            lambda: f"{pick(['0.5', '3', '20'])} / ({one(DECIMAL)})",
            lambda: f"({one(DECIMAL)}) / {pick(['0.7', '3', '-2', '0.0'])}",
            lambda: f"{pick(['0.5', '3', '-2', '0.908', '0.05'])} {pick('+-*')} ({one(DECIMAL)})",
            lambda: f"{pick(['0.5', '0.908', '-1.5'])} {pick('+-*')} ({one(pick([INT, BIGINT]))})",
            lambda: f"-({one(DECIMAL)})",
            lambda: f"abs({one(DECIMAL)})",
            lambda: f"cast({one(pick([INT, BIGINT]))} as decimal({pick(['20', '22, 2', '19', '12', '38, 10'])}))",
            lambda: f"CASE WHEN {one(BOOLEAN)} THEN m END",
            lambda: f"coalesce({one(DECIMAL)}, {pick(['m + 0.00', '0', '0.5', 'i', 'b'])})",
            lambda: f"cast({one(DECIMAL)} as decimal({pick(['5,1', '10,2', '4', '38,0', '12,4', '7,7'])}))",
            lambda: f"{pick(['cast', 'try_cast'])}({one(STRING)} as decimal({pick(['9,2', '4', '38,6'])}))",
            lambda: f"cast({one(pick([INT, BIGINT]))} as decimal({pick(['4', '9,5', '12', '19,1'])}))",
        ]

    def _fractions(self, one: Callable[[str], str], number: Callable[[], str]) -> list[Callable[[], str]]:
        pick = self._chance.choice
        return [
            lambda: f"({one(DOUBLE)}) {pick('+-*')} ({number()})",
            lambda: f"({number()}) / ({number()})",
            lambda: f"-({one(DOUBLE)})",
            lambda: f"abs({one(DOUBLE)})",
            lambda: f"{pick(['cast', 'try_cast', 'cast'])}({one(pick([STRING, BOOLEAN]))} as double)",
            lambda: f"cast({one(pick([INT, BIGINT, DECIMAL]))} as double)",
            lambda: f"({one(DOUBLE)}) {pick('+-*/')} ({one(DECIMAL)})",
            lambda: f"{one(DOUBLE)} {pick('+-*')} 0.5",
        ]

    def _integers(self, one: Callable[[str], str], kind: str) -> list[Callable[[], str]]:
        pick = self._chance.choice
        others = [INT] if kind == INT else [INT, BIGINT]
        made = [
            lambda: f"({one(kind)}) {pick('+-*')} ({one(pick(others))})",
            lambda: f"{one(kind)} {pick('+-*')} {one(pick(others))}",
            lambda: f"-({one(kind)})",
            lambda: f"abs({one(kind)})",
            lambda: f"({one(kind)}) % {pick([2, 3, 7, -4, -1, 0])}",
            lambda: f"({one(kind)}) % ({one(pick(others))})",
            lambda: f"cast({one(DOUBLE)} as {kind})",
            lambda: f"cast({one(DECIMAL)} as {kind})",
            lambda: f"try_cast({one(STRING)} as {kind})",
            lambda: f"cast({one(BOOLEAN if kind == INT else pick([BOOLEAN, TIMESTAMP]))} as {kind})",
            lambda: f"cast({one(STRING)} as {kind})",
            lambda: f"cast({one(BIGINT if kind == INT else INT)} as {kind})",
        ]
        if kind == BIGINT:
            return [*made, lambda: f"({one(INT)}) div ({one(BIGINT)})", lambda: f"{pick(_SINCE)}({one(TIMESTAMP)})"]
        return [
            *made,
            lambda: f"length({one(STRING)})",
            lambda: f"{pick(_PARTS)}({one(TIMESTAMP)})",
            lambda: f"{pick(_PARTS[:4])}({one(DATE)})",
        ]
