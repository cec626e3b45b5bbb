from __future__ import annotations

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import stream
from airflow_provider.streaming.language.expression_columns import columns_named


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("amount > 0 AND country IS NOT NULL", ["amount", "country"]),
        ("name = 'amount' OR name = \"x\" OR name LIKE 'it\\'s'", ["name", "name", "name"]),
        ("_source.timestamp > TIMESTAMP '2026-01-01 00:00:00'", ["_source.timestamp"]),
        ("`two words` + amount.`of it`", ["`two words`", "amount.`of it`"]),
        ("upper(trim(BOTH ' ' FROM name))", ["name"]),
        ("CASE WHEN a > 1 THEN b ELSE c END", ["a", "b", "c"]),
        ("CAST(amount AS DECIMAL(10, 2)) + CAST(x AS STRUCT<a: INT, b: STRING>).a + y", []),
        ("CAST(amount AS DECIMAL(10, 2)) + CAST(x AS MAP<STRING, INT>)['k'] + z", ["amount", "x", "z"]),
        ("transform(tags, tag -> upper(tag))", ["tags"]),
        ("aggregate(tags, 0, (total, tag) -> total + length(tag) + more)", ["tags", "more"]),
        ("named_struct('a', b, 'c', e)", ["b", "e"]),
        ("struct(a AS b, c e)", ["a", "c"]),
        ("extract(DAY FROM came) + date_diff(HOUR, came, now())", ["came", "came"]),
        ("came + INTERVAL 3 HOURS + INTERVAL '1-2' YEAR TO MONTH", ["came"]),
        ("current_date = day", []),
        ("amount::INT + x::decimal(10, 2)", ["amount", "x"]),
        ("map_filter(votes, (k, v) -> k > v)", ["votes"]),
        ("x'1F' = raw AND X '1F' = raw AND r'a' = raw AND 1.5e3 = 10L", ["raw", "raw", "raw"]),
        ("votes['key'] = l[0] AND s.f.g = 1", ["votes", "l", "s.f.g"]),
        ("mask(name, upperChar => 'Q')", ["name"]),
        ("name COLLATE UNICODE_CI = other", ["name", "other"]),
        ("amount IN (SELECT x FROM t)", []),
        ("amount > 0 -- more than nothing", []),
        ("größe > 0", ["größe"]),
    ],
)
def test_columns_are_told_from_all_other_words(expression: str, named: list[str]) -> None:
    assert list(columns_named(expression)) == named


def test_unknown_column_of_a_step_is_refused() -> None:
    orders = stream("orders", schema="customer STRING, amount DOUBLE, item STRUCT<price: DOUBLE>, `a.b` INT")
    rows = orders.with_column("paid", "amount * 2").filter("paid > 0 AND item.price > 0 AND Amount < 9", name="free")
    rows = rows.with_column("c", "`a.b` + item.`price`")

    with pytest.raises(ConfigurationError, match=r"filter\(\) got 'item.prise > 0'.*did you mean 'item.price'\?"):
        rows.filter("item.prise > 0", name="x")
