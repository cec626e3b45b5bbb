from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider.common.json_codec import from_json, to_json
from airflow_provider.control.application.job_change import numbered_after, refuse_change, refuse_other_stages
from airflow_provider.control.application.job_text import description_text
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import StatefulJob, stream, table, window
from airflow_provider.streaming import functions as F
from airflow_provider.streaming.aggregates.aggregate import Aggregate
from airflow_provider.streaming.aggregates.windowed_aggregate import Emit
from airflow_provider.streaming.language.sink import Sink

COUNT = F.count().alias("n")
ORDERS = stream("orders", schema="customer STRING, country STRING, amount DOUBLE", key="customer")
INVOICES = stream("invoices", schema="customer STRING, country STRING, amount DOUBLE", key="customer")
CUSTOMERS = table("customers", schema="customer STRING, city STRING", key="customer")
SHARED = ORDERS.join(CUSTOMERS, on="customer")


def per_customer(*more: Aggregate) -> Sink:
    """A stage with a store."""
    return ORDERS.group_by("customer").aggregate(COUNT, *more, name="customers").sink("per-customer")


def per_country(*more: Aggregate, partitions: int | None = None, name: str = "countries", combine: bool = True) -> Sink:
    """A stage without a store, and one with."""
    grouped = ORDERS.group_by("country", partitions=partitions)
    return grouped.aggregate(COUNT, *more, name=name, combine=combine).sink("per-country")


def large(topic: str = "large") -> Sink:
    """A stage without a store."""
    return ORDERS.filter("amount > 9", name="other").sink(topic)


def small(topic: str = "small") -> Sink:
    return ORDERS.filter("amount <= 9", name="other").sink(topic)


def described(*sinks: Sink, before: JobDescription | None = None, orders: int = 4) -> JobDescription:
    """A version of the job, as it is kept once its topics are there."""
    job: JobDescription = numbered_after(before, StatefulJob("app", *sinks).description())
    return job.with_partitions({"orders": orders, "customers": 4, "invoices": 4}).after(before)


JOIN = ORDERS.join(CUSTOMERS, on="customer").sink("with-city")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param([per_customer()], [per_customer(), per_country()], id="stages-and-a-store-added"),
        pytest.param([per_customer()], [per_customer(), JOIN], id="join-added"),
        pytest.param([per_customer()], [per_customer(F.sum("amount").alias("spent"))], id="aggregate-added"),
        pytest.param([per_customer(), per_country()], [per_customer()], id="last-sink-removed"),
        pytest.param([per_country()], [per_country(F.sum("amount").alias("spent"))], id="aggregate-added-to-what-goes"),
        pytest.param([large()], [large("larger")], id="sink-renamed"),
        pytest.param([per_country()], [per_country(name="lands")], id="store-renamed"),
        pytest.param([per_country()], [per_country(partitions=4)], id="partitions-chosen-as-they-were-copied"),
    ],
)
def test_what_goes_on_is_taken(before: list[Sink], now: list[Sink]) -> None:
    refuse_change(described(*before), described(*now))


@pytest.mark.parametrize(
    ("versions", "numbers"),
    [
        pytest.param(
            [[large(), per_country()], [per_country()]],
            {"countries-repartition": 1, "countries": 2},
            id="first-sink-removed",
        ),
        pytest.param([[large(), small()], [small(), large()]], {"large": 0, "small": 1}, id="sinks-swapped"),
        pytest.param([[per_customer()], [large(), per_customer()]], {"customers": 0, "large": 1}, id="sink-put-before"),
        pytest.param(
            [[per_customer()], [per_country()], [per_customer(), per_country()]],
            {"customers": 0, "countries-repartition": 1, "countries": 2},
            id="sink-of-other-stages-in-the-place-of-one-that-is-put-back",
        ),
        pytest.param([[large()], [small()]], {"small": 1}, id="another-sink-in-the-place-of-one"),
        pytest.param([[large()], [INVOICES.sink("invoiced")]], {"invoiced": 1}, id="another-sink-of-another-source"),
        pytest.param(
            [[large(), per_country()], [per_country()], [small(), per_country()]],
            {"countries-repartition": 1, "countries": 2, "small": 3},
            id="sink-put-where-another-was",
        ),
        pytest.param(
            [[large(), small(), per_customer()], [per_customer()], [small(), per_customer(), large()]],
            {"large": 0, "small": 1, "customers": 2},
            id="sinks-put-back-elsewhere",
        ),
        pytest.param(
            [
                [per_country()],
                [ORDERS.union(INVOICES).group_by("country").aggregate(COUNT, name="countries").sink("per-country")],
            ],
            {"countries-repartition": 0, "countries": 1, "countries-repartition-2": 2},
            id="stream-united",
        ),
    ],
)
def test_stages_keep_their_numbers_by_their_names(versions: list[list[Sink]], numbers: dict[str, int]) -> None:
    kept = deployed(*versions)

    assert kept is not None
    assert {stage.name: stage.number for stage in kept.stages} == numbers
    assert {name for name in kept.own if name.endswith("-commits")} == {
        f"app-{stage.number}-commits" for stage in kept.stages if stage.store is None
    }
    job = StatefulJob("app", *versions[-1]).numbered(numbers)
    refuse_other_stages(kept, job.description())
    assert job.description().with_partitions({"orders": 4, "customers": 4, "invoices": 4}).own == kept.own


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        pytest.param(
            [large(), ORDERS.group_by("customer").aggregate(COUNT, name="counts").sink("out")],
            [ORDERS.group_by("country").aggregate(COUNT, name="counts").sink("out")],
            r"stage 1 \(counts\) reads 'app-counts-repartition', and read 'orders'",
            id="behind-an-internal-topic-now",
        ),
        pytest.param(
            [SHARED.sink("joined"), SHARED.filter("amount > 9", name="other").sink("large-joined")],
            [SHARED.filter("amount > 9", name="other").sink("large-joined"), SHARED.sink("joined")],
            r"store 'joined' is gone, and 'large-joined-join', which does the same, .*keep that one with name='joined'",
            id="shared-join-is-named-otherwise",
        ),
        pytest.param(
            [per_country(partitions=2)],
            [per_country(partitions=3)],
            "'app-countries-repartition' has 2 partitions and was to have 3 .*choose 2",
            id="other-partitions-chosen",
        ),
        pytest.param(
            [per_country(partitions=2)],
            [per_country()],
            "has 2 partitions and was to have 4",
            id="copied-where-they-were-chosen",
        ),
        pytest.param(
            [large()],
            [INVOICES.sink("large")],
            r"stage 0 \(large\) reads 'invoices', and the one of that number \(large\) read 'orders'",
            id="another-source",
        ),
    ],
)
def test_what_cannot_go_on_is_refused_with_the_ways_out(before: list[Sink], now: list[Sink], why: str) -> None:
    first = described(*before)
    last = described(*now, before=first)
    with pytest.raises(ConfigurationError, match=f"{why}.*add new ones behind them; or .* id; or reset"):
        refuse_change(first, last)


def in_time(emit: Emit = "update", every: str = "1 hour") -> Sink:
    timed = stream("orders", schema="customer STRING, at TIMESTAMP", event_time="at", watermark="0 seconds")
    return timed.group_by("customer", window("at", every)).aggregate(COUNT, name="hours", emit=emit).sink("hours")


def with_city(**time_or_place: Any) -> Sink:
    cities = table("customers", schema="customer STRING, city STRING, at TIMESTAMP", key="customer", **time_or_place)
    return ORDERS.join(cities, on="customer", name="cities").sink("with-city")


SPENT = F.sum("amount").alias("spent")
MISREAD = {
    "aggregate": (
        per_country(SPENT),
        per_country(F.max("amount").alias("spent")),
        r"stage 1 \(countries\): the aggregate 'spent': sum\(amount\) became max\(amount\)",
    ),
    "combine": (per_country(), per_country(combine=False), r"stage 1 \(countries\): combine=True became combine=False"),
    "key": (
        per_country(),
        ORDERS.group_by("amount").aggregate(COUNT, name="countries").sink("per-country"),
        r"stage 0 \(countries-repartition\): group_by\('country'\) became group_by\('amount'\)",
    ),
    "window": (in_time(), in_time(every="2 hours"), r"window\(at, 1 hour\) became window\(at, 2 hours\)"),
    "emit": (in_time("close"), in_time("update"), 'emit="close" became emit="update"'),
    "table-in-every-task": (
        with_city(),
        with_city(broadcast=True),
        r"stage 2 \(cities\): a table's rows for a stream became all of a table's rows for a stream",
    ),
    "time-of-a-table": (
        with_city(),
        with_city(event_time="at"),
        r"stage 2 \(cities\): the time of the table 'customers': that of the record became event_time='at'",
    ),
}


@pytest.mark.parametrize(("before", "now", "why"), MISREAD.values(), ids=MISREAD)
def test_state_that_would_be_misread_is_refused_before_anything_is_deployed_or_run(
    before: Sink, now: Sink, why: str
) -> None:
    for refuse in (refuse_change, refuse_other_stages):
        with pytest.raises(ConfigurationError, match=f"this one would misread it: .*{why}.*Undo the change; or give"):
            refuse(described(before), described(now))


def test_description_comes_back_from_where_it_is_kept() -> None:
    job = described(per_country(SPENT), with_city())

    assert from_json(to_json(job), JobDescription) == job


def test_job_that_was_described_before_its_state_was_is_compared_by_its_stages_alone() -> None:
    kept = described(per_country(SPENT))
    unsigned = tuple(dataclasses.replace(stage, signature=None) for stage in kept.stages)

    refuse_change(dataclasses.replace(kept, stages=unsigned), described(per_country(F.max("amount").alias("spent"))))


def test_positions_of_a_stage_that_was_removed_are_not_taken_for_those_of_another() -> None:
    first = described(per_customer(), large())
    without = described(per_customer(), before=first)
    assert without.gone == ("app-1-commits",)

    with pytest.raises(ConfigurationError, match=r"stage 1 \(small\) has the number of one that was removed \(large\)"):
        refuse_change(without, described(per_customer(), small()))

    again = described(per_customer(), large())
    refuse_change(without, again)
    assert (again.after(without).gone, dict(again.after(without).stages_gone)) == ((), {})


def test_source_whose_partitions_were_changed_is_for_another_error() -> None:
    refuse_change(described(per_country()), described(per_country(), orders=6))


def test_first_version_is_taken() -> None:
    refuse_change(None, described(large()))


def test_topics_of_earlier_versions_are_listed_until_they_are_needed_again() -> None:
    first = described(per_customer(), per_country())
    without = described(per_customer(), before=first)

    assert without.gone == ("app-countries-repartition", "app-countries-changelog", "app-1-commits")
    assert description_text(without).splitlines()[-4:] == [
        "of an earlier version, deleted by a reset only:",
        "  app-countries-repartition",
        "  app-countries-changelog",
        "  app-1-commits",
    ]
    assert described(per_customer(), before=without).gone == without.gone
    assert described(per_customer(), per_country(), before=without).gone == ()


def test_one_task_is_not_counted_as_several() -> None:
    text = description_text(described(per_customer(), orders=1))

    assert "stage 0: customers, 1 task\n" in text
    assert "1 tasks" not in text


def test_instance_runs_the_stages_that_the_application_is_known_by_and_no_others() -> None:
    kept = described(per_customer())

    refuse_other_stages(kept, described(per_customer(F.sum("amount").alias("spent"))))
    refuse_other_stages(None, described(large()))
    with pytest.raises(ConfigurationError, match=r"stages 0: customers, 1: large, .* known by 0: customers: create"):
        refuse_other_stages(kept, described(per_customer(), large()))
    with pytest.raises(ConfigurationError, match=r"stages 0: customers, 1: large, .* known by 0: customers: create"):
        refuse_other_stages(kept, described(large(), per_customer()))


def deployed(*versions: list[Sink]) -> JobDescription | None:
    """Versions of the job, deployed one after the other."""
    kept: JobDescription | None = None
    for sinks in versions:
        now = described(*sinks, before=kept)
        refuse_change(kept, now)
        kept = now
    return kept


LANDS = per_country(name="lands")
PUT_BACK = {
    "renamed-and-back": ([per_country()], [LANDS], [per_country()]),
    "renamed-twice-and-back": ([per_country()], [LANDS], [per_country(name="states")], [per_country()]),
    "renamed-back-after-both-were-out": (
        [large(), per_country()],
        [large(), LANDS],
        [large()],
        [large(), LANDS],
        [large(), per_country()],
    ),
    "join-renamed-and-back": (
        [ORDERS.join(CUSTOMERS, on="customer", name="one").sink("with-city")],
        [ORDERS.join(CUSTOMERS, on="customer", name="other").sink("with-city")],
        [ORDERS.join(CUSTOMERS, on="customer", name="one").sink("with-city")],
    ),
}


@pytest.mark.parametrize("versions", PUT_BACK.values(), ids=PUT_BACK)
def test_stage_is_not_put_back_where_what_fed_it_went_on_without_it(versions: tuple[list[Sink], ...]) -> None:
    kept, last = deployed(*versions[:-1]), described(*versions[-1])

    for refuse in (refuse_change, refuse_other_stages):
        with pytest.raises(ConfigurationError, match=r"is put back, and what was to come .*another name=.*or reset"):
            refuse(kept, last)


def test_stage_that_was_fed_by_one_with_a_store_is_not_put_back_after_that_went_on_and_out() -> None:
    joined = ORDERS.join(CUSTOMERS, on="customer", name="customers")
    per_city = joined.group_by("city").aggregate(COUNT, name="cities").sink("per-city")

    alone = deployed([large(), per_city], [large(), joined.sink("joined")], [large()])
    with pytest.raises(ConfigurationError, match="is put back, and what was to come"):
        refuse_change(alone, described(large(), per_city))
    refuse_change(alone, described(large(), joined.sink("joined")))
    refuse_change(deployed([large(), per_city], [large()]), described(large(), per_city))


def test_what_an_earlier_version_of_this_package_did_not_keep_of_a_stage_that_is_gone_is_not_guessed() -> None:
    kept = deployed([large(), per_country()], [large()])
    assert kept is not None

    with pytest.raises(ConfigurationError, match="is put back, and what was to come"):
        refuse_change(dataclasses.replace(kept, left=()), described(large(), per_country()))


def test_stage_is_put_back_where_nothing_passed_it_by() -> None:
    again = deployed([large(), per_country()], [large()], [large(), per_country()])
    by_source = deployed([per_customer()], [ORDERS.group_by("customer").aggregate(COUNT, name="c").sink("c")])
    refuse_change(by_source, described(per_customer()))

    assert again is not None
    assert (again.left, again.gone) == ((), ())
    assert from_json(to_json(by_source), JobDescription) == by_source


def test_stage_is_not_put_back_with_another_meaning() -> None:
    kept = deployed([large(), per_country(SPENT)], [large()])

    with pytest.raises(ConfigurationError, match=r"would misread it: .*sum\(amount\) became max\(amount\)"):
        refuse_change(kept, described(large(), per_country(F.max("amount").alias("spent"))))
    again = described(large(), per_customer(), per_country(SPENT), before=kept)
    refuse_change(kept, again)
    assert [stage.number for stage in again.stages] == [0, 3, 1, 2]


def test_sink_does_not_go_on_at_the_positions_of_a_stage_that_fed_another() -> None:
    for before, now in ((per_country(), large()), (large(), per_country())):
        with pytest.raises(ConfigurationError, match=r"stage 0 .* has the number of one that is removed .*at its"):
            refuse_change(described(before), described(now))


def test_positions_that_were_left_are_not_taken_by_way_of_a_stage_with_a_store() -> None:
    kept = deployed([large(), small()], [large()], [large(), per_customer()])

    last = described(large(), ORDERS.filter("amount > 5", name="more").sink("customers"), before=kept)
    assert [(stage.name, stage.number) for stage in last.stages] == [("large", 0), ("customers", 2)]
    with pytest.raises(ConfigurationError, match=r"stage 2 \(customers\): aggregate\(\) became repartition\(\)"):
        refuse_change(kept, last)
