from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, session_window, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.language.result import Result
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.terms.steps import Filter, Select, Selected, WithColumn

ORDERS = stream("orders", schema="customer STRING, amount DOUBLE, tags ARRAY<STRING>, who STRUCT<name: STRING>")
KEYED = stream("orders", schema="customer STRING, amount DOUBLE", key="customer")
TIMED = stream("seen", schema="id STRING, at TIMESTAMP", event_time="at", watermark="0 seconds")


def names_of(stream: Stream) -> list[str]:
    assert stream.columns is not None
    return [name for name in stream.columns if name != "_source"]


def test_stream_is_a_value() -> None:
    filtered = ORDERS.filter("amount > 0", name="free").with_column("half", "amount / 2")

    assert ORDERS.steps == ()
    assert filtered.steps == (Filter("amount > 0", "free"), WithColumn("half", "amount / 2"))
    assert pickle.loads(pickle.dumps(filtered)) == filtered


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        pytest.param("amount", Selected("amount", ("amount",)), id="column"),
        pytest.param("`amount`", Selected("`amount`", ("amount",)), id="quoted"),
        pytest.param("who.name", Selected("who.name", ("name",)), id="field"),
        pytest.param("amount / 2 AS half", Selected("amount / 2", ("half",)), id="computed"),
        pytest.param("CAST(amount AS INT) as whole", Selected("CAST(amount AS INT)", ("whole",)), id="as-in-brackets"),
        pytest.param("' AS x' || customer AS `a b`", Selected("' AS x' || customer", ("a b",)), id="as-in-quotes"),
        pytest.param("*", Selected("*", ()), id="all"),
        pytest.param("explode(tags) AS tag", Selected("tags", ("tag",), "explode"), id="explode"),
        pytest.param(
            "EXPLODE( split(customer, '[)]+') ) AS part",
            Selected("split(customer, '[)]+')", ("part",), "explode"),
            id="bracket-in-quotes",
        ),
        pytest.param("explode_outer(tags) AS tag", Selected("tags", ("tag",), "explode_outer"), id="outer"),
        pytest.param("explode(tags) AS (a, b)", Selected("tags", ("a", "b"), "explode"), id="map"),
    ],
)
def test_expression_is_taken_apart(expression: str, selected: Selected) -> None:
    (step,) = ORDERS.select(expression).steps

    assert isinstance(step, Select)
    assert step.columns == (selected,)


def test_records_of_which_nothing_comes_are_counted_under_a_name() -> None:
    def name(*expressions: str, name: str | None = None) -> str | None:
        step = ORDERS.select(*expressions, name=name).steps[0]
        assert isinstance(step, Select)
        return step.name

    assert name("customer", "explode(tags) AS tag") == "no_tag"
    assert name("explode(tags) AS tag", name="untagged") == "untagged"
    assert name("explode_outer(tags) AS tag") is None
    assert name("customer") is None


def test_columns_are_those_that_the_steps_leave() -> None:
    assert names_of(ORDERS) == ["customer", "amount", "tags", "who"]
    assert names_of(ORDERS.with_column("Amount", "1")) == ["customer", "tags", "who", "Amount"]
    assert names_of(ORDERS.select("explode(tags) AS tag", "amount AS spent")) == ["tag", "spent"]
    assert names_of(ORDERS.select("*", "1 AS one")) == ["customer", "amount", "tags", "who", "one"]


@pytest.mark.parametrize(
    ("stream", "key"),
    [
        pytest.param(KEYED.filter("amount > 0", name="free"), "customer", id="filter"),
        pytest.param(KEYED.with_column("half", "amount / 2"), "customer", id="another-column"),
        pytest.param(KEYED.with_column("Customer", "upper(customer)"), None, id="key-replaced"),
        pytest.param(KEYED.select("amount"), None, id="key-left-out"),
        pytest.param(KEYED.select("customer AS who", "amount"), "who", id="key-renamed"),
        pytest.param(KEYED.select("*", "1 AS one"), "customer", id="all"),
        pytest.param(KEYED.select("upper(customer) AS customer"), None, id="key-computed"),
        pytest.param(stream("raw"), "key", id="no-schema"),
    ],
)
def test_stream_knows_which_column_is_the_records_key(stream: Stream, key: str | None) -> None:
    assert stream.key == key


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("select-nothing", lambda: ORDERS.select(), r"select\(\) got nothing"),
    ("select-a-number", lambda: ORDERS.select(1), r"select\(\) got 1: give Spark SQL as text"),  # type: ignore[arg-type]
    ("filter-a-number", lambda: ORDERS.filter(1, "x"), r"filter\(\) got 1: give Spark SQL as text"),  # type: ignore[arg-type]
    ("open-quote", lambda: ORDERS.filter("customer = 'ann", "x"), r"where a quote is opened and not closed"),
    ("no-condition", lambda: ORDERS.filter("customer", "x"), r"'customer', a column of type STRING: give a condition"),
    (
        "name-with-a-dot",
        lambda: stream("t", "a STRUCT<b: INT>").group_by("a.b").aggregate(F.count()).filter("a.b = 1"),
        r"its name has a dot in it, so write `a\.b`",
    ),
    ("no-comma", lambda: stream("t", "a INT b INT"), r"column 'a' is INT, and behind that stands 'b INT'"),
    ("no-comma-inside", lambda: stream("t", "a STRUCT<b: INT c: INT>"), r"column 'a\.b' is INT, and behind that"),
    ("open-bracket", lambda: stream("t", "a STRUCT<b: INT"), r"in which a bracket is not closed"),
    ("column-of-none", lambda: ORDERS.with_column("x", None), r"with_column\(\) got None: give Spark SQL"),  # type: ignore[arg-type]
    ("no-name", lambda: ORDERS.select("amount / 2"), r"no name: end it with AS"),
    ("name-twice", lambda: ORDERS.select("amount", "1 AS Amount"), r"two columns the name 'Amount'"),
    ("name-of-all", lambda: ORDERS.select("*", "1 AS Amount"), r"'Amount', which is among the columns of '\*' already"),
    ("own-name", lambda: ORDERS.select("1 AS _source"), r"'_source', which every row has"),
    ("missing", lambda: ORDERS.select("amuont"), r"'amuont', which does not exist: did you mean 'amount'\?"),
    (
        "missing-in-filter",
        lambda: ORDERS.filter("amuont > 0", name="free"),
        r"filter\(\) got 'amuont > 0', which names the column 'amuont', which does not exist: did you mean 'amount'\?",
    ),
    ("missing-in-with-column", lambda: ORDERS.with_column("x", "upper(custmer)"), r"did you mean 'customer'\?"),
    ("missing-in-select", lambda: ORDERS.select("coalesce(amuont, 0) AS x"), r"did you mean 'amount'\?"),
    ("missing-in-explode", lambda: ORDERS.select("explode(tgs) AS tag"), r"did you mean 'tags'\?"),
    ("missing-behind-a-step", lambda: ORDERS.select("amount AS a").filter("amount > 0", name="x"), r"There are 'a'"),
    ("two", lambda: ORDERS.select("explode(tags) AS a", "explode(tags) AS b"), r"2 generators \(explode\(tags\), "),
    ("nested", lambda: ORDERS.select("upper(explode(tags)) AS t"), r"explode\(\) inside of another expression"),
    ("twice-nested", lambda: ORDERS.select("explode(explode(tags)) AS t"), r"a generator inside of another"),
    ("inline", lambda: ORDERS.select("inline(tags) AS t"), r"it takes explode\(\) and explode_outer\(\)"),
    ("no-explode-name", lambda: ORDERS.select("explode(tags)"), r"name what comes out"),
    ("needless-name", lambda: ORDERS.select("amount", name="x"), r"got name='x', and drops no record"),
    ("in-with-column", lambda: ORDERS.with_column("t", "explode(tags)"), r"with_column\(\) got .*use select\(\)"),
    ("in-filter", lambda: ORDERS.filter("explode(tags) = 'a'", name="x"), r"filter\(\) got .*use select\(\)"),
    ("the-records-column", lambda: ORDERS.with_column("_source", "1"), r"holds the record's topic"),
    ("union", lambda: ORDERS.union(stream("web", "id STRING")), r"only that of 'orders' has a column 'amount'"),
    ("union of nothing", lambda: ORDERS.union(), r"union\(\) got nothing: give streams"),
    ("schema", lambda: stream("t", schema="a STRING, A INT"), r"stream\(\) got a schema with the column 'a' and 'A'"),
    ("key", lambda: stream("t", schema="a STRING", key="b"), r"as its key, names the column 'b'"),
    ("topic", lambda: stream(7), r"stream\(\) got topic=7: give one text"),  # type: ignore[arg-type]
    ("group-by-nothing", lambda: ORDERS.group_by(), r"group_by\(\) got nothing: give names"),
    ("group-by-missing", lambda: ORDERS.group_by("custmer"), r"did you mean 'customer'\?"),
    ("group-by-array", lambda: ORDERS.group_by("customer", "tags"), r"has no text of its own"),
    ("group-by-twice", lambda: ORDERS.group_by("customer", "Customer"), r"give each column once"),
    ("partitions", lambda: ORDERS.group_by("customer", partitions=0), r"partitions=0: it must be a whole number"),
    ("needless-partitions", lambda: KEYED.group_by("customer", partitions=3), r"needs no internal topic"),
    (
        "sink-before-operation",
        lambda: KEYED.group_by("customer").sink("t"),  # type: ignore[attr-defined]
        r"call aggregate\(\) or process\(\) next",
    ),
    ("missing-column", lambda: KEYED.group_by("customer").aggregate(F.sum("amuont")), r"did you mean 'amount'\?"),
    ("result-as-key", lambda: KEYED.group_by("customer").aggregate(F.count().alias("customer")), r"two fields of one"),
    ("last", lambda: ORDERS.group_by("customer").aggregate(F.last("amount")), r"in no certain order: take min\(\)"),
    (
        "last-of-some",
        lambda: ORDERS.group_by("customer").aggregate(F.last("amount", filter="amount > 1")),
        r"in no certain order: take min\(\) or max\(\), or give first\(\) and last\(\) by=",
    ),
    (
        "last-in-a-session",
        lambda: TIMED.group_by("k", session_window("at", "1 minute"), trust_partitioning=True).aggregate(F.last("k")),
        r"in a session: where two sessions become one, .* Give first\(\) and last\(\) by=",
    ),
    (
        "column-of-a-filter",
        lambda: KEYED.group_by("customer").aggregate(F.count(filter="amuont > 1")),
        r"aggregate\(\), in 'count FILTER \(WHERE amuont > 1\)', with filter=: .*did you mean 'amount'\?",
    ),
    (
        "aggregate-in-a-filter",
        lambda: KEYED.group_by("customer").aggregate(F.count(filter="amount > avg(amount)")),
        r"with filter=: .*avg\(\) is of many rows",
    ),
    ("column-by", lambda: KEYED.group_by("customer").aggregate(F.max_by("customer", "at")), r"'at', which does not"),
    ("top-of-arrays", lambda: ORDERS.group_by("customer").aggregate(F.top("tags", 2)), r"top of column 'tags' of type"),
    ("spread-of-texts", lambda: KEYED.group_by("amount").aggregate(F.stddev("customer")), r"stddev of column 'cust"),
    ("name", lambda: KEYED.group_by("customer").aggregate(F.count(), name="a/b"), r"aggregate\(\) name 'a/b'"),
    (
        "step-of-a-table",
        lambda: KEYED.group_by("customer").aggregate(F.count()).drop_duplicates("count"),  # type: ignore[attr-defined]
        r"drop_duplicates\(\) was called on a table, 'aggregate\(\) of orders', whose rows change: call to_stream",
    ),
    ("count-of-a-number", lambda: F.count(1), r"F\.count\(\) got 1: give the name of one column"),  # type: ignore[arg-type]
    ("sum-of-a-number", lambda: F.sum(1), r"F\.sum\(\) got 1: give the name of one column"),  # type: ignore[arg-type]
    ("last-of-nothing", lambda: F.last(None), r"F\.last\(\) got None"),  # type: ignore[arg-type]
    ("count-of-all", lambda: F.count("*"), r"F\.count\(\) got '\*': say F\.count\(\)"),
    (
        "window-alone",
        lambda: KEYED.group_by(window("at", "10 minutes")),
        r"got window\(at, 10 minutes\) and no column: .*with_column\(\"all\", \"'all'\"\)",
    ),
    ("duplicates-of-nothing", lambda: TIMED.drop_duplicates(within="1 hour"), r"nothing: give names of columns\."),
    (
        "duplicates-by-window",
        lambda: TIMED.drop_duplicates("id", window("at", "1 hour"), within="1 hour"),  # type: ignore[arg-type]
        r"got 'id', window\(at, 1 hour\): give names of columns\.",
    ),
    ("topic-of-sink", lambda: KEYED.sink("a/b"), r"sink\(\) names the topic 'a/b', which Kafka cannot have"),
    ("topic-of-stream", lambda: stream("my topic"), r"stream\(\) names the topic 'my topic', which Kafka"),
    ("topic-of-table", lambda: table("..", "k STRING", "k"), r"table\(\) names the topic '\.\.', which Kafka"),
    ("no-key", lambda: ORDERS.sink("copies"), r"sink\(\) of the rows of 'orders' got no key"),
    ("key-of-sink", lambda: ORDERS.sink("copies", key="tags"), r"has no text of its own"),
]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: ORDERS.union([ORDERS, KEYED]), id="union"),  # type: ignore[arg-type]
        pytest.param(lambda: StatefulJob("k", [KEYED.sink("a"), KEYED.sink("b")]), id="list"),  # type: ignore[arg-type]
        pytest.param(lambda: StatefulJob("k", KEYED.group_by("customer")), id="grouped"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_argument_is_named_in_short(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"got a (list of 2|GroupedStream): give ") as refused:
        make()

    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("condition", ["true", "NULL", "paid", "`paid`", "(paid)", "customer IS NULL"])
def test_condition_may_be_a_column_or_a_word(condition: str) -> None:
    assert stream("t", "customer STRING, paid BOOLEAN").filter(condition, "left_out").steps


@pytest.mark.parametrize(("make", "why"), [pytest.param(make, why, id=id) for id, make, why in REFUSED])
def test_what_cannot_be_is_refused_in_one_line_where_it_is_written(make: Callable[[], object], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        make()

    assert "\n" not in str(refused.value)


def test_order_is_kept_where_the_grouping_column_is_the_key() -> None:
    KEYED.group_by("customer").aggregate(F.last("amount"))
    ORDERS.group_by("customer", trust_partitioning=True).aggregate(F.first("amount"))


def test_column_that_says_the_order_is_taken_behind_an_internal_topic_and_in_a_session() -> None:
    ORDERS.group_by("amount").aggregate(F.last("customer", by="amount"), F.max_by("customer", "amount"))
    TIMED.group_by("k", session_window("at", "1 minute")).aggregate(F.first("k", by="at"), F.top("k", 2, by="at"))


def test_condition_of_an_aggregate_is_a_column_of_the_rows_once_for_each_condition() -> None:
    aggregates = [F.count(filter="amount > 1"), F.sum("amount", filter="amount > 1"), F.count(filter="amount > 2")]

    result = KEYED.group_by("customer").aggregate(*(a.alias(str(at)) for at, a in enumerate(aggregates))).origin
    assert isinstance(result, Result)

    named = [(step.name, step.expression) for step in result.grouped.steps if isinstance(step, WithColumn)]
    assert named == [(aggregates[0].where, "amount > 1"), (aggregates[2].where, "amount > 2")]
    assert result.operation.columns == (aggregates[0].where, "amount", aggregates[2].where)
    assert result.grouped.by_record_key


def test_schema_that_only_spark_understands_is_left_to_it() -> None:
    strange = stream("t", schema="a-b STRING")

    assert strange.columns is None
    strange.select("c", "explode(d) AS e").group_by("e").aggregate(F.sum("f"))
    with pytest.raises(ConfigurationError, match="is not understood here: name them with select"):
        strange.sink("copies", key="a")


TIMED = stream("orders", schema="k STRING, at BIGINT, sent BIGINT", event_time="at", watermark="1 minute")


@pytest.mark.parametrize(
    ("of", "column"),
    [
        pytest.param(TIMED, "at", id="untouched"),
        pytest.param(TIMED.select("k", "at AS other_at"), "other_at", id="renamed"),
        pytest.param(TIMED.select("k", "`AT` AS b").select("b AS c", "k"), "c", id="renamed-twice"),
        pytest.param(TIMED.select("*", "at AS other_at"), "at", id="copied-beside-all"),
        pytest.param(TIMED.select("at AS other_at", "at"), "at", id="copied"),
        pytest.param(TIMED.select("k", "at AS other_at", "sent AS at"), "at", id="another-column-gets-the-name"),
        pytest.param(
            TIMED.select("k", "at AS raw").with_column("at", "raw * 1000"), "at", id="computed-under-the-name"
        ),
        pytest.param(TIMED.select("k", "at AS b").with_column("b", "b * 1000"), "b", id="computed-under-the-new-name"),
        pytest.param(TIMED.select("k", "at + 1 AS b"), "at", id="computed"),
        pytest.param(
            stream("o", schema="s STRUCT<at: BIGINT>", event_time="s.at", watermark="1 minute").select("s.at AS b"),
            "b",
            id="field",
        ),
        pytest.param(
            stream("orders", schema="k STRING", watermark="1 minute").select("k", "_source.timestamp AS b"),
            "_source.timestamp",
            id="time-of-the-record",
        ),
    ],
)
def test_plain_rename_takes_the_event_time_with_it(of: Stream, column: str) -> None:
    assert of.event_time is not None
    assert of.event_time.column == column
    assert of.event_time.delay_ms == 60_000


def test_two_streams_with_one_name_of_the_event_time_are_joined_after_a_rename() -> None:
    other = TIMED.select("k", "at AS other_at")

    joined = TIMED.join(other, on="k", within="10 minutes")

    assert names_of(joined) == ["k", "at", "sent", "other_at", "_event_time"]


def test_streams_are_united_by_the_name_that_select_gave_the_event_time() -> None:
    shop = stream("shop", schema="k STRING, happened BIGINT", event_time="happened", watermark="1 minute")

    united = TIMED.select("k", "at").union(shop.select("k", "happened AS at")).select("k", "at AS b")

    assert [branch.event_time and branch.event_time.column for branch in united.branches] == ["b", "b"]


PAIRS = TIMED.join(TIMED.select("k", "at AS other_at"), on="k", within="10 minutes")
NAMES = table("names", schema="k STRING, name STRING", key="k")


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda: PAIRS.group_by("k", window("_event_time", "1 hour")), id="window"),
        pytest.param(lambda: PAIRS.drop_duplicates("k", within="1 hour"), id="duplicates"),
        pytest.param(lambda: PAIRS.join(TIMED.select("k", "at AS c"), on="k", within="1 hour"), id="left-of-a-join"),
        pytest.param(lambda: TIMED.select("k", "at AS c").join(PAIRS, on="k", within="1 hour"), id="right-of-a-join"),
        pytest.param(
            lambda: PAIRS.join(NAMES, on="k").group_by("k", window("_event_time", "1 hour")), id="behind-a-table-too"
        ),
        pytest.param(
            lambda: TIMED.join(TIMED.select("k", "at AS b"), on="k", within="1 hour", event_time="b").group_by(
                "k", window("b", "1 hour")
            ),
            id="named",
        ),
        pytest.param(lambda: PAIRS.select("k").drop_duplicates("k", within="1 hour"), id="behind-select"),
    ],
)
def test_rows_of_two_streams_have_an_event_time(use: Callable[[], object]) -> None:
    use()


def test_rows_of_two_streams_have_none_where_one_is_that_of_the_record() -> None:
    recorded = stream("orders", schema="k STRING", watermark="1 minute")
    joined = recorded.join(TIMED, on="k", within="1 hour")
    with pytest.raises(ConfigurationError, match=r"what is joined has none.*name a column with stream\(event_time"):
        joined.group_by("k", window("at", "1 hour"))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        pytest.param("row_number() over (partition by customer order by amount)", "OVER", id="over"),
        pytest.param("lag(amount) IGNORE NULLS OVER(ORDER BY amount)", "OVER", id="ignore-nulls"),
        pytest.param("amount / sum(amount)", "sum", id="aggregate"),
        pytest.param("length(to_json(struct(*)))", "inside of an expression", id="all-columns"),
        pytest.param("size(array(amount, * EXCEPT (id)))", "inside of an expression", id="all-but-one"),
    ],
)
def test_expression_that_needs_more_than_named_columns_of_its_row_is_refused(expression: str, said: str) -> None:
    uses: tuple[Callable[[], Stream], ...] = (
        lambda: ORDERS.with_column("x", expression),
        lambda: ORDERS.filter(f"{expression} > 1", name="n"),
        lambda: ORDERS.select(f"{expression} AS x"),
    )
    for use in uses:
        with pytest.raises(ConfigurationError, match=said):
            use()


def test_star_that_multiplies_or_takes_a_struct_apart_is_none_of_all_columns() -> None:
    rows = stream("orders", schema="amount BIGINT, place STRUCT<city: STRING>")

    assert rows.select("(amount) * 2 AS twice", "struct(place.*) AS place", "concat('(*', '') AS text").columns


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("over + (amount)", id="a-column"),
        pytest.param("concat(customer) || `over` || (customer)", id="a-quoted-column"),
        pytest.param("customer = ') over (' OR customer = \"sum(x)\"", id="text"),
        pytest.param("over(amount)", id="a-function"),
        pytest.param("abs(amount) > over (amount)", id="a-function-behind-a-call"),
        pytest.param("aggregate(tags, 0, (n, tag) -> n + 1)", id="of-an-array"),
        pytest.param("customer LIKE ANY ('a%', 'b%')", id="like-any"),
        pytest.param("amount > (SELECT max(col1) FROM VALUES (1), (2))", id="a-subquery"),
        pytest.param("amount /* sum(amount) */ > 1", id="a-comment"),
        pytest.param("`sum` + (amount)", id="a-column-named-as-an-aggregate"),
    ],
)
def test_expression_that_needs_its_own_row_alone_passes(expression: str) -> None:
    others = stream("others", schema="customer STRING, amount BIGINT, sum BIGINT, over BIGINT, tags ARRAY<STRING>")

    assert others.with_column("x", expression).steps == (WithColumn("x", expression),)


def test_text_as_event_time_is_told_what_fails_the_task_and_what_does_not() -> None:
    texts = stream("o", schema="k STRING, at STRING", key="k", event_time="at", watermark="1 minute")

    with pytest.raises(
        ConfigurationError, match=r"try_to_timestamp\(\) and try_cast\(\).*to_timestamp\(\) fails the task"
    ):
        texts.group_by("k", window("at", "1 hour"))


def test_window_over_windows_that_may_still_change_is_told_to_close_them() -> None:
    rows = stream("in", "k STRING, at TIMESTAMP", key="k", event_time="at", watermark="1 minute")
    open_ = rows.group_by("k", window("at", "1 hour")).aggregate(F.count().alias("n")).to_stream()

    with pytest.raises(ConfigurationError, match="close them first, with aggregate"):
        open_.group_by("k", window("window", "1 day"))


def test_key_of_a_sink_that_there_is_not_is_named_as_such() -> None:
    with pytest.raises(ConfigurationError, match=r"sink\(\) names the column 'zz'"):
        stream("in", "k STRING", key="k").sink("out", key="zz")
