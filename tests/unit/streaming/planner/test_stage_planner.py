from __future__ import annotations

import pickle
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import Aggregator, StatefulJob, stream
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.merge_aggregation import MergeAggregation, PartialAggregation
from airflow_provider.streaming.language.sink import Sink
from airflow_provider.streaming.language.stream import Stream
from airflow_provider.streaming.operations.process import Process, Row, ValueState
from airflow_provider.streaming.operations.repartition import Repartition
from airflow_provider.streaming.planner.stage_plan import StagePlan
from airflow_provider.streaming.planner.stage_planner import plan_stages
from airflow_provider.streaming.terms.steps import CompositeKey, step_text

SCHEMA = "customer STRING, country STRING, amount DOUBLE"
ORDERS = stream("orders", schema=SCHEMA)
KEYED = stream("orders", schema=SCHEMA, key="customer")
SPENT = F.sum("amount").alias("spent")
SPENT_MOST = F.max("spent").alias("most")


def keep(key: str, rows: list[Row], state: ValueState) -> None:
    state.update(len(rows))


def test_result_without_sink_is_state_that_nothing_is_written_of() -> None:
    spent = KEYED.group_by("customer").aggregate(SPENT, name="spent")

    (stage,) = StatefulJob("app", spent).stages

    assert (stage.name, stage.store, stage.output_topic) == ("spent", "spent", None)


def test_result_without_sink_and_without_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"has no name for its store: name that with aggregate\(name=...\)"):
        StatefulJob("app", KEYED.group_by("customer").aggregate(SPENT))


def test_group_of_the_records_key_is_taken_from_its_partition_and_checked() -> None:
    (stage,) = plan_stages("app", [KEYED.group_by("Customer").aggregate(SPENT).sink("out")])

    assert (stage.number, stage.name, stage.store, stage.source_topic) == (0, "out", "out", "orders")
    assert not stage.internal
    assert not stage.trust_partitioning
    assert stage.output_topic == "out"


def test_trusted_partitioning_needs_no_internal_topic() -> None:
    (stage,) = plan_stages("app", [ORDERS.group_by("country", trust_partitioning=True).aggregate(SPENT).sink("out")])

    assert stage.trust_partitioning


def test_aggregate_without_merge_is_not_combined_and_neither_are_those_beside_it() -> None:
    class InOrder(Aggregator):
        result_type = "STRING"

        def zero(self) -> str:
            return ""

        def add(self, state: str, *values: object) -> str:
            return state + str(values[0])

        def result(self, state: str) -> str:
            return state

    result = KEYED.group_by("country").aggregate(SPENT, F.udaf(InOrder(), "customer"))

    before, behind = plan_stages("app", [result.sink("out")])

    assert before.operation == Repartition(("amount", "customer"))
    assert behind.operation.text == "aggregate sum(amount) AS spent, InOrder(customer) AS InOrder(customer)"


def test_condition_goes_through_an_internal_topic_as_a_column() -> None:
    spent = F.sum("amount", filter="customer IS NOT NULL").alias("spent")
    grouped = KEYED.union(ORDERS).group_by("country")

    combined = plan_stages("app", [grouped.aggregate(spent).sink("out")])
    each = plan_stages("app", [grouped.aggregate(spent, combine=False).sink("out")])

    assert [[step_text(step) for step in stage.steps] for stage in combined[:2]] == [
        [f"with_column {spent.where} = customer IS NOT NULL"]
    ] * 2
    assert combined[0].operation.text == "combine sum(amount WHERE customer IS NOT NULL) AS spent"
    assert each[0].operation == Repartition(("amount", str(spent.where)))


def test_another_group_goes_through_an_internal_topic_in_parts() -> None:
    sink = KEYED.filter("amount > 0", name="free").group_by("country", partitions=3).aggregate(SPENT).sink("out")

    before, behind = plan_stages("app", [sink])

    assert before == StagePlan(
        number=0,
        name="out-repartition",
        source_topic="orders",
        schema=SCHEMA,
        steps=KEYED.filter("amount > 0", name="free").steps,
        key="country",
        trust_partitioning=True,
        operation=PartialAggregation((SPENT,)),
        store=None,
        output_topic="app-out-repartition",
        output_partitions=3,
        feeds=True,
    )
    assert behind == StagePlan(
        number=1,
        name="out",
        source_topic="app-out-repartition",
        internal=True,
        key="country",
        trust_partitioning=True,
        operation=MergeAggregation((SPENT,)),
        store="out",
        output_topic="out",
    )


def test_function_gets_the_rows_themselves() -> None:
    before, behind = plan_stages("app", [ORDERS.group_by("country").process(keep, ["amount"]).sink("out")])

    assert before.operation == Repartition(("amount",))
    assert behind.operation == Process(keep, ("amount",))


def test_rows_are_not_combined_where_that_is_not_wanted() -> None:
    before, behind = plan_stages("app", [ORDERS.group_by("country").aggregate(SPENT, combine=False).sink("out")])

    assert before.operation == Repartition(("amount",))
    kept = KEYED.group_by("customer").aggregate(SPENT).origin
    assert kept is not None
    assert behind.operation == kept.operation


def test_several_columns_are_one_key() -> None:
    before, behind = plan_stages("app", [ORDERS.group_by("country", "customer").aggregate(SPENT).sink("out")])

    assert before.steps == (CompositeKey("country,customer", ("country", "customer")),)
    assert (before.key, behind.key, behind.steps) == ("country,customer", "country,customer", ())


def test_rows_without_an_operation_are_one_stage_without_a_store() -> None:
    (stage,) = plan_stages("app", [KEYED.select("customer AS who", "amount").sink("copies")])

    assert (stage.key, stage.store, stage.output_topic) == ("who", None, "copies")
    assert stage.operation == Repartition(("who", "amount"))


def test_names_are_given_or_those_of_the_sinks() -> None:
    named = ORDERS.group_by("country").aggregate(SPENT, name="totals").sink("per-country")
    unnamed = ORDERS.group_by("country").aggregate(SPENT).sink("others")

    stages = plan_stages("app", [named, unnamed])

    assert [stage.store for stage in stages] == [None, "totals", None, "others"]
    assert [stage.output_topic for stage in stages][::2] == ["app-totals-repartition", "app-others-repartition"]


def test_result_that_two_sinks_use_is_made_once() -> None:
    counts = ORDERS.group_by("country").aggregate(SPENT)

    stages = plan_stages("app", [counts.sink("one"), counts.sink("two")])

    assert [(stage.source_topic, stage.outputs) for stage in stages] == [
        ("orders", ("app-one-repartition",)),
        ("app-one-repartition", ("one", "two")),
    ]


def test_result_that_is_kept_and_written_is_made_once() -> None:
    counts = ORDERS.group_by("country").aggregate(SPENT, name="counts")

    stages = plan_stages("app", [counts, counts.sink("one")])

    assert [stage.outputs for stage in stages] == [("app-counts-repartition",), ("one",)]


@pytest.mark.parametrize("name", [None, "most-aggregate"])
def test_aggregates_of_aggregates_have_topics_of_their_own(name: str | None) -> None:
    spent = ORDERS.group_by("customer", "country").aggregate(SPENT, name=name)
    most = spent.to_stream().group_by("country").aggregate(SPENT_MOST)

    stages = plan_stages("app", [most.sink("most")])

    assert [stage.source_topic for stage in stages] == [
        "orders",
        "app-most-aggregate-repartition",
        "app-most-aggregate-rows-repartition",
        "app-most-repartition",
    ]


@pytest.mark.parametrize(
    ("sinks", "why"),
    [
        pytest.param(
            [
                ORDERS.group_by("country").aggregate(SPENT, name="most-aggregate").sink("spent"),
                ORDERS.group_by("customer")
                .aggregate(SPENT, name="x")
                .to_stream()
                .group_by("customer")
                .aggregate(SPENT_MOST, name="most")
                .sink("most"),
            ],
            "would read one internal topic, 'app-most-aggregate-repartition'",
            id="one-internal-topic",
        ),
        pytest.param(
            [ORDERS.group_by("country").aggregate(SPENT, name="totals").sink(topic) for topic in ("a", "b")],
            "^The sinks 'a' and 'b' are of branches of one name, 'totals'",
            id="one-name",
        ),
        pytest.param(
            [ORDERS.group_by(key).aggregate(SPENT).sink("x") for key in ("country", "customer")],
            "^Two sinks of job 'app' name the same topic 'x'",
            id="one-topic-of-results",
        ),
        pytest.param([KEYED.group_by("customer").aggregate(SPENT).sink("_x")], "name that with aggregate", id="topic"),
        pytest.param(
            [KEYED.sink("a"), ORDERS.sink("a", key="country")], "^Two sinks .* the same topic 'a'", id="one-topic"
        ),
        pytest.param([KEYED.sink("orders")], "stream.. and sink.. of job 'app' name the same topic", id="source"),
        pytest.param(
            [ORDERS.group_by("country").aggregate(SPENT).sink("x"), KEYED.sink("app-x-repartition")],
            "the internal topic of its stage 1",
            id="internal",
        ),
        pytest.param([KEYED.sink("app-0-commits")], "the commits topic of its stage 0", id="commits"),
        pytest.param(
            [KEYED.group_by("customer").aggregate(SPENT).sink("x"), KEYED.sink("app-x-changelog")],
            "the changelog of its store 'x'",
            id="changelog",
        ),
        pytest.param([KEYED], r"got the stream 'orders' without sink\(\): write it to a topic", id="no-sink"),
    ],
)
def test_topics_and_names_that_cannot_be_told_apart_are_refused(sinks: list[Sink], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        StatefulJob("app", *sinks)


def test_dead_letters_get_a_topic_of_their_own() -> None:
    job = StatefulJob("app", KEYED.sink("copies"))

    with pytest.raises(ConfigurationError, match="name the same topic 'copies'"):
        job.on_error("dead_letter", topic="copies")
    assert job.on_error("dead_letter", topic="letters").stages == job.stages


def test_settings_leave_the_sinks_as_they_are() -> None:
    job = StatefulJob("app", KEYED.sink("copies")).certify(None).options(max_offsets_per_trigger=10)

    assert (job.certify_interval_s, job.max_offsets_per_trigger, len(job.sinks)) == (None, 10, 1)


def test_argument_that_no_job_has_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sinc'"):
        StatefulJob("app", sinc="x")


# -- any graph ---------------------------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    found = stream(f"in-{draw(st.integers(0, 2))}", schema=SCHEMA, key=draw(st.sampled_from([None, "customer"])))
    for _ in range(draw(st.integers(0, 3))):
        found = draw(
            st.sampled_from(
                [
                    found.filter("amount > 0", name="free"),
                    found.with_column("customer", "upper(customer)"),
                    found.select("*", "explode(split(country, '-')) AS part", name="nothing")
                    if "part" not in (found.columns or ())
                    else found,
                ]
            )
        )
    return found


@st.composite
def sink(draw: st.DrawFn, topic: str) -> Sink:
    rows = draw(streams())
    columns = draw(st.lists(st.sampled_from(["customer", "country"]), min_size=1, max_size=2, unique=True))
    kind = draw(st.sampled_from(["aggregate", "process", "rows"]))
    if kind == "rows":
        return rows.sink(topic, key=columns[0])
    grouped = rows.group_by(*columns, trust_partitioning=draw(st.booleans()))
    name = draw(st.sampled_from([None, f"{topic}-state"]))
    if kind == "process":
        return grouped.process(keep, ["amount"], name=name).sink(topic)
    return grouped.aggregate(SPENT, name=name, combine=draw(st.booleans())).sink(topic)


@st.composite
def many_sinks(draw: st.DrawFn) -> list[Sink]:
    topics = draw(
        st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=4).map("out-{}".format), min_size=1, max_size=6,
                 unique=True)
    )  # fmt: skip
    return [draw(sink(topic)) for topic in topics]


# A busy machine is no finding.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(many_sinks())
def test_stages_of_any_graph_go_one_way(sinks: list[Sink]) -> None:
    stages = StatefulJob("app", *sinks).stages

    assert [stage.number for stage in stages] == list(range(len(stages)))
    writers = {stage.output_topic: stage.number for stage in stages}
    assert len(writers) == len(stages)  # each topic is written by one stage
    between = [stage for stage in stages if stage.internal]
    assert len({stage.source_topic for stage in between}) == len(between)  # and read by one, if it is internal
    assert all(writers[stage.source_topic] < stage.number for stage in between)
    assert not [stage for stage in stages if not stage.internal and stage.source_topic in writers]
    assert [stage.output_topic for stage in stages if stage.output_topic in {one.topic for one in sinks}] == [
        one.topic for one in sinks
    ]
    stores = [stage.store for stage in stages if stage.store is not None]
    assert len(set(stores)) == len(stores)
    assert pickle.loads(pickle.dumps(stages)) == stages


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(many_sinks())
def test_sink_at_the_end_changes_nothing_before_it(sinks: list[Sink]) -> None:
    before = StatefulJob("app", *sinks[:-1]).sinks if sinks[:-1] else ()
    after = StatefulJob("app", *sinks).stages

    assert after[: len(plan_stages("app", before))] == plan_stages("app", before)
